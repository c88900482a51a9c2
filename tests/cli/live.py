"""Real `flnet` processes for tests, with a trainer so small that a round takes no time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from tests.mesh_name import MESH_NAME

DEADLINE_SECONDS = 120.0
TINY_TRAINER = '''
"""Moves one number towards this node's shard; no framework."""

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer


class Tiny(Trainer):
    def __init__(self, settings):
        self.goal = float(settings.shard[0])

    def initial_params(self, seed):
        return {"w": np.zeros(1, "float32")}

    def fit(self, task):
        task.progress(1, 1)
        return Fit({"w": (task.params["w"] + self.goal) / 2}, examples=10)

    def evaluate(self, params):
        distance = abs(float(params["w"][0]) - self.goal)
        return Score(1 / (1 + distance), examples=10, metrics={"distance": distance, "auc": 1 / (2 + distance)})

    def data_info(self):
        return DataInfo(source="one number", rows={"train": 10, "test": 10}, sample=True)


def make_trainer(settings):
    return Tiny(settings)
'''


def environment(folder: Path) -> dict[str, str]:
    """The variables for a light process: the tiny trainer TINY, in a thread, nothing from outside."""
    trainers = folder / "trainers"
    file = trainers / "TINY.py"
    if not file.exists():  # written once: a node that runs already may be reading it
        trainers.mkdir(exist_ok=True)
        file.write_text(TINY_TRAINER)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    return clean | {
        "FLNET_TRAINERS_PATH": str(trainers),
        "FLNET_COMPUTE": "thread",
        "FLNET_MESH_NAME": MESH_NAME,
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }


def start(folder: Path, *args: str, **variables: str) -> subprocess.Popen[str]:
    """`flnet` with these arguments, in this folder, with its output in pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "flnet", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder) | variables,
    )


@contextmanager
def flnet(folder: Path, *args: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The same, ended for certain at the end."""
    process = start(folder, *args, **variables)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(done: Callable[[], bool], what: str) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)


def until_ended(processes: Iterable[psutil.Process]) -> None:
    """Wait for the end of processes, some of which end a little later than those that they belong to."""
    until(lambda: all(map(_has_ended, processes)), "the end of the processes")


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def answers(port: int, path: str = "/health") -> bool:
    """Whether a node is healthy there, or answers 200 to another question."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=60).status_code == 200
    except httpx.TransportError:
        return False
