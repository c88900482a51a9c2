"""Why signed requests and answers are refused, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "the message names another key than the one that signed it": (
        "el mensaje nombra otra clave que la que lo firmó"
    ),
    "the message is signed by another node than {peer}": "el mensaje está firmado por otro nodo que {peer}",
    "its answer names another key than the one that signed it": (
        "su respuesta nombra otra clave que la que la firmó"
    ),
    "its answer speaks for another node": "su respuesta habla por otro nodo",
    "another node than {peer} answers there": "allí responde otro nodo que {peer}",
    "the header Content-Digest states no {part} of the content": (
        "la cabecera Content-Digest no indica ningún {part} del contenido"
    ),
    "the signature covers {part}, which is not there": "la firma abarca {part}, que no está",
    "{part} cannot be signed: it is not one line of ASCII": (
        "{part} no se puede firmar: no es una línea de ASCII"
    ),
    "the keyid of the signature {words}": "el keyid de la firma {words}",
    "the header {part} {words}": "la cabecera {part} {words}",
    "the content is not the one that was signed: it changed on the way": (
        "el contenido no es el que se firmó: cambió por el camino"
    ),
    "requests between the nodes of this mesh are signed, and this one is not": (
        "las peticiones entre los nodos de esta malla van firmadas, y esta no lo está"
    ),
    "the request was signed for another node, or before this one was started again": (
        "la petición se firmó para otro nodo, o antes de que este volviera a arrancar"
    ),
    "this request was answered before; it is not taken a second time": (
        "esta petición ya se respondió; no se admite por segunda vez"
    ),
    "the nonce of the signature is no run and counter": "el nonce de la firma no es ejecución y contador",
    "expected the signatures {names}": "se esperaban las firmas {names}",
    "the two signatures do not cover the same": "las dos firmas no abarcan lo mismo",
    "the signature is not of this protocol: its tag is another one": (
        "la firma no es de este protocolo: su etiqueta es otra"
    ),
    "the signature must cover {part}; missing: {found}": "la firma debe abarcar {part}; falta: {found}",
    "the mesh key is another one there than here; give all nodes the same FLNET_MESH_KEY": (
        "la clave de la malla es allí otra que aquí; dé a todos los nodos el mismo FLNET_MESH_KEY"
    ),
    "the signature was not made with the key that it names": "la firma no se hizo con la clave que nombra",
    "its answer changed on the way: the content is not the one that was signed": (
        "su respuesta cambió por el camino: el contenido no es el que se firmó"
    ),
    "its answer ({status}) is not signed: this node is in a mesh with a key, and that one is not": (
        "su respuesta ({status}) no está firmada: este nodo está en una malla con clave, y aquel no"
    ),
    "its answer ({status}) is of another node than the one that was asked": (
        "su respuesta ({status}) es de otro nodo que el preguntado"
    ),
    "its answer ({status}) is not its own: {reason}": "su respuesta ({status}) no es suya: {reason}",
    "{address}: asks for another signature again and again": "{address}: pide otra firma una y otra vez",
    "this is for nodes of this mesh and persons of this node: sign in to read it": (
        "esto es para nodos de esta malla y personas de este nodo: inicie sesión para leerlo"
    ),
}
