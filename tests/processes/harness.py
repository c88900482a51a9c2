"""Real nodes as real processes on loopback, with a trainer that takes as long as a test wants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

DEADLINE_SECONDS = 60.0
# Trains until the file "go" lies beside it: a test decides when, not a clock.
SLOW_TRAINER = '''
"""Trains until it is told to stop."""

import pathlib
import time

import numpy as np

from flnet.training.api import DataInfo, Fit, Score, Trainer

GO = pathlib.Path(__file__).with_name("go")


class Slow(Trainer):
    def __init__(self, settings):
        self.part = float(settings.shard[0])

    def initial_params(self, seed):
        return {"w": np.zeros(4, "float32")}

    def fit(self, task):
        done = 0
        while not GO.exists():
            done += 1
            task.progress(done, done + 1)
            sum(range(200_000))  # busy, as training is
        return Fit({"w": task.params["w"] + np.float32(self.part)}, examples=10)

    def evaluate(self, params):
        return Score(0.5, examples=10)

    def data_info(self):
        return DataInfo(source="four numbers", rows={"train": 10, "test": 10}, sample=True)


def make_trainer(settings):
    return Slow(settings)
'''


class RealNode:
    """One `flnet run` and its REST API."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10)

    def get(self, path: str) -> Any:
        return self.http.get(path).json()

    def job(self) -> Mapping[str, Any]:
        view: Mapping[str, Any] = self.get("/jobs/SLOW")
        return view

    def trigger(self) -> httpx.Response:
        return self.http.post("/training/trigger", json={"trainerId": "SLOW"})

    def children(self) -> list[psutil.Process]:
        """The training child, if it is alive."""
        return [p for p in psutil.Process(self.process.pid).children() if p.status() != psutil.STATUS_ZOMBIE]

    def kill_child(self) -> None:
        (child,) = self.children()
        child.send_signal(signal.SIGKILL)


class Harness:
    """Starts nodes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trainers = folder / "trainers"
        self.trainers.mkdir()
        (self.trainers / "SLOW.py").write_text(SLOW_TRAINER)
        self.nodes: list[RealNode] = []

    def start(self, **settings: str) -> RealNode:
        """A node with shard i of 9; it announces itself to the first one."""
        index, port = len(self.nodes), free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
        values = {
            "NODE_ID": f"n{index}",
            "NODE_PORT": str(port),
            "TRAINERS_PATH": str(self.trainers),
            "TRAINERS": "SLOW",
            "STATE_PATH": str(self.folder / f"state{index}"),
            "DATA_SHARD": f"{index + 1}/9",
            "BOOTSTRAP_PAIRS": f"127.0.0.1:{self.nodes[0].port}" if self.nodes else "",
            **settings,
        }
        variables = {f"FLNET_{name}": value for name, value in values.items()}
        with (self.folder / f"n{index}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "flnet", "run"],
                env=clean | variables,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        node = RealNode(process, port)
        self.nodes.append(node)
        return node

    def go(self) -> None:
        """Let trainings end."""
        (self.trainers / "go").touch()

    def hold(self) -> None:
        """Let later trainings run until `go`."""
        (self.trainers / "go").unlink()

    def ready(self) -> None:
        """Wait for a full mesh with loaded trainers."""
        for node in self.nodes:
            until(lambda n=node: answers(n, "/ready"), "readiness")  # type: ignore[misc]
            until(lambda n=node: len(n.get("/peers")) == len(self.nodes) - 1, "a full mesh")  # type: ignore[misc]

    def stop(self) -> None:
        for node in self.nodes:
            node.http.close()
            if node.process.poll() is None:
                node.process.kill()
            node.process.wait()


@contextmanager
def harness(folder: Path) -> Iterator[Harness]:
    """A harness whose nodes are ended for certain."""
    made = Harness(folder)
    try:
        yield made
    finally:
        made.stop()


def answers(node: RealNode, path: str) -> bool:
    try:
        return node.http.get(path).status_code == 200
    except httpx.TransportError:
        return False


def until(holds: Callable[[], bool], what: str) -> None:
    """Poll until it holds; the deadline only turns a hang into a failure."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
