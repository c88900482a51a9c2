"""What the training says when a trainer or its process fails, in Spanish; see `flnet.web.sentences`."""

from __future__ import annotations

from collections.abc import Mapping

_PROCESS: Mapping[str, str] = {
    "the training process cannot be started: {reason}": (
        "el proceso de entrenamiento no se puede iniciar: {reason}"
    ),
    "this system has no Unix sockets for a training process; set FLNET_COMPUTE to thread": (
        "este sistema no tiene sockets Unix para un proceso de entrenamiento; ponga FLNET_COMPUTE en thread"
    ),
    "the training process answered nonsense: {words}": (
        "el proceso de entrenamiento respondió algo sin sentido: {words}"
    ),
    "the training process does not answer any more, and nothing tells why": (
        "el proceso de entrenamiento ya no responde y nada indica por qué"
    ),
    "the training process ended by itself with exit code {code_number} in the middle of its work": (
        "el proceso de entrenamiento terminó por sí mismo con el código {code_number} en mitad de su trabajo"
    ),
    "the training process was killed by signal {signal}{hint}": (
        "el proceso de entrenamiento fue terminado por la señal {signal}{hint}"
    ),
    "the training process was killed by signal {number}{cause}{hint}": (
        "el proceso de entrenamiento fue terminado por la señal {number}{cause}{hint}"
    ),
    "; often the system does this when memory runs out": (
        "; a menudo el sistema lo hace cuando se agota la memoria"
    ),
    "there was not enough memory for this task": "no hubo memoria suficiente para esta tarea",
    "the worker does not know what {task} is": "el proceso no sabe qué es {task}",
    "the training of {trainer} was cancelled": "se canceló el entrenamiento de {trainer}",
    "the training of {trainer} was cancelled before it began": (
        "el entrenamiento de {trainer} se canceló antes de empezar"
    ),
    "the work failed": "el trabajo falló",
    "the work failed: {reason}": "el trabajo falló: {reason}",
    "a frame of {size} and {beside} bytes with {count} descriptors": (
        "una trama de {size} y {beside} bytes con {count} descriptores"
    ),
    "no JSON object": "no es un objeto JSON",
    "no JSON: {reason}": "no es JSON: {reason}",
    "{count} bytes of parameters cannot be handed over: {reason}": (
        "no se pueden entregar {count} bytes de parámetros: {reason}"
    ),
    "an array of {dtype} at {offset}": "una matriz de {dtype} en {offset}",
    "an array reaches beyond the {count} bytes that there are": "una matriz pasa de los {count} bytes que hay",
    "arrays are described in a way that does not fit them: {reason}": (
        "las matrices están descritas de un modo que no les corresponde: {reason}"
    ),
    "a file that can still change": "un archivo que todavía puede cambiar",
    "a file that cannot be mapped: {reason}": "un archivo que no se puede proyectar en memoria: {reason}",
    "files that are free have numbers": "los archivos libres tienen números",
    "a file that is lent has a number": "un archivo prestado tiene un número",
}
_LOADING: Mapping[str, str] = {
    "trainer {trainer} cannot be loaded": "el entrenador {trainer} no se puede cargar",
    "trainer {trainer} cannot be loaded: {reason}": "el entrenador {trainer} no se puede cargar: {reason}",
    "trainer {trainer} failed in {what}": "el entrenador {trainer} falló en {what}",
    "trainer {trainer} failed in {what}: {reason}": "el entrenador {trainer} falló en {what}: {reason}",
    "{path}: a trainer's name has 1 to 64 letters, digits and underscores": (
        "{path}: el nombre de un entrenador tiene de 1 a 64 letras, cifras y guiones bajos"
    ),
    "two trainers are named {name}: {places}; rename or remove one": (
        "dos entrenadores se llaman {name}: {places}; cambie el nombre de uno o quítelo"
    ),
    "{name} in {path} gave a {kind}; expected a Trainer": "{name} en {path} dio un {kind}; se esperaba un Trainer",
    "FLNET_TRAINERS_PATH={folder} is no folder": "FLNET_TRAINERS_PATH={folder} no es una carpeta",
    "{path} cannot be imported": "{path} no se puede importar",
    "FLNET_TRAINERS names {names}, but this node has {known}": (
        "FLNET_TRAINERS nombra {names}, pero este nodo tiene {known}"
    ),
    "{path} defines no function {name}(settings)": "{path} no define ninguna función {name}(settings)",
    'pip install "flnet[{extra}]"': 'pip install "flnet[{extra}]"',
    "it has to be installed on this node too": "tiene que estar instalado también en este nodo",
    "the package of {name} cannot be found": "no se encuentra el paquete de {name}",
    "the folder {folder} for what trainer {trainer} keeps cannot be made: {reason}": (
        "no se puede crear la carpeta {folder} para lo que guarda el entrenador {trainer}: {reason}"
    ),
    "initial_params of trainer {trainer}": "initial_params del entrenador {trainer}",
    "trainer {trainer}: merging is {value}: {reason}": "entrenador {trainer}: merging es {value}: {reason}",
    "fit of trainer {trainer}": "fit del entrenador {trainer}",
    "personalise of trainer {trainer}": "personalise del entrenador {trainer}",
    "{where} gave {name}; expected private parameters only: {names}": (
        "{where} dio {name}; se esperaban solo parámetros privados: {names}"
    ),
    "{where} diverged: {name} has numbers that are not finite": (
        "{where} divergió: {name} tiene números no finitos"
    ),
    "{where} gave parameters that do not fit: {reason}": "{where} dio parámetros que no encajan: {reason}",
    "evaluate of trainer {trainer}": "evaluate del entrenador {trainer}",
    "predict of trainer {trainer}": "predict del entrenador {trainer}",
    "input_spec of trainer {trainer}": "input_spec del entrenador {trainer}",
    "not stated": "no se indica",
    "not described": "sin descripción",
    "{path} cannot be read: {reason}": "{path} no se puede leer: {reason}",
}
_CHECKS: Mapping[str, str] = {
    "training diverged: {name} has numbers that are not finite; try a smaller learning rate": (
        "el entrenamiento divergió: {name} tiene números que no son finitos; pruebe una tasa de aprendizaje menor"
    ),
    "{where} gave no parameters: expected a mapping of names to arrays": (
        "{where} no dio parámetros: se esperaba una correspondencia de nombres a matrices"
    ),
    "{where} gave no arrays of numbers: {reason}": "{where} no dio matrices de números: {reason}",
    "{where} gave {name} as {dtype}; expected at most {most} bytes a number": (
        "{where} dio {name} como {dtype}; se esperaban como máximo {most} bytes por número"
    ),
    "fit of trainer {trainer} gave a {kind}; expected a Fit": (
        "fit del entrenador {trainer} dio un {kind}; se esperaba un Fit"
    ),
    "fit of trainer {trainer} gave parameters that do not fit: {reason}": (
        "fit del entrenador {trainer} dio parámetros que no corresponden: {reason}"
    ),
    "{where} gave a {kind}; expected a Score": "{where} dio un {kind}; se esperaba un Score",
    "{where} gave the accuracy {value}; expected 0 to 1": "{where} dio la exactitud {value}; se esperaba de 0 a 1",
    "{where} gave the accuracy {value}; expected a number": (
        "{where} dio la exactitud {value}; se esperaba un número"
    ),
    "{where} gave {value} {name}; expected 0 or more": "{where} dio {value} {name}; se esperaba 0 o más",
    "{where} gave {value} {name}; expected a whole number": (
        "{where} dio {value} {name}; se esperaba un número entero"
    ),
    "trainer {name}: defaults is {value}; expected HyperParams(e, u, b)": (
        "entrenador {name}: defaults es {value}; se esperaba HyperParams(e, u, b)"
    ),
    "trainer {name} declares {names} shared or merged; it has {known}": (
        "el entrenador {name} declara {names} como compartidos o promediados; tiene {known}"
    ),
    "trainer {name}: exchange_threshold is {value}; expected 0 to 1": (
        "entrenador {name}: exchange_threshold es {value}; se esperaba de 0 a 1"
    ),
    "data_info of trainer {name} gave a {kind}; expected a DataInfo": (
        "data_info del entrenador {name} dio un {kind}; se esperaba un DataInfo"
    ),
    "trainer {name}: the initial {key} has numbers that are not finite": (
        "entrenador {name}: el valor inicial {key} tiene números que no son finitos"
    ),
    "trainer {name}: agreement cannot be told to others: {reason}": (
        "entrenador {name}: agreement no se puede comunicar a otros: {reason}"
    ),
    "{where} gave a {kind}; expected a Prediction": "{where} dio un {kind}; se esperaba una Prediction",
    "{where} gave values {shape}; expected [{rows}, {columns}]": (
        "{where} dio valores {shape}; se esperaba [{rows}, {columns}]"
    ),
    "{where} gave numbers that are not finite": "{where} dio números que no son finitos",
    "{where} gave probabilities outside [0, 1]; are they scores?": (
        "{where} dio probabilidades fuera de [0, 1]; ¿son puntuaciones?"
    ),
    "{where} gave probabilities that do not sum to 1; may several classes hold at once?": (
        "{where} dio probabilidades que no suman 1; ¿pueden darse varias clases a la vez?"
    ),
    "{where} gave {value}; expected an InputSpec of kind {kinds}": (
        "{where} dio {value}; se esperaba un InputSpec de tipo {kinds}"
    ),
    "{where} gave the shape {shape} for an input of kind {kind}": (
        "{where} dio la forma {shape} para una entrada de tipo {kind}"
    ),
    "{where} gave {value} names; expected {expected} different ones": (
        "{where} dio {value} nombres; se esperaban {expected} distintos"
    ),
    "{where} gave a bound of {value}; expected a finite number, or None for no bound": (
        "{where} dio un límite de {value}; se esperaba un número finito, o None si no hay límite"
    ),
    "{where} gave no numbers: {reason}": "{where} no dio números: {reason}",
    "this trainer has no method predict": "este entrenador no tiene el método predict",
    "this trainer has no method personalise": "este entrenador no tiene el método personalise",
}
_PREDICTIONS: Mapping[str, str] = {
    "{trainer} cannot be exported to ONNX: its trainer describes no such model": (
        "{trainer} no se puede exportar a ONNX: su entrenador no describe ese modelo"
    ),
    "the trainer gave no ONNX file: {reason}": "el entrenador no dio un archivo ONNX: {reason}",
    'exporting to ONNX needs the package onnx: pip install ".[onnx]"': (
        'para exportar a ONNX hace falta el paquete onnx: pip install ".[onnx]"'
    ),
    "the ONNX graph of {name} does not hold together: {reason}": (
        "el grafo ONNX de {name} no es coherente: {reason}"
    ),
    "expected a list of 1 to {most} inputs, got {got}": (
        "se esperaba una lista de 1 a {most} entradas, llegó {got}"
    ),
    "inputs have shape {shape}; expected {expected}": (
        "las entradas tienen la forma {shape}; se esperaba {expected}"
    ),
    "input {place} is not a finite number in float32": "la entrada {place} no es un número finito en float32",
    "input {place} is {value}; expected {low} to {high}": (
        "la entrada {place} es {value}; se esperaba de {low} a {high}"
    ),
    "input {place} is an object; expected {count} numbers in lists": (
        "la entrada {place} es un objeto; se esperaban {count} números en listas"
    ),
    "input {place} is an object; expected {shape} numbers in lists": (
        "la entrada {place} es un objeto; se esperaban {shape} números en listas"
    ),
    "input {place} lacks {names}; the columns are {columns}": (
        "a la entrada {place} le falta {names}; las columnas son {columns}"
    ),
    "input {place} {words}; the columns are {columns}": "entrada {place}: {words}; las columnas son {columns}",
    "lacks {names}": "le falta {names}",
    "has unknown {names}": "tiene columnas desconocidas: {names}",
    "inputs hold something else than numbers; expected each of shape {shape}": (
        "las entradas no contienen solo números; se esperaba cada una con la forma {shape}"
    ),
    "inputs are uneven; expected each of shape {shape}": (
        "las entradas son desiguales; se esperaba cada una con la forma {shape}"
    ),
    "this trainer takes {kind} of shape {shape}, no pictures": (
        "este entrenador admite {kind} de forma {shape}, no imágenes"
    ),
    "the picture has {count} bytes; expected 1 to {most}": (
        "la imagen tiene {count} bytes; se esperaba de 1 a {most}"
    ),
    "pictures need Pillow, which is not installed; send numbers as inputs": (
        "las imágenes necesitan Pillow, que no está instalado; envíe números como entradas"
    ),
    "the picture is neither a PNG nor a JPEG file": "la imagen no es un archivo PNG ni JPEG",
    "the picture is far too large; {words}": "la imagen es demasiado grande; {words}",
    "the picture cannot be read as PNG or JPEG: {reason}": "la imagen no se puede leer como PNG o JPEG: {reason}",
    "the picture has {width} x {height} pixels; {words}": "la imagen tiene {width} x {height} píxeles; {words}",
    "expected at most {most} in all": "se esperaban como máximo {most} en total",
}
_PARTS: Mapping[str, str] = {
    "this node has part {index} of {count} of the partition {partition}": (
        "este nodo tiene la parte {index} de {count} del reparto {partition}"
    ),
    "{draws} draws from Dirichlet({alpha}) left one of {parts} parts with fewer than {rows} rows: "
    "take a larger alpha or fewer parts": (
        "{draws} sorteos de Dirichlet({alpha}) dejaron una de las {parts} partes con menos de {rows} filas: "
        "use un alfa mayor o menos partes"
    ),
    "{parts} parts of {labels} labels cannot hold the {kinds} labels of these data: "
    "expected {low} to {high} labels per part": (
        "{parts} partes de {labels} etiquetas no pueden contener las {kinds} etiquetas de estos datos: "
        "se esperaban de {low} a {high} etiquetas por parte"
    ),
    "{groups} groups cannot give {parts} parts: groups are dealt whole": (
        "{groups} grupos no pueden dar {parts} partes: los grupos se reparten enteros"
    ),
    "{sizes} does not deal {labels} labels: expected sizes above 0 that add up to it": (
        "{sizes} no reparte {labels} etiquetas: se esperaban tamaños mayores que 0 que sumen ese número"
    ),
    "expected one of {expected}; got {got}": "se esperaba uno de {expected}; llegó {got}",
    "{rows} rows cannot give {parts} parts of at least {least}": (
        "{rows} filas no pueden dar {parts} partes de al menos {least}"
    ),
    "partition {partition} gives a part of {rows} rows; expected at least {least}": (
        "el reparto {partition} da una parte de {rows} filas; se esperaban al menos {least}"
    ),
    "{kind} takes no number; got {got}": "{kind} no admite ningún número; llegó {got}",
    "{kind} takes a number above 0; got {got}": "{kind} admite un número mayor que 0; llegó {got}",
    "{kind} takes a number; got {got}": "{kind} admite un número; llegó {got}",
    "pathological takes a whole number of labels per part; got {got}": (
        "pathological admite un número entero de etiquetas por parte; llegó {got}"
    ),
    "the partition by groups needs a group for each row; this trainer gives none": (
        "el reparto por grupos necesita un grupo para cada fila; este entrenador no da ninguno"
    ),
    "FLNET_DATA_PARTITION={partition}: {reason}": "FLNET_DATA_PARTITION={partition}: {reason}",
}

SPANISH: Mapping[str, str] = {**_PROCESS, **_LOADING, **_CHECKS, **_PREDICTIONS, **_PARTS}
