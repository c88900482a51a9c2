"""Spanish of what is said about methods of training and models of a node's own."""

from __future__ import annotations

from collections.abc import Mapping

PAGES: Mapping[str, str] = {
    "Answered by the local model.": "Respondió el modelo local.",
    "Answered by the common model.": "Respondió el modelo común.",
    "Error of rebuilding the input: {number}; the local model answers up to {limit}.": (
        "Error al reconstruir la entrada: {number}; el modelo local responde hasta {limit}."
    ),
    "The local model answers where the error of rebuilding the input is at most {limit}.": (
        "El modelo local responde donde el error al reconstruir la entrada es como mucho {limit}."
    ),
    "Answered by": "Respondió",
    "Error": "Error",
    "local model": "modelo local",
    "common model": "modelo común",
}
SPANISH: Mapping[str, str] = {
    "local training": "entrenamiento local",
    "the trainer gave no gradients for this training": "el entrenador no dio gradientes para este entrenamiento",
    "the trainer's array {name} has a name that a method of flnet needs; rename it": (
        "la matriz {name} del entrenador tiene un nombre que necesita un método de flnet; cámbielo"
    ),
    "FLNET_AGGREGATION=scaffold and FLNET_PERSONAL_MODEL=apfl change the same steps of training; leave one of "
    "them away, or take the personal model increment": (
        "FLNET_AGGREGATION=scaffold y FLNET_PERSONAL_MODEL=apfl cambian los mismos pasos del entrenamiento; quite "
        "uno de los dos, o use el modelo personal increment"
    ),
    "FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which {name} lacks": (
        "FLNET_AGGREGATION=scaffold necesita un entrenador con un método gradients, que {name} no tiene"
    ),
    "FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which {name} lacks": (
        "FLNET_PERSONAL_MODEL=apfl necesita un entrenador con un método gradients, que {name} no tiene"
    ),
    "FLNET_LOCAL_TRAINING={value} needs a trainer that honours the proximal term, which {name} does not; set "
    "FLNET_LOCAL_TRAINING to plain on all nodes": (
        "FLNET_LOCAL_TRAINING={value} necesita un entrenador que respete el término proximal, y {name} no lo "
        "hace; ponga FLNET_LOCAL_TRAINING en plain en todos los nodos"
    ),
    "{where} says which model answered in other words than {count} times local or global": (
        "{where} dice qué modelo respondió con otras palabras que {count} veces local o global"
    ),
    "{where} says why a model answered in other numbers than {count} finite ones": (
        "{where} dice por qué respondió un modelo con otros números que {count} finitos"
    ),
}
