"""The texts of the views of label spaces and of groups in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

PAGES: Mapping[str, str] = {
    "Labels": "Etiquetas",
    "How the labels here correspond to those of the answers": (
        "Cómo corresponden las etiquetas de aquí a las de las respuestas"
    ),
    "The rows of this node are labelled in {space}; the model answers in {desired}.": (
        "Las filas de este nodo están etiquetadas en {space}; el modelo responde en {desired}."
    ),
    "Nobody said how both correspond: it is estimated from the guesses of which the model is surer than "
    "{threshold}.": (
        "Nadie dijo cómo se corresponden: se estima a partir de las respuestas de las que el modelo está más "
        "seguro que {threshold}."
    ),
    "How both correspond is said by the labels file.": "Cómo se corresponden lo dice el archivo de etiquetas.",
    "These labels do not teach yet. They do from round {number} on, once the model is sure of {needed} of the "
    "rows; now of {share} of {judged}.": (
        "Estas etiquetas aún no enseñan. Lo harán desde la ronda {number}, cuando el modelo esté seguro de "
        "{needed} de las filas; ahora lo está de {share} de {judged}."
    ),
    "There is no estimate yet.": "Aún no hay estimación.",
    "The chance that a row of the class above carries the label on the left": (
        "La probabilidad de que una fila de la clase de arriba lleve la etiqueta de la izquierda"
    ),
    "± its standard deviation; the rows behind it": "± su desviación típica; las filas que la respaldan",
    "Label here": "Etiqueta de aquí",
    "Rows behind the column": "Filas que respaldan la columna",
    "The model is sure of no row of these classes, so their columns say nothing: {names}": (
        "El modelo no está seguro de ninguna fila de estas clases, así que sus columnas no dicen nada: {names}"
    ),
    "{rows} more rows and {columns} more columns are in the JSON": (
        "{rows} filas y {columns} columnas más están en el JSON"
    ),
    "Only persons of this node see this; no other node is told any of it.": (
        "Solo lo ven las personas de este nodo; no se dice nada de ello a ningún otro nodo."
    ),
    "Only persons of this node see this view.": "Solo ven esta vista las personas de este nodo.",
    "The nodes pool their counts: the rows are the mean of the nodes that count, for as many rows as are here. "
    "Each of these nodes tells all others how often its labels occur, for each guess.": (
        "Los nodos ponen en común sus recuentos: las filas son la media de los nodos que cuentan, para tantas "
        "filas como hay aquí. Cada uno de estos nodos dice a todos los demás cuántas veces aparecen sus "
        "etiquetas, para cada respuesta."
    ),
    "Seen through the model {digest} of round {number}.": "Visto con el modelo {digest} de la ronda {number}.",
    "Seen through the untrained model {digest}.": "Visto con el modelo sin entrenar {digest}.",
    "Groups": "Grupos",
    "How many groups the rows here have": "Cuántos grupos tienen las filas de aquí",
    "Each number of groups was tried on rows of this node alone: {judged} of its {rows} training rows, {compared} "
    "of them for silhouettes.": (
        "Cada número de grupos se probó solo con filas de este nodo: {judged} de sus {rows} filas de "
        "entrenamiento, {compared} de ellas para las siluetas."
    ),
    "The other nodes' rows may say something else.": "Las filas de los otros nodos pueden decir otra cosa.",
    "Inertia": "Inercia",
    "Silhouette": "Silueta",
    "Whose": "De quién",
    "bends most": "se dobla más",
    "highest silhouette": "silueta más alta",
    "Inertia by number of groups": "Inercia según el número de grupos",
    "Silhouette by number of groups": "Silueta según el número de grupos",
    "There is no picture of the inertia: all rows are alike.": (
        "No hay gráfico de la inercia: todas las filas son iguales."
    ),
    "There is no picture of the silhouettes: some are below 0.": (
        "No hay gráfico de las siluetas: algunas están por debajo de 0."
    ),
    "with {count} groups": "con {count} grupos",
    "Numbers of groups": "Números de grupos",
    "the common model": "el modelo común",
    "rows here alone": "solo filas de aquí",
    "Inertia: the mean squared distance of a row to the middle of its group; it falls with every further group, "
    "and where it bends, further ones bring little. Silhouette: how much nearer rows are to their own group than "
    "to the next one, from -1 to 1; one group has none.": (
        "Inercia: la distancia cuadrática media de una fila al centro de su grupo; baja con cada grupo más, y "
        "donde se dobla, otros más aportan poco. Silueta: cuánto más cerca están las filas de su propio grupo que "
        "del siguiente, de -1 a 1; un solo grupo no la tiene."
    ),
    "How its labels correspond to those of the answers": (
        "Cómo corresponden sus etiquetas a las de las respuestas"
    ),
    "How many groups its rows have": "Cuántos grupos tienen sus filas",
    "In the labels of this node: {space}": "En las etiquetas de este nodo: {space}",
    "through an estimated correspondence": "por una correspondencia estimada",
    "through the known correspondence": "por la correspondencia conocida",
    "Nothing can be said in the labels of this node yet: there is no estimate of how they correspond.": (
        "Aún no se puede decir nada en las etiquetas de este nodo: no hay estimación de cómo se corresponden."
    ),
}
