"""What is said of merging rules and of how much updates count, in Spanish: on the page, in events, in reasons."""

from __future__ import annotations

from collections.abc import Mapping

PAGES: Mapping[str, str] = {
    "Merging rule": "Regla de fusión",
    "How each update counted": "Cuánto contó cada actualización",
    "{counted} of {all} in round {round}": "{counted} de {all} en la ronda {round}",
    "{count} left out": "{count} sin contar",
    "weights from {low} to {high}, an equal share is {equal}": (
        "pesos de {low} a {high}, una parte igual es {equal}"
    ),
    "The updates of {label} in round {round}": "Las actualizaciones de {label} en la ronda {round}",
    "{count} more updates, all like these or nearer to the middle, are in the JSON": (
        "{count} actualizaciones más, todas como estas o más cercanas al centro, están en el JSON"
    ),
    "Weight": "Peso",
    "Length": "Longitud",
    "Direction": "Dirección",
    "Consistency": "Coherencia",
    "Verdict": "Veredicto",
    "counts": "cuenta",
    "counts little": "cuenta poco",
    "left out": "descartada",
    "since round {round}": "desde la ronda {round}",
    "Weights in the average by round": "Pesos en el promedio por ronda",
    "Weights of {label} by round": "Pesos de {label} por ronda",
    "Lengths of the updates by round": "Longitud de las actualizaciones por ronda",
    "Lengths of {label} by round": "Longitudes de {label} por ronda",
    "The same figures, the newest round first": "Las mismas cifras, la ronda más reciente primero",
    "Weight: the share of the average. Length: how far the update moved, as a multiple of the median. Direction: "
    "the cosine to the median of all updates, from -1 to 1. Consistency: how far it lies from what was "
    "predicted of it, as a share of all such distances.": (
        "Peso: la parte del promedio. Longitud: cuánto se movió la actualización, como múltiplo de la mediana. "
        "Dirección: el coseno con la mediana de todas las actualizaciones, de -1 a 1. Coherencia: a qué distancia "
        "está de lo que se predijo de ella, como parte de todas esas distancias."
    ),
    "{names}: updates count little here": "{names}: sus actualizaciones cuentan poco aquí",
    "{peer} merges by {there}, this node by {here}": "{peer} fusiona con {there}, este nodo con {here}",
    "Nodes with different merging rules do not take each other's updates: set FLNET_AGGREGATION alike on all of "
    "them, and start them again.": (
        "Los nodos con reglas de fusión distintas no aceptan las actualizaciones de los otros: ponga el mismo "
        "FLNET_AGGREGATION en todos y vuelva a arrancarlos."
    ),
}

EVENTS: Mapping[str, Mapping[str, str]] = {
    "weight_collapsed": {
        "the updates of {peer} count little since round {number}: {weight} % of the average, {fair} % was fair": (
            "las actualizaciones de {peer} cuentan poco desde la ronda {number}: {weight} % del promedio, lo "
            "justo era {fair} %"
        ),
        "the updates of {peer} have been left out since round {number}: {reason}": (
            "las actualizaciones de {peer} se descartan desde la ronda {number}: {reason}"
        ),
    },
    "weight_recovered": {
        "the updates of {peer} count again": "las actualizaciones de {peer} vuelven a contar",
    },
}
