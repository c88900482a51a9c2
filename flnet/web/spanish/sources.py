"""What is wrong with files of data that a trainer reads, or that are brought in, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

_ARFF: Mapping[str, str] = {
    "{path} is no ARFF file: it has no line @data": "{path} no es un archivo ARFF: no tiene la línea @data",
    "{where}: attribute {name} is {value}; expected numeric or {{0,1}}": (
        "{where}: el atributo {name} es {value}; se esperaba numeric o {{0,1}}"
    ),
    "{where}: rows are sparse, but what they do not name would be 1 in {name}": (
        "{where}: las filas son dispersas, pero lo que no nombran sería 1 en {name}"
    ),
    "{where}: a sparse row ends with }}, this one with {value}": (
        "{where}: una fila dispersa termina en }}, esta en {value}"
    ),
    "{where}: expected @relation, @attribute or @data, got {value}": (
        "{where}: se esperaba @relation, @attribute o @data, llegó {value}"
    ),
    "{where}: an attribute is named {name}": "{where}: un atributo se llama {name}",
    "{where}: two attributes are named {name}": "{where}: dos atributos se llaman {name}",
    "{where}: @data before any @attribute": "{where}: @data antes de cualquier @attribute",
}
_CIFAR: Mapping[str, str] = {
    "{path} is too large for a CIFAR-10 batch: expected at most {most} bytes": (
        "{path} es demasiado grande para un lote de CIFAR-10: se esperaban como máximo {most} bytes"
    ),
    "{path} is no CIFAR-10 batch: expected a dict, got {value}": (
        "{path} no es un lote de CIFAR-10: se esperaba un dict, llegó {value}"
    ),
    "{path}: data are {value}; expected uint8 [n, {pixels}]": (
        "{path}: los datos son {value}; se esperaba uint8 [n, {pixels}]"
    ),
    "a list of {count}": "una lista de {count}",
    "{path}: labels are {found}; expected a list of {rows}, one for each row": (
        "{path}: las etiquetas son {found}; se esperaba una lista de {rows}, una por fila"
    ),
    "{path}: the label of row {row} is {value}; expected 0 to 9": (
        "{path}: la etiqueta de la fila {row} es {value}; se esperaba de 0 a 9"
    ),
    "{path}: {words} at byte {number} is not part of a CIFAR-10 batch; nothing was run": (
        "{path}: {words} en el byte {number} no es parte de un lote de CIFAR-10; no se ejecutó nada"
    ),
    "{path} is damaged or no CIFAR-10 batch: {reason}": "{path} está dañado o no es un lote de CIFAR-10: {reason}",
    "a key that is {value}": "una clave que es {value}",
    "a call of {name} with {value}": "una llamada de {name} con {value}",
    "a state of an array that is {value}": "un estado de una matriz que es {value}",
    "a line of text that is no name and no number: {value}": (
        "una línea de texto que no es un nombre ni un número: {value}"
    ),
    "an end before the end of the file": "un final antes del final del archivo",
    "an end with {count} values and {number} marks": "un final con {count} valores y {number} marcas",
    "an instruction that lacks a value": "una instrucción a la que le falta un valor",
    "value number {number}": "el valor número {number}",
    "value number {number}, which was not given before,": "el valor número {number}, que no se había dado antes,",
    "an instruction that lacks a mark": "una instrucción a la que le falta una marca",
    "appending to {value}": "añadir a {value}",
    "setting {count} keys and values of {value}": "poner {count} claves y valores de {value}",
    "more than {most} instructions": "más de {most} instrucciones",
    "a state of {value}": "un estado de {value}",
    "an array of {sizes} numbers out of {count} bytes": "una matriz de {sizes} números a partir de {count} bytes",
}
_PICTURES: Mapping[str, str] = {
    "images are read with Pillow, which is not installed": (
        "las imágenes se leen con Pillow, que no está instalado"
    ),
    "install it: pip install {package}": "instálelo: pip install {package}",
    "the decoded images cannot be kept in {folder}: {reason}": (
        "las imágenes decodificadas no se pueden guardar en {folder}: {reason}"
    ),
    "{path} cannot be read back; is the disk full?": "{path} no se puede volver a leer; ¿está lleno el disco?",
    "it has {width} x {height} pixels; at most {most} are decoded": (
        "tiene {width} x {height} píxeles; se decodifican como máximo {most}"
    ),
    "it has too many pixels; at most {most} are decoded": (
        "tiene demasiados píxeles; se decodifican como máximo {most}"
    ),
    "expected <class name>/*.jpg, .jpeg or .png, or train, val and test with such folders": (
        "se esperaba <nombre de la clase>/*.jpg, .jpeg o .png, o train, val y test con esas carpetas"
    ),
    "images in {folder}": "imágenes en {folder}",
    "expected {names}; found {present}": "se esperaba {names}; se encontró {present}",
    " (and {count} more files)": " (y {count} archivos más)",
    '{path} cannot be read: {reason}{more}; mend or remove it, or set on_bad_file = "skip"': (
        '{path} no se puede leer: {reason}{more}; repárelo o quítelo, o ponga on_bad_file = "skip"'
    ),
    "too few images in {folder}: {counts}": "muy pocas imágenes en {folder}: {counts}",
    "bring more images, or change split": "traiga más imágenes o cambie split",
    "{folder} is no folder; {words}": "{folder} no es una carpeta; {words}",
    "{folder} has train but no test; {words} (val may be missing)": (
        "{folder} tiene train pero no test; {words} (val puede faltar)"
    ),
    "there are no images in {folder}": "no hay imágenes en {folder}",
    "{folder}: the folder {name} is no class of this trainer: {words}": (
        "{folder}: la carpeta {name} no es una clase de este entrenador: {words}"
    ),
    "{folder}: {name} is no name for a class: expected printable characters": (
        "{folder}: {name} no es un nombre de clase: se esperaban caracteres imprimibles"
    ),
    "{folder} has {count} class folders ({names}); expected two or more": (
        "{folder} tiene {count} carpetas de clases ({names}); se esperaban dos o más"
    ),
    "{count} files that cannot be read were skipped: {names}": (
        "se omitieron {count} archivos que no se pueden leer: {names}"
    ),
    "{count} entries that are no .jpg, .jpeg or .png were left out: {names}": (
        "quedaron fuera {count} entradas que no son .jpg, .jpeg ni .png: {names}"
    ),
    "no image of {names}": "ninguna imagen de {names}",
}
_LABELS: Mapping[str, str] = {
    "put Mulan's .xml beside it, or name them in label_columns": (
        "ponga a su lado el .xml de Mulan o indíquelas en label_columns"
    ),
    "{path} does not say which columns are labels: {reason}": (
        "{path} no dice qué columnas son etiquetas: {reason}"
    ),
    "{path}: X is {dtype} {shape}; expected a table of finite numbers": (
        "{path}: X es {dtype} {shape}; se esperaba una tabla de números finitos"
    ),
    "{path}: Y has other values than 0 and 1": "{path}: Y tiene valores distintos de 0 y 1",
    '{path} lists no labels: expected <labels><label name="..."/> ...</labels>': (
        '{path} no indica etiquetas: se esperaba <labels><label name="..."/> ...</labels>'
    ),
    "{path}: all {count} columns are labels; none is left to learn from": (
        "{path}: las {count} columnas son etiquetas; no queda ninguna de la que aprender"
    ),
    "{path}: label {name} has other values than 0 and 1": (
        "{path}: la etiqueta {name} tiene valores distintos de 0 y 1"
    ),
    "{rows} rows came with labels of shape {shape} and with {count} names of labels; "
    "expected one row of labels each, and one name each": (
        "llegaron {rows} filas con etiquetas de forma {shape} y con {count} nombres de etiquetas; "
        "se esperaba una fila de etiquetas para cada una y un nombre para cada etiqueta"
    ),
    "{columns} columns came with {count} names of features": (
        "llegaron {columns} columnas con {count} nombres de características"
    ),
    "{path} is no file of a known kind: expected .arff, .csv or .npz": (
        "{path} no es un archivo de un tipo conocido: se esperaba .arff, .csv o .npz"
    ),
    "{path}: X_shape is {shape}; expected rows and columns": (
        "{path}: X_shape es {shape}; se esperaban filas y columnas"
    ),
    "{path}: {count} of {number} columns cannot be the labels": (
        "{path}: {count} de {number} columnas no pueden ser las etiquetas"
    ),
    "{path}: no column begins with {name}": "{path}: ninguna columna empieza por {name}",
    "{path}: declarations (<!...>) are not read": "{path}: no se leen declaraciones (<!...>)",
    "{path} cannot be read as Mulan's list of labels: {reason}": (
        "{path} no se puede leer como lista de etiquetas de Mulan: {reason}"
    ),
    "{path}, line 1: expected a header of different names, got {value}": (
        "{path}, línea 1: se esperaba un encabezado de nombres distintos, llegó {value}"
    ),
}
_BROUGHT: Mapping[str, str] = {
    "leads out of its folder": "lleva fuera de su carpeta",
    "this node has no folder of data sets; set FLNET_DATASETS_PATH and start it again": (
        "este nodo no tiene carpeta de conjuntos de datos; defina FLNET_DATASETS_PATH e inícielo de nuevo"
    ),
    "what came": "lo que llegó",
    "FLNET_MAX_IMPORT_GIGABYTES={limit} allows no more": "FLNET_MAX_IMPORT_GIGABYTES={limit} no permite más",
    "{path} is not there; name a folder, a file, or a .zip or .tar archive": (
        "{path} no existe; indique una carpeta, un archivo o un archivador .zip o .tar"
    ),
    "no files came; choose a file, a folder, or a .zip or .tar archive": (
        "no llegó ningún archivo; elija un archivo, una carpeta o un archivador .zip o .tar"
    ),
    "the archive holds no files": "el archivador no contiene archivos",
    "{path} is a link or a device; put the file itself in its place, or remove it": (
        "{path} es un enlace o un dispositivo; ponga en su lugar el propio archivo o quítelo"
    ),
    "{trainer} reads one file, {name}; {value} came": "{trainer} lee un solo archivo, {name}; llegó {value}",
    "the archive cannot be unpacked: {reason}": "el archivador no se puede desempaquetar: {reason}",
    "it cannot be written to {folder}: {reason}": "no se puede escribir en {folder}: {reason}",
    "it cannot be taken in: {reason}": "no se puede incorporar: {reason}",
    "the disk of {folder} is full; make room, and try again": (
        "el disco de {folder} está lleno; libere espacio e inténtelo de nuevo"
    ),
    "has signs in its name that cannot be seen": "tiene en su nombre signos que no se ven",
    "lies more than {most} folders deep": "está a más de {most} carpetas de profundidad",
    "has a name of more than {most} bytes": "tiene un nombre de más de {most} bytes",
    "{path} has data in {folder} already; with replace=true these take their place, "
    "and the old ones are kept aside": (
        "{path} ya tiene datos en {folder}; con replace=true estos los sustituyen y los antiguos se guardan aparte"
    ),
}

SPANISH: Mapping[str, str] = {**_ARFF, **_CIFAR, **_PICTURES, **_LABELS, **_BROUGHT}
