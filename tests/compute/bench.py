"""Trainers that misbehave in one way each, and compute queues to run them in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flnet.compute.queue import BackendQueue, make_queue
from flnet.compute.training_child import ProcessBackend
from flnet.compute.verbs import FitRequest
from flnet.params.params import TrainerId
from flnet.settings import Settings
from tests.helpers import HYPER, params

PLUGINS = Path(__file__).parent / "plugins"
START = params(w=[1.0, 2.0], steps=[0.0])
TINY = TrainerId("TINY")
PATIENCE_S = 60.0

_BASE = """
import os, sys, time
import numpy as np
from flnet.trainer import *

class Odd(Trainer):
    def __init__(self, settings):
        self.settings = settings
    def initial_params(self, seed):
        return {"w": np.array([1, 2], np.float32), "steps": np.zeros(1, np.float32)}
    def fit(self, task):
        {fit}
        return Fit(dict(task.params), examples=3)
    def evaluate(self, params):
        {evaluate}
        return Score(0.5, 4)

def make_trainer(settings):
    {make}
    return Odd(settings)
"""

ENDLESS = """
        done = 0
        while True:
            done += 1
            task.progress(done, 1_000_000)
            time.sleep(0.002)
"""


def plugin(
    folder: Path, name: str, *, fit: str = "", evaluate: str = "", make: str = "", head: str = ""
) -> TrainerId:
    """Write a trainer whose methods do these things first."""
    text = _BASE.replace("{fit}", fit or "pass").replace("{evaluate}", evaluate or "pass")
    (folder / f"{name}.py").write_text(head + text.replace("{make}", make or "pass"))
    return TrainerId(name)


class Bench:
    """A folder of trainers and one compute queue over it; remembers all progress."""

    def __init__(self, folder: Path, compute: str, **settings: Any) -> None:
        self.progress: list[tuple[str, int, int]] = []
        self.begun: list[asyncio.Task[Any]] = []
        self.settings = Settings.model_validate(
            {"trainers_path": folder, "state_path": folder / "state", "compute": compute, **settings}
        )
        queue = make_queue(self.settings, lambda *told: self.progress.append(told))
        assert isinstance(queue, BackendQueue)
        self.queue = queue

    def child(self) -> int | None:
        """The child's process id."""
        backend = self.queue.backend
        assert isinstance(backend, ProcessBackend)
        return backend.pid

    def fitting(self, trainer: TrainerId, **start: Any) -> asyncio.Task[Any]:
        """A training that goes on beside the test."""
        call = self.queue.call(trainer, FitRequest(params(**start) if start else START, HYPER, seed=1))
        self.begun.append(asyncio.create_task(call))
        return self.begun[-1]

    async def close(self) -> None:
        await self.queue.close()
        await asyncio.gather(*self.begun, return_exceptions=True)

    async def until_it_trains(self, count: int = 1) -> None:
        await eventually(lambda: len(self.progress) >= count)


async def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds; the deadline is only there so that a fault ends in words."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.01)
