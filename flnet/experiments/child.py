"""The process that trains cells: `python -m flnet.experiments.child PARENT NICENESS`.

Orders come as lines of JSON, first the settings and then cells that are trained together; what is done, and what
came of the cells, goes back likewise. What a trainer prints goes where errors go. The end of the input, or of the
parent, is the end of this process.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

from flnet.experiments.base import Cell, Outcome
from flnet.experiments.driving import run_together
from flnet.settings import Settings
from flnet.training.worker import be_killed_with

Say = Callable[[Any], None]
# Meshes leave no circles behind when they end; looking for some took a quarter of their time.
SELDOM = (100_000, 20, 20)
SETTINGS = frozenset({"datasets_path", "trainers_path", "device"})  # those that decide numbers


def order_of(cells: Sequence[Cell]) -> str:
    """A line that asks for these cells."""
    return json.dumps([cell.model_dump(mode="json") for cell in cells])


def settings_line(settings: Settings) -> str:
    """The line that comes first.

    Each process computes with one thread, however many processes there are: with more, sums may come out
    otherwise in the last digit.
    """
    return json.dumps({**settings.model_dump(mode="json", include=set(SETTINGS)), "compute_threads": 1})


def answer_of(line: str) -> float | list[Outcome]:
    """What a line that came back says: how much is done, or what came of the cells."""
    said = json.loads(line)
    return float(said) if isinstance(said, float | int) else [Outcome.model_validate(one) for one in said]


def main(parent: int, niceness: int) -> None:
    """Work until there is nothing more to do.

    Args:
        parent: the process that started this one.
        niceness: by how much to step back behind other processes.
    """
    be_killed_with(parent)
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    gc.set_threshold(*SELDOM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    serve(sys.stdin, say)


def serve(orders: IO[str], say: Say) -> None:
    """Do what each line asks for."""
    settings = Settings.model_validate_json(orders.readline())
    for line in orders:
        cells = [Cell.model_validate(one) for one in json.loads(line)]
        outcomes = run_together(cells, settings, say)
        say([outcome.model_dump(mode="json") for outcome in outcomes])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
