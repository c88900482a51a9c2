"""Vertical federated learning: nodes hold different columns of the same rows."""
