"""What the node says of series with a goal, of going back to a model, and of what it keeps, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

_GOALS: Mapping[str, str] = {
    "{goal} does not hold yet": "todavía no se cumple {goal}",
    "{words} in round {number}": "{words} en la ronda {number}",
    "{peer} found the goal reached before": "{peer} vio antes que el objetivo se ha alcanzado",
    "{peer} found before that the goal is to be given up": "{peer} vio antes que hay que renunciar al objetivo",
    "a person stopped the series at {peer}": "una persona detuvo la serie en {peer}",
    "{seconds} s are over at {peer}": "en {peer} han pasado {seconds} s",
    "no other node has been reachable for {seconds} s": (
        "ningún otro nodo ha estado al alcance durante {seconds} s"
    ),
    "it was the last round that was asked for": "era la última ronda que se había pedido",
    "mean accuracy {accuracy} of {who}: no gain over {best}{margin} for {count} rounds": (
        "exactitud media {accuracy} de {who}: sin mejora sobre {best}{margin} durante {count} rondas"
    ),
    " by more than {limit}": " de más de {limit}",
    "mean accuracy fell and mean loss rose for the second time running, to {one} and {other},": (
        "la exactitud media bajó y la pérdida media subió por segunda vez seguida, a {one} y {other},"
    ),
    "mean accuracy {accuracy} of {who}": "exactitud media {accuracy} de {who}",
    "mean accuracy {accuracy} of {who} reached {limit}": "la exactitud media {accuracy} de {who} alcanzó {limit}",
    "lowest accuracy {accuracy} of {who}": "exactitud mínima {accuracy} de {who}",
    "lowest accuracy {accuracy} of {who} reached {limit}": (
        "la exactitud mínima {accuracy} de {who} alcanzó {limit}"
    ),
    "accuracy {accuracy} of {peer}": "exactitud {accuracy} de {peer}",
    "accuracy {accuracy} of {peer} reached {limit}": "la exactitud {accuracy} de {peer} alcanzó {limit}",
    "until: at most {most} characters are read, {value} came": (
        "until: se leen como máximo {most} caracteres, llegaron {value}"
    ),
    "until: each kind of condition may stand there once, but {value} came": (
        "until: cada tipo de condición puede aparecer una vez, pero llegó {value}"
    ),
    "until: expected conditions such as {expected}, apart by commas, but {value} came": (
        "until: se esperaban condiciones como {expected}, separadas por comas, pero llegó {value}"
    ),
    "until: in {value} a number is not above {low} to {high}": (
        "until: en {value} un número no está por encima de {low} hasta {high}"
    ),
    "until: in {value} a number is not from {low} to {high}": (
        "until: en {value} un número no está entre {low} y {high}"
    ),
}
_SERIES: Mapping[str, str] = {
    "rounds go on until {goal}, {count} at most (asked for at {peer})": (
        "las rondas siguen hasta {goal}, {count} como máximo (pedidas en {peer})"
    ),
    "rounds until {goal} are under way, asked for at {peer}; stop them first": (
        "ya hay rondas en curso hasta {goal}, pedidas en {peer}; deténgalas primero"
    ),
    "the time for {goal} is over; all nodes hear it with the next accuracy": (
        "se acabó el tiempo para {goal}; todos los nodos lo sabrán con la próxima exactitud"
    ),
    "{goal}: reached after {count} of at most {number} rounds: {words}": (
        "{goal}: alcanzado tras {count} de {number} rondas como máximo: {words}"
    ),
    "{goal}: given up after {count} of at most {number} rounds: {words}": (
        "{goal}: abandonado tras {count} de {number} rondas como máximo: {words}"
    ),
    "{ending} after {count} of at most {number} rounds": "{ending} tras {count} de {number} rondas como máximo",
    "given up": "abandonado",
    "it gave way to that of {peer}": "dejó paso a la de {peer}",
    "the series until {goal} ends on all nodes with the open round": (
        "la serie hasta {goal} termina en todos los nodos con la ronda abierta"
    ),
    "this round belongs to a series that is not known here: {reason}": (
        "esta ronda pertenece a una serie que aquí no se conoce: {reason}"
    ),
}
_MODELS: Mapping[str, str] = {
    "a person here went back to another model; there is nothing to compare until the next round": (
        "una persona volvió aquí a otro modelo; no hay nada que comparar hasta la ronda siguiente"
    ),
    "a person here went back to another model than the one that this round starts from": (
        "una persona volvió aquí a otro modelo que aquel del que parte esta ronda"
    ),
    "going back to the model {digest} ends here: {peer} started a round from another one": (
        "la vuelta al modelo {digest} termina aquí: {peer} inició una ronda desde otro"
    ),
    "it goes on with {source}": "sigue con {source}",
    "{trainer} is in a series of rounds; stop the series, and bring the data then": (
        "{trainer} está en una serie de rondas; detenga la serie y traiga entonces los datos"
    ),
    "{trainer} cannot use what came, and nothing was changed: {reason}": (
        "{trainer} no puede usar lo que llegó, y no se cambió nada: {reason}"
    ),
    "{trainer} cannot use the data that came: {reason}": (
        "{trainer} no puede usar los datos que llegaron: {reason}"
    ),
    "a person went back to the model {digest} of round {number}; {words}": (
        "una persona volvió al modelo {digest} de la ronda {number}; {words}"
    ),
    "the next round starts from it everywhere if it is started here, and from theirs if others start it": (
        "la ronda siguiente parte de él en todas partes si se inicia aquí, y del suyo si la inician otros"
    ),
    "accuracy of the model gone back to {accuracy}": "exactitud del modelo al que se volvió {accuracy}",
    "going back to the model {digest} ends here: others made an average without it": (
        "la vuelta al modelo {digest} termina aquí: otros hicieron un promedio sin él"
    ),
    "round {number} is still {state} here; go back to another model when it is over": (
        "la ronda {number} todavía está aquí en la fase: {state}; vuelva a otro modelo cuando termine"
    ),
    "{trainer} has no model to go on from: {error}": "{trainer} no tiene ningún modelo del que seguir: {error}",
    "{trainer} goes on from the model {digest} already": "{trainer} ya sigue desde el modelo {digest}",
    "the model gone back to could not be measured: {reason}": (
        "no se pudo evaluar el modelo al que se volvió: {reason}"
    ),
    "{trainer} works on other data now: {source}": "{trainer} trabaja ahora con otros datos: {source}",
    "its model does not fit them and begins anew": "su modelo no les corresponde y empieza de nuevo",
}
_KEPT: Mapping[str, str] = {
    "the model {digest} of {trainer} is in use, but not kept: no round averaged it": (
        "el modelo {digest} de {trainer} está en uso, pero no se guarda: ninguna ronda lo promedió"
    ),
    "{trainer} has {number} pinned models, as many as may be; unpin one first": (
        "{trainer} tiene {number} modelos fijados, el máximo posible; suelte uno primero"
    ),
    "the pinned models of {trainer} may have {words}; unpin one first": (
        "los modelos fijados de {trainer} pueden ocupar {words}; suelte uno primero"
    ),
    "{limit} MiB, but these would be {size} MiB": "{limit} MiB, pero estos ocuparían {size} MiB",
    "what is kept of a job must be plain JSON data: {reason}": (
        "lo que se guarda de un trabajo deben ser datos JSON simples: {reason}"
    ),
    "the file of {digest} holds other parameters than its name says": (
        "el archivo de {digest} contiene otros parámetros que los que dice su nombre"
    ),
    "the file of {digest} cannot be read: {reason}": "el archivo de {digest} no se puede leer: {reason}",
    "the file is cut off": "el archivo está cortado",
    "it is no whole file of parameters: {reason}": "no es un archivo completo de parámetros: {reason}",
    "it was renamed to {name} and is not used": "se renombró como {name} y no se usa",
    "the state folder {folder} is in use by another node; end it, or give this node another FLNET_STATE_PATH": (
        "otro nodo está usando la carpeta de estado {folder}; deténgalo o dé a este nodo otro FLNET_STATE_PATH"
    ),
    "the state folder {folder} is in use by another node (process {number}); end it, "
    "or give this node another FLNET_STATE_PATH": (
        "otro nodo (proceso {number}) está usando la carpeta de estado {folder}; deténgalo "
        "o dé a este nodo otro FLNET_STATE_PATH"
    ),
    "{trainer} goes on from the average of round {number}, found among {count} model files": (
        "{trainer} sigue desde el promedio de la ronda {number}, hallado entre {count} archivos de modelos"
    ),
    "the state was written by a newer flnet: its version is {version}, this one reads up to {known_version}. "
    "Start the newer flnet, or give FLNET_STATE_PATH another folder; nothing was changed": (
        "el estado fue escrito por un flnet más nuevo: su versión es {version}, este lee hasta {known_version}. "
        "Inicie el flnet más nuevo o dé otra carpeta a FLNET_STATE_PATH; no se cambió nada"
    ),
    "the state folder {folder} cannot be used ({reason}); set FLNET_STATE_PATH to one that can be written": (
        "la carpeta de estado {folder} no se puede usar ({reason}); indique en FLNET_STATE_PATH una en la que se "
        "pueda escribir"
    ),
    "the store is closed": "el almacén está cerrado",
    "{count} half-written file of the last run removed": (
        "se eliminó {count} archivo a medio escribir de la última ejecución"
    ),
    "{count} half-written files of the last run removed": (
        "se eliminaron {count} archivos a medio escribir de la última ejecución"
    ),
    "{trainer} goes on from its model of round {number}": "{trainer} sigue desde su modelo de la ronda {number}",
    "the database was damaged ({reason}); it was renamed to {name}": (
        "la base de datos estaba dañada ({reason}); se renombró como {name}"
    ),
    "state cannot be written: {reason}": "el estado no se puede escribir: {reason}",
    "no model file could be used": "no se pudo usar ningún archivo de modelo",
}

SPANISH: Mapping[str, str] = {**_GOALS, **_SERIES, **_MODELS, **_KEPT}
