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
    "Change the merging rule": "Cambiar la regla de fusión",
    "{label} is merged by {rule} here. Choose the same on all other nodes.": (
        "{label} se fusiona aquí con {rule}. Elija la misma en todos los demás nodos."
    ),
    "It holds from the next round on. All nodes need the same rule: choose it on each of them.": (
        "Vale desde la próxima ronda. Todos los nodos necesitan la misma regla: elíjala en cada uno."
    ),
    "Examples of rules:": "Ejemplos de reglas:",
    "Whom this node gains from": "De quién se beneficia este nodo",
    "most from {peer}, {gain} points": "sobre todo de {peer}, {gain} puntos",
    "The newest round was not measured: {reason}": "La ronda más reciente no se midió: {reason}",
    "{label} in round {round}: {accuracy} with all, on {examples} rows; means over {count} rounds": (
        "{label} en la ronda {round}: {accuracy} con todos, sobre {examples} filas; medias de {count} rondas"
    ),
    "Accuracy without it": "Exactitud sin él",
    "What it brings, in points": "Lo que aporta, en puntos",
    "On average": "De media",
    "{count} peers in the middle are in the JSON": "{count} nodos del medio están en el JSON",
    "It is measured when a series of rounds is over.": "Se mide cuando termina una serie de rondas.",
    "Only persons of this node see this: the average made again without one peer, measured on the test rows "
    "here. Few rows, or one round alone, say little.": (
        "Solo lo ven las personas de este nodo: el promedio rehecho sin un nodo, medido con las filas de prueba "
        "de aquí. Pocas filas, o una sola ronda, dicen poco."
    ),
    "{names}: updates count little here": "{names}: sus actualizaciones cuentan poco aquí",
    "{peer} merges by {there}, this node by {here}": "{peer} fusiona con {there}, este nodo con {here}",
    "Nodes with different merging rules do not take each other's updates: choose the same on all of them.": (
        "Los nodos con reglas de fusión distintas no aceptan las actualizaciones de los otros: elija la misma en "
        "todos."
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
    "merging_rule_set": {
        "updates are merged by {rule} from now on, before by {before}; all nodes need the same rule": (
            "las actualizaciones se fusionan desde ahora con {rule}, antes con {before}; todos los nodos "
            "necesitan la misma regla"
        ),
    },
    "gains_measured": {
        "what each peer brought to round {number} is measured": (
            "se ha medido lo que aportó cada nodo a la ronda {number}"
        ),
    },
    "weight_recovered": {
        "the updates of {peer} count again": "las actualizaciones de {peer} vuelven a contar",
    },
}

SPANISH: Mapping[str, str] = {
    "the updates of a round are too large to be held on to": (
        "las actualizaciones de una ronda son demasiado grandes para guardarlas"
    ),
    "there were no updates of other nodes": "no había actualizaciones de otros nodos",
    "the trainer of {trainer} needs the merging rule {rule}": (
        "el entrenador de {trainer} necesita la regla de fusión {rule}"
    ),
    "scaffold changes local training too: set FLNET_AGGREGATION and start the node again": (
        "scaffold cambia también el entrenamiento local: ponga FLNET_AGGREGATION y vuelva a arrancar el nodo"
    ),
    "{trainer} is in a round or a series; the merging rule is changed between them": (
        "{trainer} está en una ronda o en una serie; la regla de fusión se cambia entre ellas"
    ),
    "it could not be measured: {error}": "no se pudo medir: {error}",
}
