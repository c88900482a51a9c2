"""What is said of versions, where there are no common rounds, in Spanish: on the page, in events, in reasons."""

from __future__ import annotations

from collections.abc import Mapping

PAGES: Mapping[str, str] = {
    "Train and merge now": "Entrenar y fusionar ahora",
    "Version": "Versión",
    "Version {number}": "Versión {number}",
    "Versions of {label}": "Versiones de {label}",
    "Version merged here": "Versión fusionada aquí",
    "in version {number}, {time}": "en la versión {number}, {time}",
    "in version {number}": "en la versión {number}",
    "still to be merged": "aún por fusionar",
    "does not answer": "no responde",
    "This node trains and merges by itself; there are no common rounds.": (
        "Este nodo entrena y fusiona por sí mismo; no hay rondas comunes."
    ),
}
EVENTS: Mapping[str, Mapping[str, str]] = {
    "version_heard": {
        "{peer} has version {number} of {trainer} now": "{peer} tiene ahora la versión {number} de {trainer}",
        "{peer} began anew, and has version {number} of {trainer} now": (
            "{peer} empezó de nuevo y tiene ahora la versión {number} de {trainer}"
        ),
    },
    "peers_left_out": {
        "{names} did not say a version in time": "{names} no dijo a tiempo ninguna versión",
    },
    "merged": {"merged {words}": "se fusionó {words}"},
    "merging_failed": {
        "{error}; this node trains on from its own model": (
            "{error}; este nodo sigue entrenando desde su propio modelo"
        ),
    },
}
SPANISH: Mapping[str, str] = {
    "rounds": "rondas",
    "common to all nodes": "comunes a todos los nodos",
    "of each node by itself (asynchronous)": "de cada nodo por sí mismo (asíncronas)",
    "this node takes part in no common rounds: it trains and merges by itself (FLNET_ROUNDS=asynchronous)": (
        "este nodo no participa en rondas comunes: entrena y fusiona por sí mismo (FLNET_ROUNDS=asynchronous)"
    ),
    "this node trains in rounds that are common to all nodes (FLNET_ROUNDS=common), and has no versions": (
        "este nodo entrena en rondas comunes a todos los nodos (FLNET_ROUNDS=common) y no tiene versiones"
    ),
    "{peer} says no version of {trainer}: {reason}": "{peer} no dice ninguna versión de {trainer}: {reason}",
    "the schedule starts version {number}: {reason}": "la programación inicia la versión {number}: {reason}",
    "version {number} of {trainer} begins, peers asked for newer models: {count}": (
        "empieza la versión {number} de {trainer}; nodos a los que se piden modelos más nuevos: {count}"
    ),
    "version {number} is still {state} here; ask again when it is done": (
        "la versión {number} todavía está {state} aquí; pida de nuevo cuando termine"
    ),
    "version {number} is the last one that can be numbered": (
        "la versión {number} es la última que se puede numerar"
    ),
    "training failed in version {number}: {reason}": "el entrenamiento falló en la versión {number}: {reason}",
    "merging failed: {reason}": "la fusión falló: {reason}",
    "fetching the models {words}": "obteniendo los modelos {words}",
    "{words} and {peer} v{number}": "{words} y {peer} v{number}",
    "merged {words}, trained, now v{number}": "se fusionó {words}, se entrenó, ahora v{number}",
    "accuracy here {accuracy}": "exactitud aquí {accuracy}",
    "nothing, for no newer model could be fetched": "nada, pues no se pudo obtener ningún modelo más nuevo",
    "nothing, for nobody had a newer model": "nada, pues nadie tenía un modelo más nuevo",
    "nothing, but took the first model of {peer}, with which all begin": (
        "nada, pero se tomó el primer modelo de {peer}, con el que todos empiezan"
    ),
    "it has not trained yet": "todavía no ha entrenado",
    "the own version cannot be kept here now ({error}); ask again": (
        "la propia versión no se puede guardar aquí ahora ({error}); pida de nuevo"
    ),
}
