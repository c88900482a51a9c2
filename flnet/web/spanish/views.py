"""The texts of the further pages (models, prediction, data, settings) in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "That did not work": "No ha funcionado",
    "Trainers": "Entrenadores",
    "The data of this trainer are generated samples.": "Los datos de este entrenador son muestras generadas.",
    "held": "en uso",
    # models
    "The models that this node keeps, the one it goes on from first": (
        "Los modelos que guarda este nodo, primero el que está en uso"
    ),
    "Round": "Ronda",
    "Averaged from": "Promediado de",
    "Accuracy here": "Exactitud aquí",
    "Size": "Tamaño",
    "Adopted from": "Adoptado de",
    "Download": "Descargar",
    "Compare as A": "Comparar como A",
    "Compare as B": "Comparar como B",
    "Compare A with B": "Comparar A con B",
    "Let a model judge something": "Hacer una predicción con un modelo",
    "pinned": "fijado",
    "Keep": "Guardar",
    "Pin": "Fijar",
    "Unpin": "Soltar",
    "Use this model again": "Volver a este modelo",
    "Go back to the model {digest}": "Volver al modelo {digest}",
    "The next round starts from this model on all nodes if it is started at this node. If another node starts the "
    "next round first, it starts from the model that is in use there, and going back has no effect.": (
        "La próxima ronda parte de este modelo en todos los nodos si se inicia en este nodo. Si otro nodo inicia "
        "antes la próxima ronda, parte del modelo que está en uso allí y la vuelta atrás no tiene efecto."
    ),
    "The model in use now stays in the list as long as the others do, and past rounds stay in the history.": (
        "El modelo que está en uso ahora sigue en la lista tanto como los demás, y las rondas hechas siguen en el "
        "historial."
    ),
    "Go on from this model": "Seguir a partir de este modelo",
    "Leave it as it is": "Dejarlo como está",
    "A person went back to the model in use. The next round starts from it on all nodes if it is started at this "
    "node.": (
        "Una persona ha vuelto al modelo en uso. La próxima ronda parte de él en todos los nodos si se inicia en "
        "este nodo."
    ),
    "The model {digest} is kept until it is unpinned.": "El modelo {digest} se guarda hasta que se suelte.",
    "The model {digest} goes when its turn comes.": "El modelo {digest} se borrará cuando le toque.",
    "The model {digest} is in use again.": "El modelo {digest} vuelve a estar en uso.",
    "Comparison": "Comparación",
    "Accuracy of A here": "Exactitud de A aquí",
    "Accuracy of B here": "Exactitud de B aquí",
    "Not compared, because only one has them or their shapes differ: {names}": (
        "No se comparan, porque solo están en uno o sus formas difieren: {names}"
    ),
    "Difference of the parameters": "Diferencia de los parámetros",
    "Array": "Matriz",
    "Numbers": "Números",
    "Mean absolute difference": "Diferencia absoluta media",
    "Largest difference": "Diferencia máxima",
    "Cosine similarity": "Similitud coseno",
    "All together": "Todas juntas",
    "and {count} more arrays": "y {count} matrices más",
    # prediction
    "This trainer offers no predictions.": "Este entrenador no ofrece predicciones.",
    "What is to be judged": "Qué se va a clasificar",
    "Draw with the mouse, a finger or a pen. With the keyboard, choose a picture below.": (
        "Dibuje con el ratón, un dedo o un lápiz. Con el teclado, elija una imagen más abajo."
    ),
    "Drawing area": "Zona de dibujo",
    "Clear the drawing": "Borrar el dibujo",
    "Picture (PNG or JPEG); it is squeezed to {size} pixels": "Imagen (PNG o JPEG); se reduce a {size} píxeles",
    "One row": "Una fila",
    "Rows of {count} numbers, with tabs, semicolons or commas between them; a first row may name the columns": (
        "Filas de {count} números separados por tabuladores, puntos y comas o comas; la primera puede nombrar las "
        "columnas"
    ),
    "Names of the columns": "Nombres de las columnas",
    "or a file with such rows": "o un archivo con esas filas",
    "round {number}": "ronda {number}",
    "Judge": "Predecir",
    "The node did not answer. Is it still running?": "El nodo no ha respondido. ¿Sigue en marcha?",
    "What the model says": "Lo que dice el modelo",
    "Nothing has been handed in yet.": "Aún no se ha entregado nada.",
    "Row {number}": "Fila {number}",
    "Row": "Fila",
    "none of them": "ninguna",
    "Classes": "Clases",
    "and {count} more classes": "y {count} clases más",
    "{count} rows": "{count} filas",
    "Score": "Puntuación",
    "Probability": "Probabilidad",
    "These are scores, not probabilities: the largest wins.": (
        "Son puntuaciones, no probabilidades: gana la más alta."
    ),
    "Judged by the model {digest} of round {number}.": "Según el modelo {digest} de la ronda {number}.",
    "Judged by the untrained model {digest}.": "Según el modelo {digest}, sin entrenar.",
    # data
    "The rows stay on this node. What it sends in a round are model parameters, how many rows they come from, and "
    "accuracies.": (
        "Las filas no salen de este nodo. Lo que envía en una ronda son parámetros del modelo, de cuántas filas "
        "proceden y exactitudes."
    ),
    "Data sets are looked for in {folder}.": "Los conjuntos de datos se buscan en {folder}.",
    "No folder of data sets is set (FLNET_DATASETS_PATH).": (
        "No se ha indicado ninguna carpeta de conjuntos de datos (FLNET_DATASETS_PATH)."
    ),
    "This node takes all of each data set.": "Este nodo usa cada conjunto de datos entero.",
    "For experiments, this node takes part {index} of {count} of each data set:": (
        "Para experimentos, este nodo usa la parte {index} de {count} de cada conjunto de datos:"
    ),
    "every part has rows of all classes alike": "cada parte tiene filas de todas las clases por igual",
    "the shares of each class are drawn from a Dirichlet distribution with alpha {value}: the smaller it is, the "
    "less the parts are alike": (
        "las proporciones de cada clase se sortean de una distribución de Dirichlet con alfa {value}: cuanto "
        "menor, menos se parecen las partes"
    ),
    "every part has rows of {value} classes only": "cada parte tiene filas de solo {value} clases",
    "the parts have different sizes, drawn from a Dirichlet distribution with alpha {value}; the classes are "
    "alike": (
        "las partes tienen tamaños distintos, sorteados de una distribución de Dirichlet con alfa {value}; las "
        "clases son iguales"
    ),
    "the parts have sizes that fall by a power law with exponent {value}; the classes are alike": (
        "los tamaños de las partes decrecen según una ley de potencias de exponente {value}; las clases son "
        "iguales"
    ),
    "rows that belong together, such as those of one person, stay in one part": (
        "las filas que van juntas, como las de una persona, quedan en la misma parte"
    ),
    "Source": "Origen",
    "Note": "Nota",
    "Checksum of these rows (SHA-256)": "Suma de comprobación de estas filas (SHA-256)",
    "Rows of each split": "Filas de cada división",
    "Rows of each class": "Filas de cada clase",
    "Class": "Clase",
    # settings and REST API
    "REST API": "API REST",
    "What this node answers to programs; each endpoint opens. For machines, the same is in": (
        "Lo que este nodo responde a los programas; cada punto de acceso se abre. Para máquinas, lo mismo está en"
    ),
    "Fields that it takes": "Campos que admite",
    "Fields of the answer": "Campos de la respuesta",
    "Answers": "Respuestas",
    "Body: {types}": "Cuerpo: {types}",
    "Name": "Nombre",
    "In": "En",
    "Type": "Tipo",
    "What for": "Para qué",
    "required": "obligatorio",
    "An option beats a variable, a variable beats flnet.toml, the file beats the default. A change takes effect "
    "at the next start of the node.": (
        "Una opción prevalece sobre una variable, una variable sobre flnet.toml y el archivo sobre el valor por "
        "defecto. Un cambio surte efecto al volver a iniciar el nodo."
    ),
    "{count} of {all} settings were given.": "Se han indicado {count} de {all} ajustes.",
    "Setting": "Ajuste",
    "Value": "Valor",
    "From": "Procedencia",
    "default": "valor por defecto",
    "environment variable": "variable de entorno",
    "option on the command line": "opción de la línea de órdenes",
    "instead of {value}": "en lugar de {value}",
}
