"""FedMT: nodes that label their rows in different label spaces train one model (delgado2024)."""
