"""The texts of the page and of what all pages share, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    # what all pages share
    "Skip to the content": "Saltar al contenido",
    "flnet node at {address}": "nodo flnet en {address}",
    "Pages": "Páginas",
    "Overview": "Resumen",
    "Models": "Modelos",
    "Prediction": "Predicción",
    "Data": "Datos",
    "Settings": "Ajustes",
    "Look": "Aspecto",
    "Language": "Idioma",
    "Colours": "Colores",
    "As the system": "Como el sistema",
    "Light": "Claro",
    "Dark": "Oscuro",
    "Apply": "Aplicar",
    "Refresh": "Actualizar",
    "The connection to this node is lost. What you see may be old; it is tried again by itself.": (
        "Se ha perdido la conexión con este nodo. Lo que ve puede ser antiguo; se reintenta automáticamente."
    ),
    "The connection to this node is back.": "Se ha recuperado la conexión con este nodo.",
    "looks again by itself while a round is going on": "se actualiza sola mientras hay una ronda en curso",
    "As JSON": "En JSON",
    # jobs
    "Jobs": "Trabajos",
    "Job": "Trabajo",
    "Busy": "Ocupado",
    "Idle": "Inactivo",
    "Not ready yet: {reasons}": "Aún no está listo: {reasons}",
    "Loading data": "Cargando datos",
    "No data": "Sin datos",
    "Training": "Entrenando",
    "Waiting for updates": "Esperando actualizaciones",
    "Averaging": "Promediando",
    "Measuring": "Evaluando",
    "Exchanging models": "Intercambiando modelos",
    "waiting for {names}": "esperando a {names}",
    "Do a training round": "Hacer una ronda de entrenamiento",
    "Local training": "Entrenamiento local",
    "{percent} % of the local training": "{percent} % del entrenamiento local",
    "Trainer": "Entrenador",
    "Current Round": "Ronda actual",
    "Fed. Learning Params": "Parámetros de aprendizaje federado",
    "Fed. Avg. done?": "¿Promedio federado hecho?",
    "Pre FedAvg. Accuracy": "Exactitud antes de FedAvg",
    "Post FedAvg Accuracy": "Exactitud después de FedAvg",
    "Was model exchanged?": "¿Se intercambió el modelo?",
    "Model": "Modelo",
    "Yes": "Sí",
    "No": "No",
    "not trained yet": "aún sin entrenar",
    "sample data": "datos de muestra",
    "checksum of these rows:": "suma de comprobación de estas filas:",
    "Further figures, before averaging": "Otras cifras, antes de promediar",
    "Further figures, after averaging": "Otras cifras, después de promediar",
    "{label} on the other nodes": "{label} en los otros nodos",
    "This node has no trainer.": "Este nodo no tiene ningún entrenador.",
    "Jobs that only other nodes have": "Trabajos que solo tienen otros nodos",
    # mesh
    "Mesh": "Malla",
    "Node": "Nodo",
    "Address": "Dirección",
    "State": "Estado",
    "alive": "activo",
    "unreachable": "inalcanzable",
    "1 other node known to this one": "Este nodo conoce a otro nodo",
    "{count} other nodes known to this one": "Este nodo conoce a otros {count} nodos",
    "No other node is known yet. A node joins when it announces itself here, or when this one finds it.": (
        "Aún no se conoce ningún otro nodo. Un nodo se une cuando se anuncia aquí o cuando este lo encuentra."
    ),
    # events
    "What happened": "Qué ha pasado",
    "Nothing yet.": "Nada todavía.",
}
