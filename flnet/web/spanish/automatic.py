"""What the node says of schedules and of examples that arrive, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

EVENTS: Mapping[str, Mapping[str, str]] = {
    "scheduled": {
        "the schedule is {schedule}": "el horario es {schedule}",
        "the schedule of this node counts again": "vuelve a valer el horario de este nodo",
    },
    "round_scheduled": {
        "the schedule starts round {number}: {reason}": "el horario inicia la ronda {number}: {reason}",
    },
    "unwilling": {
        "takes no part in rounds that others start: {reason}": (
            "no participa en las rondas que inician otros: {reason}"
        ),
    },
    "willing": {"takes part in rounds of others again": "vuelve a participar en las rondas de otros"},
    "files_added": {
        "{count} new files in {folder} were added: {number} rows": (
            "se añadieron {count} archivos nuevos de {folder}: {number} filas"
        ),
    },
    "files_wait": {"files in {folder} wait: {reason}": "los archivos de {folder} esperan: {reason}"},
    "file_set_aside": {
        "{name} cannot be used and is in {folder} now: {reason}": (
            "{name} no se puede usar y está ahora en {folder}: {reason}"
        ),
        "{name} cannot be used and is left where it is ({cause}): {reason}": (
            "{name} no se puede usar y se deja donde está ({cause}): {reason}"
        ),
    },
    "fresh_measured": {
        "accuracy on {count} new test rows {accuracy}; the last one was {later}": (
            "exactitud en {count} filas de prueba nuevas {accuracy}; la última fue {later}"
        ),
    },
}
PAGES: Mapping[str, str] = {
    "given by a person": "dado por una persona",
    "from the node's settings": "según la configuración del nodo",
    "Next round by itself at {time}, this node's time: {reason}": (
        "Próxima ronda automática a las {time}, hora de este nodo: {reason}"
    ),
    "Next round by itself: {reason}": "Próxima ronda automática: {reason}",
    "Takes no part in rounds of others now: {reason}": "Ahora no participa en las rondas de otros: {reason}",
    "Start rounds by itself": "Iniciar rondas automáticamente",
    "When": "Cuándo",
    "As the settings say": "Según la configuración",
    "Any of these starts a round, with commas between:": "Cualquiera de estas partes inicia una ronda, con comas:",
    "All of these must hold for that:": "Para ello deben cumplirse todas estas:",
    "With this one, rounds of others are declined while they do not:": (
        "Con esta se rechazan las rondas de otros mientras no se cumplan:"
    ),
    "Nothing starts by itself with:": "Nada empieza automáticamente con:",
    "Rounds start by themselves: {schedule}": "Las rondas empiezan automáticamente: {schedule}",
    "Figures by round as a file:": "Cifras por ronda en un archivo:",
}
SPANISH: Mapping[str, str] = {
    "outside of the hours {hours}": "fuera de las horas {hours}",
    "the battery is below {limit} %": "la batería está por debajo del {limit} %",
    "other programs keep more than {limit} % of the processors busy": (
        "otros programas ocupan más del {limit} % de los procesadores"
    ),
    "{count} new examples have come": "han llegado {count} ejemplos nuevos",
    "accuracy on {count} new test rows is {accuracy}, the last one was {later}": (
        "la exactitud en {count} filas de prueba nuevas es {accuracy}, la última fue {later}"
    ),
    "{time} have passed since the last round": "han pasado {time} desde la última ronda",
    "{reason}; it waits: {words}": "{reason}; espera: {words}",
    "it waits: {words}": "espera: {words}",
    "{time} after the last round": "{time} después de la última ronda",
    "when {number} new examples have come ({count} so far)": (
        "cuando hayan llegado {number} ejemplos nuevos ({count} hasta ahora)"
    ),
    "when accuracy on new test rows falls by more than {limit}": (
        "cuando la exactitud en filas de prueba nuevas baje más de {limit}"
    ),
    "no files came": "no llegó ningún archivo",
    "{name} is no .jpg, .jpeg or .png": "{name} no es .jpg, .jpeg ni .png",
    "{name} does not lie in a folder of its class; expected one of {known}": (
        "{name} no está en una carpeta de su clase; se esperaba una de {known}"
    ),
    "{name} is no whole image": "{name} no es una imagen completa",
    "{name} is a Parquet file, to which no rows can be added; save it as CSV": (
        "{name} es un archivo Parquet, al que no se pueden añadir filas; guárdelo como CSV"
    ),
    "{name} is no table; expected .csv, .tsv or .parquet": (
        "{name} no es una tabla; se esperaba .csv, .tsv o .parquet"
    ),
    "{name} has the columns {columns}; expected {others}": (
        "{name} tiene las columnas {columns}; se esperaba {others}"
    ),
    "{where}: {count} values for {number} columns": "{where}: {count} valores para {number} columnas",
    'a PNG needs Pillow, which is not installed; install it (pip install "flnet[images]"), or take the SVG': (
        'un PNG necesita Pillow, que no está instalado; instálelo (pip install "flnet[images]") o tome el SVG'
    ),
    "round {number} is under way; a schedule forces no average": (
        "la ronda {number} está en marcha; un horario no fuerza ningún promedio"
    ),
    "when: at most {limit} characters are read, {count} came": (
        "when: se leen {limit} caracteres como máximo, llegaron {count}"
    ),
    "when: each kind of part may stand there once, but {words} came": (
        "when: cada clase de parte puede aparecer una sola vez, pero llegó {words}"
    ),
    "when: decline needs a condition beside it: between, battery or load": (
        "when: decline necesita una condición a su lado: between, battery o load"
    ),
    "when: {text} {words}": "when: {text} {words}",
    "is a whole day or nothing; leave it out, or write other hours": (
        "es un día entero o nada; omítalo o escriba otras horas"
    ),
    "when: expected parts such as {forms}, apart by commas, but {text} came": (
        "when: se esperaban partes como {forms}, separadas por comas, pero llegó {text}"
    ),
    "when: in {text} a number is not from {low} to {high}": (
        "when: en {text} un número no está entre {low} y {high}"
    ),
}
