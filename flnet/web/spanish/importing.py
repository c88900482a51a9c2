"""The texts of bringing data, and of the picture of their parts, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "Bring data to this trainer": "Traer datos a este entrenador",
    "Bring data": "Traer datos",
    "A folder, a file, or an archive (.zip, .tar, .tar.gz). The rows stay on this machine. What the trainer "
    "cannot read is taken out again.": (
        "Una carpeta, un archivo o un archivo comprimido (.zip, .tar, .tar.gz). Las filas no salen de esta "
        "máquina. Lo que el entrenador no puede leer se vuelve a quitar."
    ),
    "Replace the data that are there; they are kept aside": "Sustituir los datos que hay; se guardan aparte",
    "Files or an archive": "Archivos, sueltos o comprimidos",
    "or a whole folder": "o una carpeta entera",
    "Sent": "Enviado",
    "{percent} % sent": "{percent} % enviado",
    "Cancel": "Cancelar",
    "All is sent. The node checks the data and loads the trainer.": (
        "Está todo enviado. El nodo comprueba los datos y carga el entrenador."
    ),
    "Cancelled; nothing was changed.": "Cancelado; no se ha cambiado nada.",
    "Choose a file or a folder first.": "Elija antes un archivo o una carpeta.",
    "{files} files were taken in: {rows} rows.": "Se han incorporado {files} archivos: {rows} filas.",
    "Rows of each class that each part was dealt; this node has part {index}": (
        "Filas de cada clase que recibió cada parte; este nodo tiene la parte {index}"
    ),
    "The same as a table": "Lo mismo en una tabla",
    "and {count} more parts": "y {count} partes más",
    "Rows at the peers, as they say; how many of which class stays with them": (
        "Filas de los demás nodos, según dicen; cuántas hay de cada clase no lo cuentan"
    ),
    "The data that were there before are now in {aside}.": "Los datos que había antes están ahora en {aside}.",
}
