"""Reasons, states and errors of rounds and of the mesh, in Spanish, with the parts of which sentences consist."""

from __future__ import annotations

from collections.abc import Mapping

_PARTS: Mapping[str, str] = {
    "{count} update": "{count} actualización",
    "{count} updates": "{count} actualizaciones",
    ", without {names}": ", sin {names}",
    " (not taking part: {reasons})": " (no participan: {reasons})",
    " (this node averaged alone)": " (este nodo promedió solo)",
    "{names} and {count} more": "{names} y {count} más",
    "accuracy here {accuracy} before, {later} after": "exactitud aquí {accuracy} antes, {later} después",
    "{error}; the model stays as it was": "{error}; el modelo queda como estaba",
    "the model stays as it was": "el modelo queda como estaba",
    "and {count} more": "y {count} más",
    "no data": "no hay datos",
    "none": "ninguno",
    "nothing": "nada",
    "lost": "se perdió",
    "the message": "el mensaje",
    "other methods": "otros métodos",
}
_ROUNDS: Mapping[str, str] = {
    "largest update": "actualización más grande",
    "merging rule": "regla de promedio",
    "clipping of updates": "recorte de actualizaciones",
    "{ratio} x the median": "{ratio} x la mediana",
    "to the norm {norm}": "a la norma {norm}",
    "left out: {names}": "excluidos: {names}",
    "its parameters are not those that it signed for": "sus parámetros no son los que firmó",
    "it moved {moved} from the base of the round, more than {ratio} times the median of {usual}": (
        "se movió {moved} desde la base de la ronda, más de {ratio} veces la mediana de {usual}"
    ),
    "its change points away from the median of all changes, with a cosine of {cosine}": (
        "su cambio apunta en sentido contrario a la mediana de todos los cambios, con un coseno de {cosine}"
    ),
    "it changed otherwise than its earlier updates let expect": (
        "cambió de otro modo que lo que sus actualizaciones anteriores hacían esperar"
    ),
    "not fetched again: {names}": "no obtenidos otra vez: {names}",
    "its update could not be fetched again: {reason}": "no se pudo obtener otra vez su actualización: {reason}",
    "there was no time to fetch its update again": "no hubo tiempo para obtener otra vez su actualización",
    "other updates came when they were fetched again: the sum holds what does not count": (
        "al pedirlas otra vez llegaron otras actualizaciones: la suma contiene lo que no cuenta"
    ),
    "ended by a restart of this node": "terminada por un reinicio de este nodo",
    "it was restarted before the start of this round had come": (
        "se reinició antes de que llegara el inicio de esta ronda"
    ),
    "its update could not be saved there: {error}": "su actualización no se pudo guardar allí: {error}",
    "the update cannot be kept here now ({error}); ask again": (
        "la actualización no se puede guardar aquí ahora ({error}); pida de nuevo"
    ),
    "state cannot be written: {error}": "el estado no se puede escribir: {error}",
    "the model that was kept does not fit the trainer any more: {reason}": (
        "el modelo guardado ya no encaja con el entrenador: {reason}"
    ),
    "paused by a person here": "una persona lo puso en pausa aquí",
    "this round is for nodes {kind}; it trains in the next one": (
        "esta ronda es para nodos {kind}; entrenará en la siguiente"
    ),
    "labelled otherwise": "con otras etiquetas",
    "the first rounds are for nodes labelled otherwise": "las primeras rondas son para nodos con otras etiquetas",
    "the last rounds are for nodes with labels of the desired space": (
        "las últimas rondas son para nodos con etiquetas del espacio deseado"
    ),
    "with labels of the desired space": "con etiquetas del espacio deseado",
    "not chosen": "no elegido",
    "its training goes on over this round, and counts when it is done": (
        "su entrenamiento sigue durante esta ronda y contará cuando termine"
    ),
    "{count} of {number} nodes were chosen": "se eligieron {count} de {number} nodos",
    "{trainer} is still loading its data": "{trainer} todavía está cargando sus datos",
    "{trainer} is still loading": "{trainer} todavía se está cargando",
    "it is still loading": "todavía se está cargando",
    "{trainer} cannot train: {error}": "{trainer} no puede entrenar: {error}",
    "{trainer} is paused by a person here; resume it to start rounds": (
        "una persona puso en pausa {trainer} aquí; reanúdelo para iniciar rondas"
    ),
    "{trainer} is {state}; resume it to start rounds": "{trainer}: {state}; reanúdelo para iniciar rondas",
    "round {number} is still {state} here; ask again when it is done": (
        "la ronda {number} todavía está aquí en la fase: {state}; pregunte de nuevo cuando termine"
    ),
    "round {number} is the last one that can be numbered": ("la ronda {number} es la última que se puede numerar"),
    "cut short: {peer} started round {number}": "interrumpida: {peer} inició la ronda {number}",
    "a start must bring parameters, or name their digest": (
        "un inicio debe traer los parámetros o nombrar su resumen criptográfico"
    ),
    "averaging failed: {reason}": "el promedio falló: {reason}",
    "training failed: {reason}": "el entrenamiento falló: {reason}",
    "training gave unusable parameters: {reason}": "el entrenamiento dio parámetros inservibles: {reason}",
    "round {number} is compared, but this node is in round {current}": (
        "se compara la ronda {number}, pero este nodo está en la ronda {current}"
    ),
    "round {number} is not averaged and measured here yet ({state})": (
        "la ronda {number} aún no está promediada y evaluada aquí ({state})"
    ),
    "its model is of round {number}, the mesh is in round {current}": (
        "su modelo es de la ronda {number}, la malla está en la ronda {current}"
    ),
    "its update could not be fetched: {reason}": "no se pudo obtener su actualización: {reason}",
    "the start of this round did not reach it": "el inicio de esta ronda no le llegó",
    "{trainer} has no hyper-parameters to change yet: {error}": (
        "{trainer} todavía no tiene hiperparámetros que cambiar: {error}"
    ),
    "{peer} is at {address} now": "{peer} está ahora en {address}",
    "the nodes do not agree on {words}": "los nodos no coinciden en {words}",
    "nor on {words}": "ni en {words}",
    "{key}: here {here}; there {there}": "{key}: aquí {here}; allí {there}",
    "{key}: the same {count} in another order": "{key}: los mismos {count} en otro orden",
    "{key}: only here {here}; only there {there}": "{key}: solo aquí {here}; solo allí {there}",
    "loading": "carga",
    "no_data": "sin datos",
    "idle": "inactivo",
    "fetching": "obtención del inicio",
    "training": "entrenamiento",
    "gathering": "espera de actualizaciones",
    "averaging": "promedio",
    "measuring": "evaluación",
    "exchanging": "intercambio de modelos",
}
_ERRORS: Mapping[str, str] = {
    "the body may have at most {limit} bytes here, but it has {got}": (
        "el cuerpo puede tener aquí como máximo {limit} bytes, pero tiene {got}"
    ),
    "more": "más",
    "{count} bytes": "{count} bytes",
    "this node has no trainer {trainer}; it has {known}": (
        "este nodo no tiene ningún entrenador {trainer}; tiene {known}"
    ),
    "{trainer} takes part in no round here: {reason}": "{trainer} no participa aquí en ninguna ronda: {reason}",
    "no endpoint {path} takes messages here": "aquí ningún punto de acceso {path} admite mensajes",
    "the message is for round {number}, but round {current} has been reached here": (
        "el mensaje es para la ronda {number}, pero aquí se ha llegado a la ronda {current}"
    ),
    "round {number} was started by {one} and by {other} at once; {winner} comes first and keeps it": (
        "la ronda {number} fue iniciada a la vez por {one} y por {other}; {winner} va primero y la conserva"
    ),
    "the id {peer} is this node's own; give the other node another FLNET_NODE_ID": (
        "el identificador {peer} es el de este nodo; dé al otro nodo otro FLNET_NODE_ID"
    ),
    "another node with the name {peer} and the fingerprint {part} is known here, and this one has {found}; give "
    "this one another FLNET_NODE_ID, or bring back its identity.key, or forget the other one at each node when it "
    "is gone for good": (
        "aquí se conoce otro nodo con el nombre {peer} y la huella {part}, y este tiene {found}; dé a este otro "
        "FLNET_NODE_ID, o recupere su identity.key, o haga que cada nodo olvide al otro cuando ya no vuelva"
    ),
    "the fingerprint {part}": "la huella {part}",
    "no key": "ninguna clave",
    "another node uses the name {peer}, and this one has not shown its key": (
        "otro nodo usa el nombre {peer}, y este no ha mostrado su clave"
    ),
    "no peer {peer} is known here": "aquí no se conoce ningún nodo {peer}",
    "{peer} takes part here; only who died, left, or shares its name can be forgotten": (
        "{peer} participa aquí; solo se puede olvidar a quien murió, se fue o comparte su nombre"
    ),
    "a person forgot it": "una persona lo olvidó",
    "it is called {peer} now": "ahora se llama {peer}",
    "it calls itself {peer}": "se llama {peer}",
    "another node with its name is at {address} now": "otro nodo con su nombre está ahora en {address}",
    "answered {status} {code}: {words}": "respondió {status} {code}: {words}",
    "must have 1 to {most} characters, not {count}": "debe tener de 1 a {most} caracteres, no {count}",
    "must be printable text without spaces at its ends": (
        "debe ser texto imprimible sin espacios en los extremos"
    ),
    "must be an IP address or a host name": "debe ser una dirección IP o un nombre de máquina",
    "must be the base64 of a public key of {count} bytes": (
        "debe ser el base64 de una clave pública de {count} bytes"
    ),
    "a fingerprint has {count} groups of {number} letters and digits": (
        "una huella tiene {count} grupos de {number} letras y cifras"
    ),
    "group {number} ({part}) has a typing error": "el grupo {number} ({part}) tiene un error de escritura",
    "only printable characters may stand here": "aquí solo puede haber caracteres imprimibles",
    "a whole number of {count} bits": "un número entero de {count} bits",
}
_MESH: Mapping[str, str] = {
    "no bootstrap peer has answered yet: {names}": "aún no ha respondido ningún nodo inicial: {names}",
    "does not answer": "no responde",
    "it does not answer": "no responde",
    "it left the mesh": "dejó la malla",
    "others say so": "lo dicen otros nodos",
    "a peer says so": "lo dice otro nodo",
    "{peer} says so": "lo dice {peer}",
    "no answer within {seconds} s": "sin respuesta en {seconds} s",
    "no answer in {seconds} s": "sin respuesta en {seconds} s",
    "no usable answer: {reason}": "sin respuesta utilizable: {reason}",
    "answered {status} instead of its state": "respondió {status} en lugar de su estado",
    "its address is not known any more": "su dirección ya no se conoce",
    "its answer cannot be used: {reason}": "su respuesta no se puede usar: {reason}",
    "{address}: {reason}": "{address}: {reason}",
    "{address}: no answer within {seconds} s": "{address}: sin respuesta en {seconds} s",
    "{address}: this node has closed its connections": "{address}: este nodo ha cerrado sus conexiones",
    "{address}: more than {most} bytes of answer": "{address}: más de {most} bytes de respuesta",
    "{address}: no connection": "{address}: sin conexión",
    "{address}: no answer (request lost)": "{address}: sin respuesta (se perdió la petición)",
    "{address}: no answer (reply lost)": "{address}: sin respuesta (se perdió la respuesta)",
    "no connection{cause}": "sin conexión{cause}",
    "no connection in time{cause}": "sin conexión a tiempo{cause}",
    "the connection broke{cause}": "se cortó la conexión{cause}",
    "the connection broke before the answer was complete{cause}": (
        "se cortó la conexión antes de completar la respuesta{cause}"
    ),
    "the answer was cut off{cause}": "la respuesta quedó cortada{cause}",
    "the answer is no HTTP{cause}": "la respuesta no es HTTP{cause}",
    "no answer in time{cause}": "sin respuesta a tiempo{cause}",
    "no request goes there{cause}": "allí no se envía ninguna petición{cause}",
    "no address of HTTP{cause}": "no es una dirección HTTP{cause}",
    "the request failed{cause}": "la petición falló{cause}",
    'expected "host:port"': 'se esperaba "máquina:puerto"',
    "{received} of {total} bytes": "{received} de {total} bytes",
    "the answer does not say how large its body is": "la respuesta no dice el tamaño de su cuerpo",
    "the body changed while it was transferred": "el cuerpo cambió durante la transferencia",
    "asked for the bytes from {start} on, but got {words}": (
        "se pidieron los bytes a partir del {start}, pero llegó {words}"
    ),
    "asked for the bytes from {start} on, but the whole body came, or another one": (
        "se pidieron los bytes a partir del {start}, pero llegó el cuerpo entero u otro"
    ),
    "expected a body, but the answer was {status}": "se esperaba un cuerpo, pero la respuesta fue {status}",
}
_NODE: Mapping[str, str] = {
    "the node is stopping": "el nodo se está deteniendo",
    "the node is not running": "el nodo no está en marcha",
    "something went wrong here; see the log": "algo salió mal aquí; consulte el registro",
    "{event} could not be handled: {reason}": "no se pudo tratar {event}: {reason}",
    "the updates of {names} were folded into a sum that is gone": (
        "las actualizaciones de {names} se acumularon en una suma que ya no existe"
    ),
    "an effect failed in a way that flnet does not know": "un efecto falló de una manera que flnet no conoce",
    "{trainer} has no model {digest} here; it has {known}": (
        "{trainer} no tiene aquí ningún modelo {digest}; tiene {known}"
    ),
    "{message} is no request": "{message} no es una petición",
    "{message} must bring parameters, but modelParams is missing": (
        "{message} debe traer parámetros, pero falta modelParams"
    ),
    "this node does not hold parameters of digest {digest} (any more)": (
        "este nodo no tiene (o ya no tiene) parámetros con el resumen {digest}"
    ),
    "the body holds no message": "el cuerpo no contiene ningún mensaje",
    "other parameters came than those asked for ({digest})": (
        "llegaron otros parámetros que los pedidos ({digest})"
    ),
    "the data of this trainer are generated samples": "los datos de este entrenador son muestras generadas",
    "this model is not the average of any round": "este modelo no es el promedio de ninguna ronda",
    ", because this node is training {names}": ", porque este nodo está entrenando {names}",
    "{trainer} offers no predictions: its trainer says nothing of its inputs": (
        "{trainer} no ofrece predicciones: su entrenador no dice nada de sus entradas"
    ),
    "format is {form}; expected {known}, with {names} after it for one of two models": (
        "el formato es {form}; se esperaba {known}, seguido de {names} para uno de dos modelos"
    ),
    "{trainer} has one model alone here, the common one: no personal model is set": (
        "aquí {trainer} tiene un solo modelo, el común: no se ha configurado un modelo personal"
    ),
    "the models of {trainer} hold private parameters ({names}), which leave this node for nobody else: "
    "sign in, or ask from the machine that it runs on": (
        "los modelos de {trainer} contienen parámetros privados ({names}), que no salen de este nodo: "
        "inicie sesión o pídalos desde la máquina en la que funciona"
    ),
    "{trainer} cannot be exported to ONNX: its trainer has no method for it": (
        "{trainer} no se puede exportar a ONNX: su entrenador no tiene ningún método para ello"
    ),
    "{count} others wait for the lane already{busy}; ask again later": (
        "ya hay otras {count} peticiones esperando su turno{busy}; pregunte de nuevo más tarde"
    ),
    "the turn of {trainer} did not come in {seconds} s{busy}; ask again": (
        "el turno de {trainer} no llegó en {seconds} s{busy}; pregunte de nuevo"
    ),
}

SPANISH: Mapping[str, str] = {**_PARTS, **_ROUNDS, **_ERRORS, **_MESH, **_NODE}
