"""Trainers for measurements: made-up data, known sizes; a folder for FLNET_TRAINERS_PATH."""
