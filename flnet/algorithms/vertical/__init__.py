"""Vertical federated learning: nodes that hold different columns of the same people align their rows."""
