"""What events say, in Spanish: sentences with gaps, by the kind of the event (see `flnet.web.sentences`)."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, Mapping[str, str]] = {
    # the mesh
    "peer_joined": {"{peer} joined at {address}": "{peer} se unió en {address}"},
    "peer_moved": {"{peer} moved from {address} to {other}": "{peer} se trasladó de {address} a {other}"},
    "peer_suspected": {"{peer} may be gone: {reason}": "puede que {peer} ya no esté: {reason}"},
    "peer_answers": {"{peer} answers again": "{peer} vuelve a responder"},
    "peer_left": {"{peer} left the mesh": "{peer} dejó la malla"},
    "peer_back": {"{peer} is back at {address}": "{peer} ha vuelto en {address}"},
    "refuted": {
        "a peer got no answer from this node; the mesh is told that it is here": (
            "un nodo no obtuvo respuesta de este; se comunica a la malla que sigue aquí"
        ),
        "{peer} got no answer from this node; the mesh is told that it is here": (
            "{peer} no obtuvo respuesta de este nodo; se comunica a la malla que sigue aquí"
        ),
    },
    "peer_lost": {"{peer} does not answer: {reason}": "{peer} no responde: {reason}"},
    "peer_pruned": {"{peer} was forgotten: {reason}": "{peer} fue olvidado: {reason}"},
    "peer_replaced": {"{peer} was forgotten: {reason}": "{peer} fue olvidado: {reason}"},
    "peer_key": {
        "{peer} is known by the fingerprint {part} from now on": (
            "{peer} se conoce desde ahora por la huella {part}"
        ),
    },
    "peer_forgotten": {
        "a person forgot {peer}; its name is free here": "una persona olvidó a {peer}; su nombre queda libre aquí",
    },
    "identity_conflict": {
        "a node at {address} calls itself {peer} and has {found}; it is refused, because {other} has {part}": (
            "un nodo en {address} se llama {peer} y tiene {found}; se rechaza, porque {other} tiene {part}"
        ),
        "{address} refuses this node: {reason}; trying again": (
            "{address} rechaza este nodo: {reason}; se vuelve a intentar"
        ),
    },
    "announce_failed": {
        "{address} does not answer the announcement ({reason}); trying again until it does": (
            "{address} no responde al anuncio ({reason}); se reintenta hasta que responda"
        ),
    },
    "mesh_full": {
        "{peer} was left out: this node already knows {count} peers": (
            "{peer} quedó fuera: este nodo ya conoce {count} nodos"
        ),
    },
    "address_refused": {
        "{peer} at {address} is not called: {reason}": "no se llama a {peer} en {address}: {reason}"
    },
    # what is kept on the disk
    "restored": {
        "{trainer} was last in round {round} ({phase}); it goes on there": (
            "{trainer} estaba en la ronda {round} ({phase}); continúa ahí"
        ),
    },
    "state_damaged": {
        "what was kept of {trainer} cannot be used: {error}; it begins anew": (
            "lo guardado de {trainer} no se puede usar: {error}; empieza de nuevo"
        ),
        "what was kept of {trainer} cannot be read: {error}": "lo guardado de {trainer} no se puede leer: {error}",
    },
    "key_was_open": {
        "others could read {file} (mode {mode}); only its owner can now. If strangers use this machine, "
        "`flnet keygen --new-identity` makes a key that nobody has seen": (
            "otros podían leer {file} (modo {mode}); ahora solo puede su propietario. Si hay extraños que usan "
            "esta máquina, `flnet keygen --new-identity` crea una clave que nadie ha visto"
        ),
    },
    "state_not_written": {
        "{error}; rounds go on in memory, and it is tried again": (
            "{error}; las rondas siguen en memoria, y se intenta de nuevo"
        ),
    },
    "state_written": {
        "state can be written again; nothing is left unsaved": (
            "el estado se puede escribir de nuevo; no queda nada sin guardar"
        ),
    },
    # the data
    "ready": {"{label} is ready: {source}": "{label} está listo: {source}"},
    "no_data": {"{trainer} takes part in no round: {reason}": "{trainer} no participa en ninguna ronda: {reason}"},
    # what people ask for
    "params_edited": {
        "hyper-parameters are now Learning Rate: {rate}, Epochs: {epochs}, Batch size: {batch}": (
            "los hiperparámetros son ahora Tasa de aprendizaje: {rate}, Épocas: {epochs}, Tamaño de lote: {batch}"
        ),
        "hyper-parameters are now {hyper}": "los hiperparámetros son ahora {hyper}",
    },
    "series_stopped": {
        "no further round is started here: {count} of those asked for is left out": (
            "aquí no se empieza ninguna ronda más: queda sin hacer {count} de las pedidas"
        ),
        "no further round is started here: {count} of those asked for are left out": (
            "aquí no se empieza ninguna ronda más: quedan sin hacer {count} de las pedidas"
        ),
    },
    "paused": {
        "{trainer} takes no part in rounds here until a person resumes it": (
            "{trainer} no participa aquí en ninguna ronda hasta que una persona lo reanude"
        ),
    },
    "resumed": {"{trainer} takes part in rounds again": "{trainer} vuelve a participar en las rondas"},
    # rounds
    "round_opened": {
        "round {number} of {trainer} was started by {initiator}": (
            "la ronda {number} de {trainer} fue iniciada por {initiator}"
        ),
    },
    "sits_out": {
        "this node sits the round out: {reason}": "este nodo no participa en la ronda: {reason}",
        "this node is not chosen for the round: {count} of {number} nodes train: {names}": (
            "este nodo no está elegido para la ronda: entrenan {count} de {number} nodos: {names}"
        ),
    },
    "fetching": {
        "fetching the model of round {number} from {peer}": "obteniendo el modelo de la ronda {number} de {peer}",
    },
    "fetch_failed": {
        "the model that round {number} starts from could not be fetched from {peer}: {reason}": (
            "no se pudo obtener de {peer} el modelo del que parte la ronda {number}: {reason}"
        ),
        "the update of {peer} could not be fetched: {reason}": (
            "no se pudo obtener la actualización de {peer}: {reason}"
        ),
    },
    "late_update": {
        "this node's update is {count} rounds late and counts for less": (
            "la actualización de este nodo llega con {count} rondas de retraso y cuenta menos"
        ),
    },
    "trained": {
        "trained on {count} examples since round {number}; accuracy here {accuracy}": (
            "entrenado con {count} ejemplos desde la ronda {number}; exactitud aquí {accuracy}"
        ),
        "trained on {count} examples; accuracy here {accuracy}": (
            "entrenado con {count} ejemplos; exactitud aquí {accuracy}"
        ),
    },
    "training_failed": {
        "training failed in round {number}: {reason}": "el entrenamiento falló en la ronda {number}: {reason}",
    },
    "update_received": {
        "update from {peer}: {count} of {number}": "actualización de {peer}: {count} de {number}",
    },
    "update_refused": {
        "the update of {peer} does not count: {reason}": "la actualización de {peer} no cuenta: {reason}",
        "the sum of this round holds what does not count, of {peers}; the other updates are fetched again": (
            "la suma de esta ronda contiene lo que no cuenta, de {peers}; las demás actualizaciones "
            "se piden otra vez"
        ),
    },
    "peer_declined": {"{peer} takes no part: {reason}": "{peer} no participa: {reason}"},
    "refused": {
        "{peer} refused {path}: {reason}": "{peer} rechazó {path}: {reason}",
        "the model of {peer} was not considered: {reason}": "no se tuvo en cuenta el modelo de {peer}: {reason}",
        "the start by {peer} came while loading: {reason}": (
            "el inicio por parte de {peer} llegó durante la carga: {reason}"
        ),
        "a request to {path} was refused by its head: {reason}": (
            "se rechazó una petición a {path} por su cabecera: {reason}"
        ),
        "a request from {caller} to {path} was refused: {reason}": (
            "se rechazó una petición de {caller} a {path}: {reason}"
        ),
    },
    "averaged": {
        "averaging was forced by the timer with {updates}{without}{alone}": (
            "el temporizador forzó el promedio con {updates}{without}{alone}"
        ),
        "averaging was forced by the next round with {updates}{without}{alone}": (
            "la ronda siguiente forzó el promedio con {updates}{without}{alone}"
        ),
        "averaged {updates}: everyone expected has spoken{because}{alone}": (
            "promedio de {updates}: han respondido todos los esperados{because}{alone}"
        ),
        "no update came{because}; the model stays as it was": (
            "no llegó ninguna actualización{because}; el modelo queda como estaba"
        ),
    },
    "measuring_failed": {
        "the average could not be measured: {reason}": "no se pudo evaluar el promedio: {reason}",
    },
    "measured": {"accuracy after averaging {accuracy}": "exactitud tras promediar {accuracy}"},
    "exchanged": {
        "adopted the model of {peer}: {accuracy} here, against {other}": (
            "se adoptó el modelo de {peer}: {accuracy} aquí, frente a {other}"
        ),
        "adopted the model of {peer}: most nodes began this round with another model than this one": (
            "se adoptó el modelo de {peer}: la mayoría de los nodos empezó esta ronda con otro modelo que este"
        ),
    },
    "round_closed": {
        "round {number} closed: {outcome}": "ronda {number} cerrada: {outcome}",
        "round {number} closed: {outcome}; accuracy here {accuracy} before, {later} after": (
            "ronda {number} cerrada: {outcome}; exactitud aquí {accuracy} antes, {later} después"
        ),
    },
}
