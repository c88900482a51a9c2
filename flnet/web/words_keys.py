"""The texts of keys, fingerprints and ways to run a mesh, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "Keys": "Claves",
    "pinned mesh": "malla con nodos aceptados",
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
    "What nodes say to each other is encrypted, and each shows its own certificate.": (
        "Lo que se dicen los nodos va cifrado, y cada uno muestra su propio certificado."
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
    "A peer can be forgotten when it is dead or has left.": (
        "Se puede olvidar un nodo cuando está caído o se ha ido."
    ),
    "{peer} is forgotten here. Its name is free.": "{peer} se ha olvidado aquí. Su nombre queda libre.",
}
