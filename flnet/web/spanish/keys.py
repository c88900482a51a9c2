"""The texts of keys, fingerprints and ways to run a mesh, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "Keys": "Claves",
    "pinned mesh": "malla de claves aceptadas",
    "Whoever reaches a node may take part, under any name that is free. Use it on one machine, or in a network "
    "in which everybody is trusted.": (
        "Quien llegue a un nodo puede participar con cualquier nombre libre. Úsela en una sola máquina o en una "
        "red en la que se confíe en todos."
    ),
    "What nodes say to each other is neither signed nor encrypted.": (
        "Lo que se dicen los nodos no va firmado ni cifrado."
    ),
    "Nodes that know the common secret take part. All others are refused.": (
        "Participan los nodos que conocen el secreto común. Se rechaza a todos los demás."
    ),
    "What nodes say to each other is signed but not encrypted.": (
        "Lo que se dicen los nodos va firmado, pero no cifrado."
    ),
    "Nodes take part whose fingerprints a person accepted, here or at a node that may introduce others. All "
    "others wait.": (
        "Participan los nodos cuyas huellas ha aceptado una persona, aquí o en un nodo que puede presentar a "
        "otros. Los demás esperan."
    ),
    "What nodes say to each other is encrypted, and signed by each with its own key.": (
        "Lo que se dicen los nodos va cifrado, y firmado por cada uno con su propia clave."
    ),
    "Whole fingerprint": "Huella completa",
    "The whole fingerprint": "La huella completa",
    "The whole fingerprint as a QR code": "La huella completa como código QR",
    "Fingerprint": "Huella",
    "Public key": "Clave pública",
    "no key": "sin clave",
    "This node": "Este nodo",
    "This node has no key.": "Este nodo no tiene clave.",
    "Read these six words to whoever is to know this node, over the telephone for example. Of each word the first "
    "four letters are enough.": (
        "Lea estas seis palabras a quien deba conocer este nodo, por ejemplo por teléfono. De cada palabra bastan "
        "las cuatro primeras letras."
    ),
    "How the nodes of this mesh know each other": "Cómo se conocen los nodos de esta malla",
    "Peers": "Otros nodos",
    "By which keys this node knows its peers": "Las claves por las que este nodo conoce a los demás",
    "Forget": "Olvidar",
    "Forget it": "Olvidarlo",
    "Forget {peer}?": "¿Olvidar {peer}?",
    "Its name is free here afterwards, for a node with any key. If the same node comes back, it joins again.": (
        "Después su nombre queda libre aquí para un nodo con cualquier clave. Si el mismo nodo vuelve, se une de "
        "nuevo."
    ),
    "A peer can be forgotten when it is dead or has left, or when another node claims its name.": (
        "Se puede olvidar un nodo cuando está caído o se ha ido, o cuando otro nodo reclama su nombre."
    ),
    # a pinned mesh
    "forgotten": "olvidado",
    "Waiting to be accepted": "Esperan a ser aceptados",
    "Speak with the person at that node, over the telephone for example: read your words to each other. Accept it "
    "if both of you see the same.": (
        "Hable con la persona que está en ese nodo, por ejemplo por teléfono: léanse sus palabras. Acéptelo si "
        "ambos ven las mismas."
    ),
    "calls from {address}": "llama desde {address}",
    "since {time}": "desde {time}",
    "Words of {name}": "Palabras de {name}",
    "Words of this node": "Palabras de este nodo",
    "We compared the words, and both of us see the same": "Hemos comparado las palabras y ambos vemos las mismas",
    "It may introduce others: whom people accept there is accepted here": (
        "Puede presentar a otros: a quien se acepta allí se le acepta aquí"
    ),
    "Accept": "Aceptar",
    "Accept {peer}?": "¿Aceptar {peer}?",
    "Reject": "Rechazar",
    "Change": "Cambiar",
    "Change {peer}": "Cambiar {peer}",
    "It takes no part with this node any more, and stays out until a person here accepts it again. Those whom "
    "only it introduced go with it.": (
        "Ya no participa con este nodo y queda fuera hasta que una persona lo acepte aquí de nuevo. Con él se van "
        "aquellos a quienes solo él presentó."
    ),
    "Accepted": "Aceptados",
    "Whose keys this node trusts": "Las claves en las que confía este nodo",
    "has not called yet": "aún no ha llamado",
    "introducer": "presenta a otros",
    "introduced by {name}": "presentado por {name}",
    "accepted by the settings": "aceptado por los ajustes",
    "accepted by a person": "aceptado por una persona",
    "No key is accepted yet.": "Aún no se acepta ninguna clave.",
    "Accept a key that was read out, before its node calls": (
        "Aceptar una clave dictada antes de que llame su nodo"
    ),
    "Whole fingerprint, or public key": "Huella completa o clave pública",
    "I have it from the person at that node": "Me la ha dado la persona que está en ese nodo",
    "Kept out": "Se quedan fuera",
    "Keys that were rejected or forgotten, the newest first": (
        "Claves rechazadas u olvidadas, la más reciente primero"
    ),
    "{name} is accepted.": "{name} está aceptado.",
    "{name} is accepted, and so are those whom it introduces.": (
        "{name} está aceptado, y también aquellos a quienes presente."
    ),
    "{name} is rejected. It stays out until it is accepted.": (
        "{name} está rechazado. Queda fuera hasta que se acepte."
    ),
    "{name} is forgotten here. It stays out until it is accepted again.": (
        "{name} se ha olvidado aquí. Queda fuera hasta que se acepte de nuevo."
    ),
    "{peer} is forgotten here. Its name is free.": "{peer} se ha olvidado aquí. Su nombre queda libre.",
}
REFUSALS: Mapping[str, str] = {
    "a person has to accept the fingerprint of this node at {names}": (
        "una persona tiene que aceptar la huella de este nodo en {names}"
    ),
    "this mesh is not pinned: nobody waits here, and no key is accepted or turned away": (
        "esta malla no es de claves aceptadas: aquí nadie espera, y no se acepta ni se rechaza ninguna clave"
    ),
    "compare the fingerprints first, and say that you did": "compare antes las huellas y confirme que lo ha hecho",
    "do: expected accept, reject, forget or distrust": "do: se esperaba accept, reject, forget o distrust",
    "no key with the fingerprint {digest} is known here any more": (
        "aquí ya no se conoce ninguna clave con la huella {digest}"
    ),
}
