"""The texts of goals in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "Keep training until ...": "Seguir entrenando hasta que ...",
    "Until": "Hasta que",
    "the mean accuracy of all nodes reaches": "la exactitud media de todos los nodos alcance",
    "the accuracy on every node reaches": "la exactitud en cada nodo alcance",
    "the accuracy on this node reaches": "la exactitud en este nodo alcance",
    "rounds bring no more gain": "las rondas ya no aporten mejora",
    "Accuracy to reach": "Exactitud que alcanzar",
    "Rounds without gain": "Rondas sin mejora",
    "What counts as gain": "Lo que cuenta como mejora",
    "Rounds at most": "Rondas como máximo",
    "Minutes at most (may be empty)": "Minutos como máximo (puede quedar vacío)",
    "Keep training": "Seguir entrenando",
    "All nodes decide alike after every round. A number counts only where it belongs to the choice.": (
        "Todos los nodos deciden lo mismo tras cada ronda. Un número cuenta solo si corresponde a lo elegido."
    ),
    "Rounds until the goal, at most": "Rondas hasta el objetivo, como máximo",
    "Goal reached in round {round}": "Objetivo alcanzado en la ronda {round}",
    "Goal given up in round {round}": "Objetivo abandonado en la ronda {round}",
    "until {goal}": "hasta que {goal}",
    "{done} of at most {rounds} rounds": "{done} de {rounds} rondas como máximo",
    "mean accuracy {accuracy} of {nodes} nodes": "exactitud media {accuracy} de {nodes} nodos",
    "the best so far {accuracy}": "la mejor hasta ahora {accuracy}",
    "asked for at {node}": "pedido en {node}",
    " or ": " o ",
    "the mean accuracy of all nodes is {least}": "la exactitud media de todos los nodos sea {least}",
    "the accuracy on every node is {least}": "la exactitud en cada nodo sea {least}",
    "the accuracy on the node asked is {least}": "la exactitud en el nodo al que se pidió sea {least}",
    "{rounds} rounds bring no more than {delta}": "{rounds} rondas no aporten más de {delta}",
    "accuracy falls and loss rises twice running": "la exactitud baje y la pérdida suba dos veces seguidas",
    "the means of accuracy and loss over all rounds get worse twice running": (
        "las medias de exactitud y pérdida de todas las rondas empeoren dos veces seguidas"
    ),
    "{minutes} minutes are over": "pasen {minutes} minutos",
}
