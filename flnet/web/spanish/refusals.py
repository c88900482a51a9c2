"""Why a message, a file of parameters, a request or a form was refused, in Spanish; see `flnet.web.sentences`."""

from __future__ import annotations

from collections.abc import Mapping

_BODIES: Mapping[str, str] = {
    "the size of a body must be known before its bytes are taken in": (
        "el tamaño de un cuerpo debe conocerse antes de recibir sus bytes"
    ),
    "the body had {one} bytes before and has {other} now": (
        "el cuerpo tenía antes {one} bytes y ahora tiene {other}"
    ),
    "the body came in the coding {coding}, which was not asked for": (
        "el cuerpo llegó con la codificación {coding}, que no se había pedido"
    ),
    "expected {count} bytes, but more came": "se esperaban {count} bytes, pero llegaron más",
    "expected {count} bytes, but {received} came": "se esperaban {count} bytes, pero llegaron {received}",
    "the first {count} bytes of the body do not hold its whole head": (
        "los primeros {count} bytes del cuerpo no contienen su cabecera entera"
    ),
    "a body of {count} bytes ends before its header does": (
        "un cuerpo de {count} bytes termina antes que su cabecera"
    ),
    "the message in the header must be a JSON object": "el mensaje de la cabecera debe ser un objeto JSON",
    "the message in the header is no JSON: {reason}": "el mensaje de la cabecera no es JSON: {reason}",
    "the scale of {name} is none that packed an array of this body": (
        "la escala de {name} no es de ninguna matriz empaquetada de este cuerpo"
    ),
    "the body is of another version of this form; expected {version}": (
        "el cuerpo es de otra versión de este formato; se esperaba {version}"
    ),
    "no parameters travel beside {kind}": "junto a {kind} no viajan parámetros",
    "{kind} cannot be written as JSON: {reason}": "{kind} no se puede escribir como JSON: {reason}",
    "a compressed body must state how large it is without compression": (
        "un cuerpo comprimido debe indicar su tamaño sin comprimir"
    ),
    "the compressed body cannot be read: {reason}": "el cuerpo comprimido no se puede leer: {reason}",
    "the body is no JSON: {reason}": "el cuerpo no es JSON: {reason}",
    "expected a JSON object, got {got}": "se esperaba un objeto JSON, llegó {got}",
    "an object": "un objeto",
    "whole numbers": "números enteros",
    "true or false": "verdadero o falso",
    "something else": "otra cosa",
}
_CALLERS: Mapping[str, str] = {
    "other large bodies are being read here; send this one again": (
        "aquí se están leyendo otros cuerpos grandes; vuelve a enviar este"
    ),
    "too many messages wait here for their answer; send this one again": (
        "demasiados mensajes esperan aquí su respuesta; vuelve a enviar este"
    ),
    "ports below {least} belong to other services": "los puertos inferiores a {least} son de otros servicios",
    "it is the caller's own machine, and would be this one here": (
        "es la propia máquina de quien llama, y aquí sería esta"
    ),
    "no node can be there": "ahí no puede haber ningún nodo",
    "the name is one of this machine": "el nombre es de esta máquina",
    "it is this node itself": "es este mismo nodo",
    "it lies outside of FLNET_ALLOWED_NETWORKS": "está fuera de FLNET_ALLOWED_NETWORKS",
    "what {peer} states of its update is not what it signed": (
        "lo que {peer} declara de su actualización no es lo que firmó"
    ),
    "this node does not know {peer}; announce it first with POST /announce": (
        "este nodo no conoce a {peer}; anúncielo primero con POST /announce"
    ),
    "this node calls nobody at {address}: {reason}": "este nodo no llama a nadie en {address}: {reason}",
    "too many messages in a short time; try again in {seconds} s": (
        "demasiados mensajes en poco tiempo; vuelve a intentarlo en {seconds} s"
    ),
}
_ARRAYS: Mapping[str, str] = {
    "{name} has shape {shape}; expected {expected}": "{name} tiene la forma {shape}; se esperaba {expected}",
    "{name} has dtype {dtype}; expected {expected}": "{name} tiene el tipo {dtype}; se esperaba {expected}",
    "array {name} has dtype {dtype}; expected floats, integers or booleans": (
        "la matriz {name} tiene el tipo {dtype}; se esperaban números reales, enteros o booleanos"
    ),
    "{name} has numbers that are not finite in {dtype}": "{name} tiene números que no son finitos en {dtype}",
    "{name} has numbers outside the range of {dtype}": "{name} tiene números fuera del rango de {dtype}",
    "{name} has numbers that are not finite; JSON cannot carry them": (
        "{name} tiene números que no son finitos; JSON no puede llevarlos"
    ),
    "wrong parameter names: {words}": "nombres de parámetros erróneos: {words}",
    "missing {names}": "faltan {names}",
    "not known here {names}": "aquí no se conocen {names}",
    "{name} must hold numbers only, but holds {found}": "{name} solo debe contener números, pero contiene {found}",
    "{name} must be an object of number lists by name, got {got}": (
        "{name} debe ser un objeto de listas de números por nombre, llegó {got}"
    ),
    "{name} has {count} arrays; at most {most} are read": (
        "{name} tiene {count} matrices; se leen como máximo {most}"
    ),
    "{name} is no regular array: numbers and lists stand side by side": (
        "{name} no es una matriz regular: hay números y listas mezclados"
    ),
    "{name} is no regular array: not everything in it has the same length": (
        "{name} no es una matriz regular: no todo en ella tiene la misma longitud"
    ),
    "{name} has more than {most} dimensions": "{name} tiene más de {most} dimensiones",
    "weights must be finite and not negative, got {value}": (
        "los pesos deben ser finitos y no negativos, llegó {value}"
    ),
    "nothing to merge: no update was added, or the result was handed out before": (
        "no hay nada que promediar: no se añadió ninguna actualización o el resultado ya se entregó"
    ),
    "nothing to merge: expected at least one set of parameters": (
        "no hay nada que promediar: se esperaba al menos un conjunto de parámetros"
    ),
    "{name} is no number": "{name} no es un número",
    "{count} arrays need a header of {size} bytes; neither would be read": (
        "{count} matrices necesitan una cabecera de {size} bytes; no se leería ninguna de las dos cosas"
    ),
    "no safetensors: a body of {size} bytes, whose header would have {length}; "
    "expected whole {step} bytes, at most {most}": (
        "no es safetensors: un cuerpo de {size} bytes cuya cabecera tendría {length}; "
        "se esperaban bloques de {step} bytes, como máximo {most}"
    ),
    "{name} must hold text by name": "{name} debe contener texto por nombre",
    "the body has {count} arrays; at most {most} are read": (
        "el cuerpo tiene {count} matrices; se leen como máximo {most}"
    ),
    "two fields of one object have the same name": "dos campos de un objeto tienen el mismo nombre",
    "an array's name must be printable, of at most {most} characters, not {name}": (
        "el nombre de una matriz debe ser imprimible, de {most} caracteres como máximo, no {name}"
    ),
    "{name} must be described by {fields}": "{name} debe describirse con {fields}",
    "the shape and the offsets of {name} must be whole numbers from 0 on": (
        "la forma y las posiciones de {name} deben ser números enteros a partir de 0"
    ),
    "{name} has a dtype that is not read; expected one of {expected}": (
        "{name} tiene un tipo que no se lee; se esperaba uno de {expected}"
    ),
    "{name} has a shape beyond {most} bytes": "{name} tiene una forma de más de {most} bytes",
    "the offsets of {name} do not fit its shape and dtype": (
        "las posiciones de {name} no corresponden a su forma y su tipo"
    ),
    "expected {count} bytes after the header's words, got {total}": (
        "se esperaban {count} bytes tras el texto de la cabecera, llegaron {total}"
    ),
    "a boolean must be 0 or 1": "un booleano debe ser 0 o 1",
    "it does not begin with {{": "no empieza por {{",
    "the header is no JSON object: {reason}": "la cabecera no es un objeto JSON: {reason}",
    "the arrays of the body must lie back to back, without holes and overlaps": (
        "las matrices del cuerpo deben ir seguidas, sin huecos ni solapamientos"
    ),
    "array {name} of dtype {dtype} cannot stand in a file: {reason}": (
        "la matriz {name} de tipo {dtype} no puede guardarse en un archivo: {reason}"
    ),
}
_REQUESTS: Mapping[str, str] = {
    "an unexpected error; the log of this node says more": (
        "un error inesperado; el registro de este nodo dice más"
    ),
    "there is nothing at {path}": "no hay nada en {path}",
    "{path} takes {known}, not {method}": "{path} admite {known}, no {method}",
    "state the size of the binary body in Content-Length, and send it unchunked": (
        "indique el tamaño del cuerpo binario en Content-Length y envíelo sin trocear"
    ),
    "the body did not come: expected a byte at least every {seconds} s and {speed} KiB per second in all": (
        "el cuerpo no llegó: se esperaba un byte al menos cada {seconds} s y {speed} KiB por segundo en total"
    ),
    'nothing to change: expected at least one of e, u, b, aggregation, such as {{"e": 2}}': (
        'nada que cambiar: se esperaba uno de e, u, b, aggregation, por ejemplo {{"e": 2}}'
    ),
    "last: expected a whole number from 1 to 999999999, got {value}": (
        "last: se esperaba un número entero de 1 a 999999999, llegó {value}"
    ),
    "Last-Event-ID: expected a whole number, got {value}": (
        "Last-Event-ID: se esperaba un número entero, llegó {value}"
    ),
    "{count} callers watch this node already; close one and try again": (
        "ya hay {count} observadores de este nodo; cierre uno e inténtelo de nuevo"
    ),
    'expected either "inputs" (lists of numbers) or "image" (a PNG or JPEG as base64)': (
        'se esperaba "inputs" (listas de números) o "image" (un PNG o JPEG en base64)'
    ),
    "the image is not base64: {reason}": "la imagen no está en base64: {reason}",
    "do: expected stop, pause or resume": "do: se esperaba stop, pause o resume",
    "a digest is 64 hexadecimal digits, not {value}": "un resumen tiene 64 cifras hexadecimales, no {value}",
    "there are {count} bytes, and {header} is outside": "hay {count} bytes, y {header} queda fuera",
    "the body must be {expected}, but its content type is {stated}": (
        "el cuerpo debe ser {expected}, pero su tipo de contenido es {stated}"
    ),
    "the body must be {expected}{also}, but its content type is {stated}": (
        "el cuerpo debe ser {expected}{also}, pero su tipo de contenido es {stated}"
    ),
    "this node takes {expected} only, not {stated}; send the parameters as JSON": (
        "este nodo solo admite {expected}, no {stated}; envíe los parámetros en JSON"
    ),
    "the body must be a JSON object ({expected}), but it is form data": (
        "el cuerpo debe ser un objeto JSON ({expected}), pero son datos de un formulario"
    ),
}
_FORMS: Mapping[str, str] = {
    "the form states no boundary": "el formulario no indica ningún separador",
    "the form cannot be read: {reason}": "el formulario no se puede leer: {reason}",
    "the form cannot be read, or has more than {most} parts": (
        "el formulario no se puede leer o tiene más de {most} partes"
    ),
    "row {row}, column {column}": "fila {row}, columna {column}",
    "row {row}, cell {cell}": "fila {row}, celda {cell}",
    "expected a form ({expected}), got {got}": "se esperaba un formulario ({expected}), llegó {got}",
    "there is nothing to judge yet: draw something, or choose a PNG or JPEG file": (
        "todavía no hay nada que predecir: dibuje algo o elija un archivo PNG o JPEG"
    ),
    "the drawing has {count} numbers; expected shape {shape}": (
        "el dibujo tiene {count} números; se esperaba la forma {shape}"
    ),
    "there is nothing to judge yet: fill in the fields, paste rows, or choose a file": (
        "todavía no hay nada que predecir: rellene los campos, pegue filas o elija un archivo"
    ),
    "the file has no rows": "el archivo no tiene filas",
    "there are {count} rows; at most {most} are judged at once": (
        "hay {count} filas; se predicen como máximo {most} a la vez"
    ),
    "the first row is neither numbers nor the names of columns: {row}": (
        "la primera fila no son números ni los nombres de las columnas: {row}"
    ),
    "the first row names a column twice": "la primera fila nombra dos veces una columna",
    "row {row} has {cells} cells; the first row names {columns} columns": (
        "la fila {row} tiene {cells} celdas; la primera fila nombra {columns} columnas"
    ),
    "{where} is empty; expected a number": "{where}: está vacía; se esperaba un número",
    "{where} is {value}; expected a number such as 3.5": (
        "{where}: el valor es {value}; se esperaba un número como 3.5"
    ),
    "the rows cannot be read: {reason}": "las filas no se pueden leer: {reason}",
    "row {row}, column {column} is {value}; expected {expected}": (
        "fila {row}, columna {column}: el valor es {value}; se esperaba {expected}"
    ),
    "the drawing": "el dibujo",
    "choose two different models to compare": "elija dos modelos distintos para compararlos",
    "no model {digest} is kept here any more; choose two of the list": (
        "aquí ya no se guarda ningún modelo {digest}; elija dos de la lista"
    ),
    "no model {digest} is kept here any more; choose one of the list": (
        "aquí ya no se guarda ningún modelo {digest}; elija uno de la lista"
    ),
    "model card": "ficha del modelo",
}
_FIELDS: Mapping[str, str] = {
    "Field required": "campo obligatorio",
    "Input should be a valid integer (got {value})": "debe ser un número entero (llegó {value})",
    "Input should be a valid number (got {value})": "debe ser un número (llegó {value})",
    "Input should be a valid string (got {value})": "debe ser un texto (llegó {value})",
    "Input should be a finite number (got {value})": "debe ser un número finito (llegó {value})",
    "Input should be greater than {limit} (got {value})": "debe ser mayor que {limit} (llegó {value})",
    "Input should be greater than or equal to {limit} (got {value})": (
        "debe ser mayor o igual que {limit} (llegó {value})"
    ),
    "Input should be less than {limit} (got {value})": "debe ser menor que {limit} (llegó {value})",
    "Input should be less than or equal to {limit} (got {value})": (
        "debe ser menor o igual que {limit} (llegó {value})"
    ),
    "Extra inputs are not permitted (got {value})": "no se admiten otros campos (llegó {value})",
    "Value error, {reason} (got {value})": "valor erróneo: {reason} (llegó {value})",
    "{field}: {reason}": "{field}: {reason}",
}

SPANISH: Mapping[str, str] = {**_BODIES, **_CALLERS, **_ARRAYS, **_REQUESTS, **_FORMS, **_FIELDS}
