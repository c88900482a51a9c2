"""Spanish of what is said about label spaces and groups of rows."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "the id of a label space {words}": "el identificador de un espacio de etiquetas {words}",
    "the label space {name} has {count} classes; expected 1 to {most}": (
        "el espacio de etiquetas {name} tiene {count} clases; se esperaban de 1 a {most}"
    ),
    "{name} is no name for a class: expected 1 to {most} printable characters, without space around them": (
        "{name} no es un nombre para una clase: se esperaban de 1 a {most} caracteres imprimibles, sin espacios "
        "alrededor"
    ),
    "the label space {name} has the class {class_name} twice": (
        "el espacio de etiquetas {name} tiene dos veces la clase {class_name}"
    ),
    'a label space is an object of "id", a text, and "classes", a list': (
        'un espacio de etiquetas es un objeto de "id", un texto, y "classes", una lista'
    ),
    "the classes of the label space {name} are no list of texts": (
        "las clases del espacio de etiquetas {name} no son una lista de textos"
    ),
    "Groups of students in online courses (KDD Cup 2015)": (
        "Grupos de estudiantes en cursos en línea (KDD Cup 2015)"
    ),
    "{path}: {name} = {value}; expected {expected}": "{path}: {name} = {value}; se esperaba {expected}",
    "'spread' or 'seed'": "'spread' o 'seed'",
    "{number} to {count}": "de {number} a {count}",
    "{rows} x {columns} classes are too many for a correspondence; expected at most {most} pairs": (
        "{rows} x {columns} clases son demasiadas para una correspondencia; se esperaban como mucho {most} pares"
    ),
    "a correspondence is a table of numbers, with rows of one length": (
        "una correspondencia es una tabla de números, con filas de la misma longitud"
    ),
    "{lower} in {upper} stands there twice": "{lower} en {upper} aparece dos veces",
    "{class_name} is no class of the label space {name}; it has {classes}": (
        "{class_name} no es una clase del espacio de etiquetas {name}; este tiene {classes}"
    ),
    "the correspondence has shape {shape}; expected {expected}, a row for each class of {coarse} and a column for "
    "each of {desired}": (
        "la correspondencia tiene la forma {shape}; se esperaba {expected}, una fila por cada clase de {coarse} y "
        "una columna por cada una de {desired}"
    ),
    "the weight of {lower} in {upper} is {value}; expected a finite number from 0 to 1": (
        "el peso de {lower} en {upper} es {value}; se esperaba un número finito de 0 a 1"
    ),
    "{classes}: nothing says which class of {coarse} this is": ("{classes}: nada dice qué clase de {coarse} es"),
    "the weights of {lower} in the classes of {coarse} add up to {value}; expected 1": (
        "los pesos de {lower} en las clases de {coarse} suman {value}; se esperaba 1"
    ),
    "this is no TOML text in UTF-8: {fault}": "esto no es texto TOML en UTF-8: {fault}",
    "a [mapping] needs the [desired] label space beside it": (
        "un [mapping] necesita a su lado el espacio de etiquetas [desired]"
    ),
    "this is no CSV text in UTF-8: {fault}": "esto no es texto CSV en UTF-8: {fault}",
    "{count} bytes are too many for a table of classes; expected at most {most}": (
        "{count} bytes son demasiados para una tabla de clases; se esperaban como mucho {most}"
    ),
    "the first line of the table is {header}; expected {expected}": (
        "la primera línea de la tabla es {header}; se esperaba {expected}"
    ),
    "nobody says how the classes of {here} correspond to those of {there}: add a [mapping], or set estimate = "
    "true": (
        "nadie dice cómo corresponden las clases de {here} a las de {there}: añada un [mapping] o ponga "
        "estimate = true"
    ),
    "no row here carries a label from which anything could be learnt": (
        "ninguna fila de aquí lleva una etiqueta de la que se pueda aprender algo"
    ),
    "the common model does not know enough yet to learn from rows that are labelled otherwise": (
        "el modelo común aún no sabe lo suficiente para aprender de filas con otras etiquetas"
    ),
    "FLNET_LABELS does not go with FLNET_PERSONAL_MODEL, nor with scaffold in FLNET_AGGREGATION: leave one of "
    "them away": (
        "FLNET_LABELS no va con FLNET_PERSONAL_MODEL, ni con scaffold en FLNET_AGGREGATION: quite uno de ellos"
    ),
    "labels of {there}, in which the model answers, on {count} rows": (
        "etiquetas de {there}, en las que responde el modelo, en {count} filas"
    ),
    "labels of {here}; the model answers in {there}; how they correspond is estimated": (
        "etiquetas de {here}; el modelo responde en {there}; cómo se corresponden se estima"
    ),
    "labels of {here}; the model answers in {there}; how they correspond is known": (
        "etiquetas de {here}; el modelo responde en {there}; cómo se corresponden se sabe"
    ),
    "label space of the answers": "espacio de etiquetas de las respuestas",
    "label spaces": "espacios de etiquetas",
    "pooled counts": "recuentos en común",
    "the nodes pool how often each label meets each guess, which tells them how often it occurs": (
        "los nodos ponen en común cuántas veces coincide cada etiqueta con cada respuesta, lo que les dice "
        "cuántas veces aparece"
    ),
    "[pooled] needs the line pool_counts = true": "[pooled] necesita la línea pool_counts = true",
    "pool_counts = true needs [pooled], the label space whose counts they are, at nodes with desired labels": (
        "pool_counts = true necesita [pooled], el espacio de etiquetas de esos recuentos, en nodos con etiquetas "
        "deseadas"
    ),
    "[pooled] is {name}; expected the label space of this file, {here}": (
        "[pooled] es {name}; se esperaba el espacio de etiquetas de este archivo, {here}"
    ),
    "{name} cannot learn where nodes label differently: FLNET_LABELS needs a trainer that honours labels; leave "
    "that setting away, or this trainer out of FLNET_TRAINERS": (
        "{name} no puede aprender donde los nodos etiquetan de distinto modo: FLNET_LABELS necesita un entrenador "
        "que atienda a las etiquetas; quite ese ajuste, o este entrenador de FLNET_TRAINERS"
    ),
    "the classes of {trainer} are {classes}; the label space {name} of FLNET_LABELS, in which it is to answer, "
    "has {names}": (
        "las clases de {trainer} son {classes}; el espacio de etiquetas {name} de FLNET_LABELS, en el que debe "
        "responder, tiene {names}"
    ),
    "nothing says which classes of {name} the rows of {trainer} carry: add a [mapping] to the file in "
    "FLNET_LABELS; with estimate = true it is used for nothing else": (
        "nada dice qué clases de {name} llevan las filas de {trainer}: añada un [mapping] al archivo de "
        "FLNET_LABELS; con estimate = true no se usa para nada más"
    ),
    "{trainer} has one label space alone here: there is no correspondence to show": (
        "{trainer} tiene aquí un solo espacio de etiquetas: no hay correspondencia que mostrar"
    ),
    "{trainer} looks for no groups of rows: there is nothing to show": (
        "{trainer} no busca grupos de filas: no hay nada que mostrar"
    ),
    "{trainer} finds nothing to show on the rows that this node has": (
        "{trainer} no encuentra nada que mostrar en las filas de este nodo"
    ),
    "trainer {trainer}: finds is {value}; expected labels or groups, or nothing": (
        "entrenador {trainer}: finds es {value}; se esperaba labels o groups, o nada"
    ),
    "findings of trainer {trainer} gave a {kind}; expected findings": (
        "findings del entrenador {trainer} dio un {kind}; se esperaban hallazgos"
    ),
    "findings of trainer {trainer} gave a table {shape}, or odd numbers in it; expected {expected}, finite and "
    "not negative": (
        "findings del entrenador {trainer} dio una tabla {shape}, o con números extraños; se esperaba {expected}, "
        "finitos y no negativos"
    ),
    "findings of trainer {trainer} gave numbers that are not finite": (
        "findings del entrenador {trainer} dio números que no son finitos"
    ),
    "line {number} has {count} cells; expected {expected}": (
        "la línea {number} tiene {count} celdas; se esperaban {expected}"
    ),
    "line {number}: the weight is {value}; expected a number from 0 to 1": (
        "línea {number}: el peso es {value}; se esperaba un número de 0 a 1"
    ),
}
