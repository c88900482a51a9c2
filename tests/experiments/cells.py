"""Tiny cells, and the settings under which their trainer is found."""

from __future__ import annotations

from pathlib import Path

from flnet.experiments.base import Cell, Setup
from flnet.settings import Settings

TRAINERS = Path(__file__).parent / "trainers"
TOLD = Settings(trainers_path=TRAINERS)


def cell(seed: int = 0, row: str = "r", column: str = "c", **says: object) -> Cell:
    """A cell that takes milliseconds."""
    setup = {"trainer": "TINY", "nodes": 3, "rounds": 3, **says}
    return Cell(row=row, column=column, seed=seed, setup=Setup.model_validate(setup))
