"""What is wrong with data, and how to get it right, in Spanish; see `flnet.web.sentences`."""

from __future__ import annotations

from collections.abc import Mapping

_FILES: Mapping[str, str] = {
    "{path}, line {line}": "{path}, línea {line}",
    "{path} is not there": "{path} no existe",
    "{path} is not UTF-8 text: {reason}": "{path} no es texto UTF-8: {reason}",
    "{path} is not CSV text in UTF-8: {reason}": "{path} no es texto CSV en UTF-8: {reason}",
    "{path} is a folder; expected a .csv or .parquet file": (
        "{path} es una carpeta; se esperaba un archivo .csv o .parquet"
    ),
    "{path} is a Parquet file, and pyarrow, which reads those, is not installed": (
        "{path} es un archivo Parquet, y pyarrow, que los lee, no está instalado"
    ),
    'install it (pip install "flnet[table]"), or save the table as CSV': (
        'instálelo (pip install "flnet[table]") o guarde la tabla como CSV'
    ),
    "{path} cannot be read as a Parquet file: {reason}": "{path} no se puede leer como archivo Parquet: {reason}",
    "{path} cannot be read as an .npz file: {reason}": "{path} no se puede leer como archivo .npz: {reason}",
    "{path} lacks {names}; it has {known}": "a {path} le falta {names}; tiene {known}",
    "{path} holds more than {count} bytes; unpack such a file first, so that it is mapped": (
        "{path} contiene más de {count} bytes; descomprime antes un archivo así, para que se pueda proyectar"
    ),
    "{path} is no idx file: it begins with {found}": "{path} no es un archivo idx: empieza por {found}",
    "{path} is damaged: expected {expected} bytes, but it has {size}": (
        "{path} está dañado: se esperaban {expected} bytes, pero tiene {size}"
    ),
    "{path} cannot be read as an idx file: {reason}": "{path} no se puede leer como archivo idx: {reason}",
    "{path} is damaged: {reason}": "{path} está dañado: {reason}",
    "{path} is damaged: bring it back, or delete it and start with untrained parameters": (
        "{path} está dañado: restáurelo, o bórrelo y empiece con parámetros sin entrenar"
    ),
    "{path} splits into {parts}; expected {expected}": "{path} se divide en {parts}; se esperaba {expected}",
    "the split cannot be stored in {path}: {reason}": "la división no se puede guardar en {path}: {reason}",
    "{url} was answered with {status}": "{url} respondió con {status}",
    "{url} could not be fetched: {reason}": "no se pudo obtener {url}: {reason}",
    "{url} is not the published file: got {value}, expected {expected}...": (
        "{url} no es el archivo publicado: llegó {value}, se esperaba {expected}..."
    ),
    "{url} sends more than the {count} bytes expected": "{url} envía más de los {count} bytes esperados",
    "{count} bytes with sha256 {digest}...": "{count} bytes con sha256 {digest}...",
    "{path} could not be written: {reason}": "no se pudo escribir {path}: {reason}",
    "make room, or name another folder": "libere espacio o indique otra carpeta",
    "try again later, or put the file at {path} yourself": (
        "inténtelo más tarde o ponga usted el archivo en {path}"
    ),
    "{path} has data in {folder} already; ask for replace=true to put these in their place: "
    "the old ones are then kept aside": (
        "{path} ya tiene datos en {folder}; pida replace=true para sustituirlos por estos: "
        "los antiguos se guardan aparte"
    ),
    "{trainer} does not say where it looks for data (DATA_PLACE); put them there by hand": (
        "{trainer} no dice dónde busca los datos (DATA_PLACE); póngalos allí a mano"
    ),
    "{trainer} reads {place}, which is not below {folder}; put the data there by hand": (
        "{trainer} lee {place}, que no está dentro de {folder}; ponga allí los datos a mano"
    ),
}
_ROWS: Mapping[str, str] = {
    "{count} rows came with {labels} labels; expected one each": (
        "llegaron {count} filas con {labels} etiquetas; se esperaba una para cada una"
    ),
    "{count} groups came with {labels} labels; expected one each": (
        "llegaron {count} grupos con {labels} etiquetas; se esperaba una para cada uno"
    ),
    "{where}: {value} values for {columns} columns": "{where}: {value} valores para {columns} columnas",
    "{where}: {name} is {value}; expected {expected}": "{where}: {name} es {value}; se esperaba {expected}",
    "{where}: {name} has no value ({value})": "{where}: {name} no tiene valor ({value})",
    "an empty cell": "una celda vacía",
    "{path} has no column {names}; it has {known}": "{path} no tiene la columna {names}; tiene {known}",
    "{where}: dense and sparse rows are mixed": "{where}: se mezclan filas densas y dispersas",
    "{path} has no rows": "{path} no tiene filas",
    "{path} has no rows{why}": "{path} no tiene filas{why}",
    " that can be used: {reason}": " que se puedan usar: {reason}",
    " below its header": " debajo de su encabezado",
    "{where}: {column} is no column; expected 0 to {most}": (
        "{where}: {column} no es una columna; se esperaba de 0 a {most}"
    ),
    "{where}: column {column} is named twice": "{where}: la columna {column} se nombra dos veces",
    "{path} is empty: expected a first line with the names of the columns": (
        "{path} está vacío: se esperaba una primera línea con los nombres de las columnas"
    ),
    "{where}: column {column} has no name": "{where}: la columna {column} no tiene nombre",
    "{where}: {name} is no name for a column: expected a short printable text": (
        "{where}: {name} no es un nombre de columna: se esperaba un texto corto e imprimible"
    ),
    "{where}: {name} stands there twice; every column needs a name of its own": (
        "{where}: {name} aparece dos veces; cada columna necesita su propio nombre"
    ),
    "sparse rows of shape {rows} x {columns} have values, columns and positions of shapes {one}, {two}, {three}; "
    "expected n, n and {expected}": (
        "filas dispersas de forma {rows} x {columns} tienen valores, columnas y posiciones de formas {one}, "
        "{two}, {three}; se esperaba n, n y {expected}"
    ),
    "positions of sparse rows must ascend from 0 to {most}": (
        "las posiciones de las filas dispersas deben ascender de 0 a {most}"
    ),
    "sparse rows name columns outside 0 to {most}": "las filas dispersas nombran columnas fuera de 0 a {most}",
}
_OWN: Mapping[str, str] = {
    "{where}: {key} is no option of kind = {kind}; {hint_words}": (
        "{where}: {key} no es una opción de kind = {kind}; {hint_words}"
    ),
    "{where}: {key} is missing": "{where}: falta {key}",
    "did you mean {name}": "¿quiso decir {name}?",
    "expected 1 to 200 printable characters, without space around them": (
        "se esperaban de 1 a 200 caracteres imprimibles, sin espacios alrededor"
    ),
    "{name} stands there twice": "{name} aparece dos veces",
    '{where}: expected kind = "images" or kind = "table"{got_kind}': (
        '{where}: se esperaba kind = "images" o kind = "table"{got_kind}'
    ),
    "set it to the folder in which that lies, or write the whole path": (
        "indique la carpeta en la que está o escriba la ruta completa"
    ),
    "put the data there, or correct data in the trainer's file": (
        "ponga allí los datos o corrija data en el archivo del entrenador"
    ),
    "data = {path} is relative to FLNET_DATASETS_PATH, which is not set": (
        "data = {path} es relativa a FLNET_DATASETS_PATH, que no está definida"
    ),
    "task = regress needs target_scale = [mean, spread], rough, and the same on all nodes": (
        "task = regress necesita target_scale = [media, dispersión], aproximado e igual en todos los nodos"
    ),
    "classes is for task = classify only": "classes es solo para task = classify",
    "coarse is for task = classify only": "coarse es solo para task = classify",
    "target_scale is for task = regress only": "target_scale es solo para task = regress",
    "{name} stands in categories and in scale; expected one of them": (
        "{name} está en categories y en scale; se esperaba uno de los dos"
    ),
    "{path} is larger than {most} bytes; a trainer's file has a few lines": (
        "{path} ocupa más de {most} bytes; el archivo de un entrenador tiene unas pocas líneas"
    ),
    "{path} cannot be read as TOML: {reason}": "{path} no se puede leer como TOML: {reason}",
    "the spread of {name} is {value}; expected more than 0": (
        "la dispersión de {name} es {value}; se esperaba más de 0"
    ),
    "column {name} is {one} and {other}; expected one of them": (
        "la columna {name} es {one} y {other}; se esperaba una de las dos cosas"
    ),
    "{use} names {name}, which is no feature": "{use} nombra {name}, que no es una característica",
    "missing {missing}; not expected {extra}; found {header}": (
        "faltan {missing}; no se esperaban {extra}; se encontró {header}"
    ),
    "expected 2 to {most} classes": "se esperaban de 2 a {most} clases",
    'list them under classes, or set task = "regress"': 'indíquelas en classes o ponga task = "regress"',
    "; is separator right?": "; ¿es correcto separator?",
    "{path}, line 1: wrong header: {words}{hint}": "{path}, línea 1: encabezado erróneo: {words}{hint}",
    "{path} has no features: its columns are {columns}": (
        "{path} no tiene características: sus columnas son {columns}"
    ),
    "{where}: the target {name} has no value ({value})": "{where}: el objetivo {name} no tiene valor ({value})",
    "{where}: the target {name} is {value}; expected one of {expected}": (
        "{where}: el objetivo {name} es {value}; se esperaba uno de {expected}"
    ),
    "{where}: the label {name} is {value}; expected one of {expected}": (
        "{where}: la etiqueta {name} es {value}; se esperaba una de {expected}"
    ),
    "{where}: the label {name} has no value": "{where}: la etiqueta {name} no tiene valor",
    "{where}: the id {name} has no value ({value})": "{where}: el identificador {name} no tiene valor ({value})",
    "{path}: {name} has {value} values; {rule}: {how}": "{path}: {name} tiene {value} valores; {rule}: {how}",
    "{where}: {name} is {value}; expected one of {expected}": (
        "{where}: {name} es {value}; se esperaba uno de {expected}"
    ),
    "{count} missing values were taken as the mean": "{count} valores que faltan se tomaron como la media",
    "{count} rows were skipped, the first because {reason}": (
        "se omitieron {count} filas, la primera porque {reason}"
    ),
    "columns not used: {names}": "columnas sin usar: {names}",
    "no row of {names}": "ninguna fila de {names}",
    '{reason}; fill it in, or set missing = "skip" or "mean"': (
        '{reason}; rellénelo o ponga missing = "skip" o "mean"'
    ),
    "{reason}, or the values of {name} listed under [categories]": (
        "{reason}, o los valores de {name} indicados en [categories]"
    ),
    "too few rows in {path}: {counts}": "muy pocas filas en {path}: {counts}",
    "bring more rows, or change split": "traiga más filas o cambie split",
}

SPANISH: Mapping[str, str] = {**_FILES, **_ROWS, **_OWN}
