"""What the trainers that come with flnet say of their data, in Spanish; see `flnet.web.sentences`."""

from __future__ import annotations

from collections.abc import Mapping

_CHEST: Mapping[str, str] = {
    "Chest X-Ray Pneumonia Dataset, with its causes": "Radiografías de tórax con neumonía, con sus causas",
    "one X-ray of a chest, in grey": "una radiografía de tórax, en gris",
    "a research model, no diagnosis": "un modelo de investigación, no un diagnóstico",
    "put the published images as {layout} into a folder and name that folder in FLNET_DATASETS_PATH; "
    "they are at https://data.mendeley.com/datasets/rscbjbr9sj (CC BY 4.0)": (
        "ponga las imágenes publicadas como {layout} en una carpeta e indique esa carpeta en FLNET_DATASETS_PATH; "
        "están en https://data.mendeley.com/datasets/rscbjbr9sj (CC BY 4.0)"
    ),
    "{patients} patients; {count} more X-rays, the published test part, are for measuring only": (
        "{patients} pacientes; otras {count} radiografías, la parte de prueba publicada, son solo para evaluar"
    ),
    "the chest X-rays were not found in {folder}": "no se encontraron las radiografías de tórax en {folder}",
    "too few X-rays for this shard: {counts}": "muy pocas radiografías para esta parte: {counts}",
    "use fewer shards, or bring more X-rays": "use menos partes o traiga más radiografías",
    "{count} damaged left out: {names}": "{count} dañadas quedaron fuera: {names}",
    "{count} left out that are there twice, under another patient or in the published test part": (
        "quedaron fuera {count} que están dos veces, con otro paciente o en la parte de prueba publicada"
    ),
    "{count} have no patient in their name, so that each counts as a patient of its own": (
        "{count} no llevan paciente en su nombre, así que cada una cuenta como un paciente"
    ),
    "the chest X-rays are not here, because FLNET_DATASETS_PATH is not set": (
        "las radiografías de tórax no están aquí, porque FLNET_DATASETS_PATH no está definida"
    ),
    "{path}: images are {dtype} {shape}; expected uint8 [n, {height}, {width}]": (
        "{path}: las imágenes son {dtype} {shape}; se esperaba uint8 [n, {height}, {width}]"
    ),
    "{path}: labels are {dtype} {shape}; expected {words} for each of {count} images": (
        "{path}: las etiquetas son {dtype} {shape}; se esperaba {words} para cada una de {count} imágenes"
    ),
    "{path}: patients are {dtype} {shape}; expected {count} numbers": (
        "{path}: los pacientes son {dtype} {shape}; se esperaban {count} números"
    ),
    "chest X-rays in {folder}": "radiografías de tórax en {folder}",
    "{folder} is not as expected: no images in {part}/{kind}; {name} has {present}": (
        "{folder} no es como se esperaba: no hay imágenes en {part}/{kind}; {name} tiene {present}"
    ),
    "arrange them as {layout} (or .jpg, .png)": "ordénelas como {layout} (o .jpg, .png)",
}
_CIFAR: Mapping[str, str] = {
    "put the binary version, {file}, packed or unpacked into cifar-10-batches-bin/, or the Python version, "
    "packed or unpacked into cifar-10-batches-py/, or a file cifar10.npz with x_train, y_train, x_test and "
    "y_test, into a folder and name that folder in FLNET_DATASETS_PATH": (
        "ponga la versión binaria, {file}, empaquetada o desempaquetada en cifar-10-batches-bin/, o la versión de "
        "Python, empaquetada o desempaquetada en cifar-10-batches-py/, o un archivo cifar10.npz con x_train, "
        "y_train, x_test e y_test, en una carpeta e indique esa carpeta en FLNET_DATASETS_PATH"
    ),
    "CIFAR-10, small network": "CIFAR-10, red pequeña",
    "CIFAR-10 was not found in {folder}": "no se encontró CIFAR-10 en {folder}",
    "too few rows for this shard: {counts}": "muy pocas filas para esta parte: {counts}",
    "use fewer shards": "use menos partes",
    "CIFAR-10 is not here, because FLNET_DATASETS_PATH is not set": (
        "CIFAR-10 no está aquí, porque FLNET_DATASETS_PATH no está definida"
    ),
    "{path} is damaged: {size} bytes are not a number of records of {count}": (
        "{path} está dañado: {size} bytes no son un número entero de registros de {count}"
    ),
    "{path}: images are {dtype} {shape}; expected uint8 [n, 32, 32, 3]": (
        "{path}: las imágenes son {dtype} {shape}; se esperaba uint8 [n, 32, 32, 3]"
    ),
    "{path}: labels are {dtype} {shape}; expected 0 to 9, {count} of them": (
        "{path}: las etiquetas son {dtype} {shape}; se esperaban {count}, de 0 a 9"
    ),
    "CIFAR-10 {kind} files in {folder}": "archivos {kind} de CIFAR-10 en {folder}",
    "CIFAR-10 as JPEG in {folder}": "CIFAR-10 en JPEG en {folder}",
    "{path}: the offsets do not cut jpeg_{part} into files": (
        "{path}: las posiciones no dividen jpeg_{part} en archivos"
    ),
}
_DIGITS: Mapping[str, str] = {
    "for MNIST put its four idx files (.gz or unpacked) in a folder mnist/, or the file mnist.npz, into a folder "
    "and name that folder in FLNET_DATASETS_PATH": (
        "para MNIST ponga sus cuatro archivos idx (.gz o desempaquetados) en una carpeta mnist/, o el archivo "
        "mnist.npz, en una carpeta e indique esa carpeta en FLNET_DATASETS_PATH"
    ),
    "put mnist.npz, mnist_m.npz, usps.npz and svhn.npz into a folder and name it in FLNET_DATASETS_PATH": (
        "ponga mnist.npz, mnist_m.npz, usps.npz y svhn.npz en una carpeta e indíquela en FLNET_DATASETS_PATH"
    ),
    "digits of {name}": "dígitos de {name}",
    "Digits of unlike domains": "Dígitos de dominios distintos",
    "a number above 0": "un número mayor que 0",
    "{path} is damaged or incomplete: {error}": "{path} está dañado o incompleto: {error}",
    "one digit, in the middle": "un dígito, en el centro",
    "too few digits of {name} for {count} nodes": "hay muy pocos dígitos de {name} para {count} nodos",
    "use fewer nodes": "use menos nodos",
    "no digits of {name} were found in {folder}": "no se encontraron dígitos de {name} en {folder}",
    "the digits bundled with scikit-learn ({count} of them for testing)": (
        "los dígitos incluidos en scikit-learn ({count} de ellos para evaluar)"
    ),
    "the digits bundled with scikit-learn (1797 images of 8x8), because {reason}": (
        "los dígitos incluidos en scikit-learn (1797 imágenes de 8x8), porque {reason}"
    ),
    "one digit, white on black, in the middle": "un dígito, blanco sobre negro, en el centro",
    "FLNET_DATASETS_PATH is not set": "FLNET_DATASETS_PATH no está definida",
    "MNIST was not found in {folder}": "no se encontró MNIST en {folder}",
    "{path}: labels are {dtype} {shape}; expected digits [n], 0 to 9": (
        "{path}: las etiquetas son {dtype} {shape}; se esperaban dígitos [n], de 0 a 9"
    ),
    "MNIST idx files in {folder}": "archivos idx de MNIST en {folder}",
    "neither MNIST nor scikit-learn's digits are here": "no están ni MNIST ni los dígitos de scikit-learn",
}
_LABELS: Mapping[str, str] = {
    "{rows} rows from {first} to {nodes} nodes by seed {seed} of {draws}, global test {share}, labels {names} "
    "{which}": (
        "{rows} filas desde {first} para {nodes} nodos con la semilla {seed} de {draws}, prueba global {share}, "
        "etiquetas {names} {which}"
    ),
    "this node has {count} of {number} labels; rows without any of them are left out": (
        "este nodo tiene {count} de {number} etiquetas; las filas sin ninguna de ellas quedan fuera"
    ),
    "multi-label data set {name}": "conjunto de datos multietiqueta {name}",
    "MULTI_LABEL deals rows and labels by {name}; FLNET_DATA_PARTITION={value} is not for it": (
        "MULTI_LABEL reparte filas y etiquetas según {name}; FLNET_DATA_PARTITION={value} no le corresponde"
    ),
    "no row of this node has one of its labels ({names})": (
        "ninguna fila de este nodo tiene una de sus etiquetas ({names})"
    ),
    "too few rows for this node: {counts}": "muy pocas filas para este nodo: {counts}",
    "expected as many as FLNET_DATA_SHARD={part}/{parts} has parts": (
        "se esperaban tantos como partes tiene FLNET_DATA_SHARD={part}/{parts}"
    ),
    "{count} labels cannot be dealt to {nodes} nodes, one at least to each": (
        "{count} etiquetas no se pueden repartir entre {nodes} nodos, al menos una a cada uno"
    ),
    "by name {names}": "por nombre {names}",
    "the global test was drawn from {one}, and now would be from {other}: it would hold rows that were trained "
    "on. Bring that back, or delete {path} and start with untrained parameters": (
        "la prueba global se sacó de {one} y ahora sería de {other}: contendría filas con las que se entrenó. "
        "Restáurelo, o borre {path} y empiece con parámetros sin entrenar"
    ),
    "{kind} noise was added to this node's own rows": "se añadió ruido {kind} a las filas propias de este nodo",
    "{path}: {name} is for {nodes} nodes; {words}": "{path}: {name} es para {nodes} nodos; {words}",
    "{path}: no label {name}; the data have {labels}": "{path}: no hay etiqueta {name}; los datos tienen {labels}",
    "{path} cannot be kept: {reason}": "{path} no se puede guardar: {reason}",
    "put a data set (.arff with Mulan's .xml, .csv or .npz) into a folder, name the file in {options} beside it "
    '(file = "scene.arff"), and name the folder in FLNET_DATASETS_PATH': (
        "ponga un conjunto de datos (.arff con el .xml de Mulan, .csv o .npz) en una carpeta, indique el archivo "
        'en {options} a su lado (file = "scene.arff") e indique la carpeta en FLNET_DATASETS_PATH'
    ),
    "no multi-label data set was found in {folder}": (
        "no se encontró ningún conjunto de datos multietiqueta en {folder}"
    ),
    "how many labels each node gets, above 0": "cuántas etiquetas recibe cada nodo, más de 0",
    "a whole number from 0": "un número entero desde 0",
    "stop or skip": "stop o skip",
    "a share from 0 to below 1": "una proporción desde 0 y menor que 1",
    "all names": "todos los nombres",
    "a whole number above 0": "un número entero mayor que 0",
    "{path}: labels are not those of the data, which are {labels}": (
        "{path}: labels no son las de los datos, que son {labels}"
    ),
    '{path}: draws = "notebook" deals the labels itself; expected deal, not node_labels': (
        '{path}: draws = "notebook" reparte las etiquetas por sí mismo; se esperaba deal, no node_labels'
    ),
    '{path}: first_row is for draws = "notebook"; expected that, or no first_row': (
        '{path}: first_row es para draws = "notebook"; se esperaba eso, o ningún first_row'
    ),
    "{path}: first_row = {number}; there are {rows} rows": "{path}: first_row = {number}; hay {rows} filas",
    '{path}: with draws = "notebook" deal = {value}; {rule}': (
        '{path}: con draws = "notebook" deal = {value}; {rule}'
    ),
    "expected numbers for {number} nodes whose sum is {count}, how many labels there are": (
        "se esperaban números para {number} nodos cuya suma sea {count}, cuántas etiquetas hay"
    ),
    "three shares above 0": "tres proporciones mayores que 0",
    "{path}: node_labels gives a label to two nodes": "{path}: node_labels da una etiqueta a dos nodos",
    "{path}: node_labels and deal are two ways to say the same; expected one of them": (
        "{path}: node_labels y deal son dos maneras de decir lo mismo; se esperaba una de ellas"
    ),
    "{path} names {name}, but {file} is not there": "{path} nombra {name}, pero {file} no existe",
    "{path}: {name} is no option; expected {expected}": "{path}: {name} no es una opción; se esperaba {expected}",
}
_MOOC: Mapping[str, str] = {
    "Drop-out from online courses (KDD Cup 2015)": "Abandono de cursos en línea (KDD Cup 2015)",
    "what a student did, in counts": "lo que hizo un estudiante, en recuentos",
    "dropped out": "abandonó",
    "put {file} into a folder and name that folder in FLNET_DATASETS_PATH": (
        "ponga {file} en una carpeta e indique esa carpeta en FLNET_DATASETS_PATH"
    ),
    "Groups of pictures": "Grupos de imágenes",
    "edges in {rows} x {columns} cells": "bordes en {rows} x {columns} celdas",
    "pictures in {path}": "imágenes en {path}",
    "put pictures into a folder {name} below FLNET_DATASETS_PATH": (
        "ponga imágenes en una carpeta {name} dentro de FLNET_DATASETS_PATH"
    ),
    "too few pictures in {path}: {counts}": "muy pocas imágenes en {path}: {counts}",
    "bring more pictures, or use fewer shards": "traiga más imágenes o use menos partes",
    "one picture, in grey; any size as a file": "una imagen, en gris; como archivo, de cualquier tamaño",
    "enrolments in online courses, {path}": "matrículas en cursos en línea, {path}",
    "too few enrolments for this node: {counts}": "muy pocas matrículas para este nodo: {counts}",
    "how many enrolments are dealt, above 0": "cuántas matrículas se reparten, más de 0",
    "{path}: rows are {shape}, with {labels} labels and {courses} courses; expected {columns} columns, and a "
    "label and a course for each row": (
        "{path}: las filas son {shape}, con {labels} etiquetas y {courses} cursos; se esperaban {columns} "
        "columnas, y una etiqueta y un curso por fila"
    ),
    "{path}: expected finite numbers, and labels 0 or 1": (
        "{path}: se esperaban números finitos y etiquetas 0 o 1"
    ),
}
_OTHERS: Mapping[str, str] = {
    "an X-ray of a child's chest from the front, squeezed to 64x64": (
        "una radiografía de frente del tórax de un niño, reducida a 64x64"
    ),
    "a photograph of one thing; it is squeezed to 32x32 pixels": (
        "una fotografía de una sola cosa; se reduce a 32x32 píxeles"
    ),
    "one row, with the columns of the data set": "una fila, con las columnas del conjunto de datos",
    "the name of a file": "el nombre de un archivo",
    "names, the beginning of names, or a number": "nombres, el comienzo de nombres o un número",
    "names of columns": "nombres de columnas",
    "a list of names for each node": "una lista de nombres para cada nodo",
    "FLNET_DEVICE={device} asks for a GPU, but TensorFlow {version} can use none here; "
    "set FLNET_DEVICE to auto or cpu": (
        "FLNET_DEVICE={device} pide una GPU, pero TensorFlow {version} no puede usar ninguna aquí; "
        "ponga FLNET_DEVICE en auto o cpu"
    ),
    "FLNET_DEVICE={device} asks for {what}, but PyTorch {version} can use none here; "
    "set FLNET_DEVICE to auto or cpu": (
        "FLNET_DEVICE={device} pide {what}, pero PyTorch {version} no puede usar ninguna aquí; "
        "ponga FLNET_DEVICE en auto o cpu"
    ),
    "layer {name} is a {kind}, which has no place in the ONNX file": (
        "la capa {name} es {kind}, que no cabe en el archivo ONNX"
    ),
    "one image, {size}; any size as a file": "una imagen, {size}; de cualquier tamaño como archivo",
    "numbers as they stand in the table; 1 for a category": (
        "números tal como están en la tabla; 1 para una categoría"
    ),
    "the pictures are JPEG or PNG files, and Pillow, which reads those, is not installed": (
        "las imágenes son archivos JPEG o PNG, y Pillow, que los lee, no está instalado"
    ),
}

SPANISH: Mapping[str, str] = {**_CHEST, **_CIFAR, **_DIGITS, **_LABELS, **_MOOC, **_OTHERS}
