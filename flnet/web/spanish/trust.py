"""What is said of keys that are accepted, that wait and that stay out, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

EVENTS: Mapping[str, Mapping[str, str]] = {
    "trust_pending": {
        "{peer} at {address} with the fingerprint {part} waits for a person to accept it": (
            "{peer} en {address} con la huella {part} espera a que una persona lo acepte"
        ),
    },
    "trust_accepted": {
        "a person accepted {peer}": "una persona aceptó a {peer}",
        "a person accepted {peer}, and those whom it introduces": (
            "una persona aceptó a {peer} y a quienes este presente"
        ),
        "the settings accept {peer}": "los ajustes aceptan a {peer}",
    },
    "trust_rejected": {
        "a person rejected {peer}": "una persona rechazó a {peer}",
        "the settings accept {peer}, but a person turned it away here: it stays out": (
            "los ajustes aceptan a {peer}, pero una persona lo apartó aquí: sigue fuera"
        ),
    },
    "trust_forgotten": {
        "a person forgot {peer}; it stays out until it is accepted again": (
            "una persona olvidó a {peer}; queda fuera hasta que se acepte de nuevo"
        ),
    },
    "trust_introduced": {
        "{peer} introduced {other}, which is accepted": "{peer} presentó a {other}, que queda aceptado",
    },
    "trust_withdrawn": {
        "{peer} is not accepted any more: nobody vouches for it now": (
            "{peer} ya no está aceptado: nadie responde ahora por él"
        ),
        "{peer} is not accepted any more: the settings do not name it now": (
            "{peer} ya no está aceptado: los ajustes ya no lo nombran"
        ),
    },
    "trust_waits": {
        "this node waits to be accepted at {address}: {reason}": (
            "este nodo espera a ser aceptado en {address}: {reason}"
        ),
    },
    "peer_untrusted": {
        "{peer} is not accepted here any more": "{peer} ya no está aceptado aquí",
        "{peer} does not accept this node any more": "{peer} ya no acepta este nodo",
    },
    "trust_full": {
        "more than {count} strangers wait to be accepted; the oldest ones are left out": (
            "más de {count} desconocidos esperan a ser aceptados; los más antiguos quedan fuera"
        ),
    },
}
SPANISH: Mapping[str, str] = {
    "a person at {peer} has to accept the fingerprint {part} first": (
        "antes una persona en {peer} tiene que aceptar la huella {part}"
    ),
    "{peer} accepts this key already, and waits to be accepted in turn": (
        "{peer} ya acepta esta clave, y espera a ser aceptado a su vez"
    ),
    "{peer} is not accepted here any more": "{peer} ya no está aceptado aquí",
    "{peer} does not accept this node any more": "{peer} ya no acepta este nodo",
    "the key with the fingerprint {part} is not accepted here": (
        "la clave con la huella {part} no está aceptada aquí"
    ),
    "somebody asked without TLS (http://), and this node answers with TLS only": (
        "alguien preguntó sin TLS (http://), y este nodo solo responde con TLS"
    ),
    "somebody asked with TLS (https://), as nodes of a pinned mesh do, and this node answers without": (
        "alguien preguntó con TLS (https://), como los nodos de una malla de claves aceptadas, y este responde "
        "sin él"
    ),
    "{address}: its key is not accepted here": "{address}: su clave no está aceptada aquí",
    "{address}: its key is not accepted here (its fingerprint begins with {part})": (
        "{address}: su clave no está aceptada aquí (su huella empieza por {part})"
    ),
    "it speaks no TLS: its mesh is not pinned, and this one is": (
        "no habla TLS: su malla no es de claves aceptadas, y esta sí"
    ),
    "{address}: the key of its certificate is not the one that it names": (
        "{address}: la clave de su certificado no es la que nombra"
    ),
    "no accepted key is known here by {found}": "aquí no se conoce ninguna clave aceptada por {found}",
    "{count} keys are kept already; forget one first": "ya se guardan {count} claves; olvide una antes",
    "this is the key of this node itself": "esta es la clave de este mismo nodo",
    "expected a public key of {count} bytes in base64, or a fingerprint: {words}": (
        "se esperaba una clave pública de {count} bytes en base64, o una huella: {words}"
    ),
}
