"""Real nodes as real processes on loopback, with a trainer that takes as long as a test wants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import psutil

from flnet.fingerprints import fingerprint
from flnet.security.keys import own_key
from tests.alive import alive
from tests.mesh_name import MESH_HEADERS, MESH_NAME
from tests.ports import free_port
from tests.processes.forked import Forked, fork_node

Process: TypeAlias = subprocess.Popen[bytes] | Forked
DEADLINE_SECONDS = 120.0
ANSWER_SECONDS = 60.0  # for a node on a busy machine
ROOT = Path(__file__).parents[2]
# Trains until the file "go" lies beside it: a test decides when, not a clock.
SLOW_TRAINER = '''
"""Trains until it is told to stop."""

import pathlib
import time

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer

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
    """One `flnet run` and its REST API; the process changes when the node is started again."""

    def __init__(self, name: str, process: Process, port: int, http: httpx.Client, log: Path) -> None:
        self.name, self.process, self.port, self.http, self.log = name, process, port, http, log

    def get(self, path: str) -> Any:
        return self.http.get(path).json()

    def job(self, trainer: str = "SLOW") -> Mapping[str, Any]:
        view: Mapping[str, Any] = self.get(f"/jobs/{trainer}")
        return view

    def trigger(self, trainer: str = "SLOW", rounds: int = 1) -> httpx.Response:
        return self.http.post("/training/trigger", json={"trainerId": trainer, "rounds": rounds})

    def history(self, trainer: str = "SLOW") -> list[Mapping[str, Any]]:
        """What this node keeps of its rounds, oldest first."""
        records: list[Mapping[str, Any]] = self.get(f"/jobs/{trainer}/history")
        return records

    def told(self, kind: str) -> list[str]:
        """The sentences of this kind in its event log, oldest first."""
        items = map(json.loads, self.http.get("/events.jsonl").text.splitlines())
        return [item["text"] for item in items if item["kind"] == kind]

    def states(self) -> dict[str, str]:
        """How this node sees its peers, by id."""
        return {peer["id"]: peer["state"] for peer in self.get("/peers")}

    def children(self) -> list[psutil.Process]:
        """The training child, if it is alive."""
        return [p for p in psutil.Process(self.process.pid).children() if alive(p.pid)]

    def kill_child(self) -> None:
        (child,) = self.children()
        child.send_signal(signal.SIGKILL)

    def kill(self) -> None:
        """End it as the power would."""
        self.process.kill()
        self.process.wait()


class Harness:
    """Starts nodes in a folder."""

    module = "flnet"  # that `python -m` runs; it takes the command line of flnet

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trainers = folder / "trainers"
        self.trainers.mkdir()
        (self.trainers / "SLOW.py").write_text(SLOW_TRAINER)
        self.nodes: list[RealNode] = []
        self._settings: dict[str, dict[str, str]] = {}

    def start(self, **settings: str) -> RealNode:
        """A node with shard i of 9; it announces itself to the first one."""
        index, port = len(self.nodes), int(settings.get("NODE_PORT") or self.port())
        values = {
            "NODE_ID": f"n{index}",
            "NODE_PORT": str(port),
            "TRAINERS_PATH": str(self.trainers),
            "TRAINERS": "SLOW",
            "COMPUTE": "thread",  # a child would import the trainer again, which takes longer than most tests
            "STATE_PATH": str(self.folder / f"state{index}"),
            "DATA_SHARD": f"{index + 1}/9",
            **self.place(index),
            **settings,
        }
        self._settings[name := values["NODE_ID"]] = values
        node = RealNode(name, self.process(index, values), port, self.client(index, port), self.log(index))
        self.nodes.append(node)
        return node

    def again(self, node: RealNode, **settings: str) -> None:
        """Start an ended node again: on the same state folder and port, with the same settings but for these."""
        assert node.process.poll() is not None, f"{node.name} still runs"
        values = self._settings[node.name] | settings
        node.process = self.process(self.nodes.index(node), values)

    def state(self, node: RealNode) -> Path:
        """The folder for what the node keeps."""
        return Path(self._settings[node.name]["STATE_PATH"])

    def log(self, index: int) -> Path:
        """What the node says, from its first start on."""
        return self.folder / f"n{index}.log"

    def port(self) -> int:
        """For the next node."""
        return free_port()

    def place(self, index: int) -> dict[str, str]:
        """Settings that say where the node is and whom it calls first."""
        return {"BOOTSTRAP_PAIRS": f"127.0.0.1:{self.nodes[0].port}" if self.nodes else ""}

    def client(self, index: int, port: int) -> httpx.Client:
        """Speaks to the node from its own machine."""
        address = f"http://127.0.0.1:{port}"
        return httpx.Client(base_url=address, headers=MESH_HEADERS, trust_env=False, timeout=ANSWER_SECONDS)

    def process(self, index: int, values: Mapping[str, str]) -> Process:
        """Start the process of a node."""
        return fork_node(self.module_of(index), self.variables(index, values), self.folder, self.log(index))

    def module_of(self, index: int) -> str:
        """What this node runs."""
        return self.module

    def variables(self, index: int, values: Mapping[str, str]) -> dict[str, str]:
        """The environment of a node with these settings."""
        return environment(values)

    def command(self) -> list[str]:
        """What starts a node; it ends with this process, should that be killed."""
        return [sys.executable, "-m", self.module, "run", "--exit-with-parent", str(os.getpid())]

    def go(self) -> None:
        """Let trainings end."""
        (self.trainers / "go").touch()

    def hold(self) -> None:
        """Let later trainings run until `go`."""
        (self.trainers / "go").unlink()

    def ready(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait for a full mesh with loaded trainers."""
        for node in self.nodes:
            self.up(node, seconds)
        self.meshed(*self.nodes, seconds=seconds)

    def up(self, node: RealNode, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until a node could take part in rounds."""
        until(lambda: answers(node, "/ready"), f"readiness of {node.name}", seconds)

    def meshed(self, *nodes: RealNode, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until these nodes see all others of them alive."""
        for node in nodes:
            others = {other.name for other in nodes} - {node.name}
            until(
                lambda n=node, others=others: others <= {p for p, s in n.states().items() if s == "alive"},  # type: ignore[misc]
                f"{node.name} seeing {', '.join(sorted(others))}",
                seconds,
            )

    def stop(self) -> None:
        for node in self.nodes:
            node.http.close()
            if node.process.poll() is None:
                node.process.kill()
            node.process.wait()


class PinnedHarness(Harness):
    """Nodes that speak TLS only; on loopback, whatever certificate is shown is taken for the right one."""

    token = ""  # of the persons of all nodes; empty: they act because of where they are

    def mark(self, index: int) -> str:
        """The fingerprint of the node that will be started as this one.

        Not while it starts: both would make its key, and the node would go on with one that is not on the disk.
        """
        folder = self.folder / f"state{index}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return fingerprint(own_key(folder).text)

    def client(self, index: int, port: int) -> httpx.Client:
        """Speaks to the node as its person."""
        shown = MESH_HEADERS | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        return httpx.Client(
            base_url=f"https://127.0.0.1:{port}",
            headers=shown,
            trust_env=False,
            timeout=ANSWER_SECONDS,
            verify=False,
        )

    def place(self, index: int) -> dict[str, str]:
        """Settings that say where the node is, and who may act on it."""
        persons = {"TRUST_LOOPBACK": "false", "OPERATOR_TOKEN": self.token} if self.token else {}
        return {**super().place(index), "MESH_MODE": "pinned", **persons}


def environment(values: Mapping[str, str]) -> dict[str, str]:
    """The variables of a node of the mesh of this test run: those of this process, but of FLNET_* only these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    own = {"MESH_NAME": MESH_NAME, **values}
    return clean | {f"FLNET_{name}": value for name, value in own.items()} | {"PYTHONPATH": str(ROOT)}


@contextmanager
def harness(folder: Path) -> Iterator[Harness]:
    """A harness whose nodes are ended for certain."""
    made = Harness(folder)
    try:
        yield made
    finally:
        made.stop()


def at_rest(nodes: Sequence[RealNode], number: int, trainer: str = "SLOW") -> bool:
    """Whether all these nodes have ended the round of this number."""
    jobs = [node.job(trainer) for node in nodes]
    return all(job["phase"] == "IDLE" and job["current_round"] == number for job in jobs)


def kept(nodes: Sequence[RealNode], number: int) -> bool:
    """Whether all these nodes have said that the round of this number is closed: then it is on their disks, too.

    What a node shows of a job is what it knows, of which a part may not be saved yet.
    """
    return all(
        any(words.startswith(f"round {number} closed: ") for words in node.told("round_closed")) for node in nodes
    )


def digests(nodes: Sequence[RealNode], trainer: str = "SLOW") -> set[str]:
    """Of the models that these nodes hold."""
    return {node.job(trainer)["digest"] for node in nodes}


def answers(node: RealNode, path: str) -> bool:
    """Whether a node answers 200; fails at once where there is no node any more."""
    code = node.process.poll()
    assert code is None, f"{node.name} has ended with {code}; its last words: {node.log.read_text()[-2000:]}"
    try:
        return node.http.get(path).status_code == 200
    except httpx.TransportError:
        return False


def until(holds: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Poll until it holds; the deadline only turns a hang into a failure."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.05)
