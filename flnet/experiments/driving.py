"""Drives the meshes of cells that are trained together, in step: what all of them wait for is done at once."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flnet.errors import LocalError
from flnet.experiments.base import Cell, Outcome
from flnet.experiments.learners import LINKED, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import Mesh
from flnet.settings import Settings
from flnet.training.api import TrainerFile

Told = Callable[[float], None]  # takes the part that is done, in [0, 1]


def run_together(cells: Sequence[Cell], settings: Settings, told: Told = lambda done: None) -> list[Outcome]:
    """What comes of these cells, which are trained as one; of one that fails, the reason.

    Args:
        settings: of whoever runs the experiment: where data sets and trainers lie, device, threads.
        told: hears from time to time how much is done.
    """
    began, worked = time.monotonic(), time.process_time()
    found: dict[str, TrainerFile] = {}  # looking through all trainers takes longer than a small training
    with tempfile.TemporaryDirectory(prefix="flnet-cells-") as folder:
        places = [Path(folder) / str(number) for number in range(len(cells))]
        made = [_made(cell, settings, place, found) for cell, place in zip(cells, places, strict=True)]
        outcomes = _driven(made, told)
    costs = {
        "seconds": (time.monotonic() - began) / len(cells),
        "processor_seconds": (time.process_time() - worked) / len(cells),
        "machine": machine(),
    }
    return [
        outcome.model_copy(update={**costs, "data": _named(outcome.data, place, settings)})
        for outcome, place in zip(outcomes, places, strict=True)
    ]


def _named(data: str, place: Path, settings: Settings) -> str:
    """Where rows are from, as people know it, and not by the links that were made beside a trainer's options."""
    return data.replace(str(place / LINKED), str(settings.datasets_path))


def machine() -> str:
    """This machine in words: processor, how many of them, system."""
    return f"{_processor()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"


def _made(cell: Cell, settings: Settings, place: Path, found: dict[str, TrainerFile]) -> Mesh | Outcome:
    """The mesh of a cell, or why there is none; `found` are the trainers that were looked for before."""
    name = cell.setup.trainer
    try:
        if name not in found:
            found[name] = trainer_file(name, settings)
        return Mesh(cell, learners_of(cell, found[name], settings, place))
    except LocalError as exc:
        return Outcome(reason=exc.message)


def _driven(made: Sequence[Mesh | Outcome], told: Told) -> list[Outcome]:
    """Take the meshes through their rounds until none of them has anything left to do."""
    ends: list[Outcome | None] = [one if isinstance(one, Outcome) else None for one in made]
    meshes = {number: one for number, one in enumerate(made) if isinstance(one, Mesh)}
    while meshes:
        orders = []
        for number, mesh in list(meshes.items()):
            try:
                wanted = mesh.advance()
            except LocalError as exc:
                ends[number], wanted = Outcome(reason=exc.message), []
            if not wanted:
                ends[number] = ends[number] or mesh.outcome()
                meshes.pop(number).end()
            orders += wanted
        carry_out(orders)
        for mesh in meshes.values():
            mesh.go_on()
        told((sum(mesh.done for mesh in meshes.values()) + len(made) - len(meshes)) / len(made))
    return [end for end in ends if end is not None]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
