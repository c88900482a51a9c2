"""The pages beside the first one: a trainer's model, its data, predictions, findings, settings and keys."""
