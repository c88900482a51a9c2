"""Prints, in order, the files of flnet that a message runs through on a node.

    python -m tests.tools.trace_round [--json] [--rounds 5]

One node runs in this process, with its server, its store and its trainer; another one runs as a process of its own. They
train some rounds. Of each round two parts are recorded with `sys.setprofile`:

- update: from the moment the peer sends its parameters until this node says that it has averaged;
- click: from the POST of "Do a training round" until the HTTP client has this node's own update to send.

A file belongs to the way of a message if it ran in every round: probes of the membership and other timers that happened to
run at that moment are left out by that. The first round is left out, too, because much is done then for the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from tests.ports import free_port

TRAINER, SECONDS = "TRACED", 60.0
CODE = '''
"""Two numbers; waits while a file named after the node's part of the data is there."""

import time
from pathlib import Path

import numpy as np

from flnet.training.api import DataInfo, Fit, Score, Trainer


class Traced(Trainer):
    def __init__(self, settings):
        self.part = settings.shard[0]

    def initial_params(self, seed):
        return {"w": np.zeros(2, "float32")}

    def fit(self, task):
        while Path(__file__).with_name(f"hold-{self.part}").exists():
            task.progress(1, 2)
            time.sleep(0.01)
        return Fit({"w": task.params["w"] + np.float32(self.part)}, examples=10)

    def evaluate(self, params):
        return Score(0.5, examples=10)

    def data_info(self):
        return DataInfo(source="two numbers", rows={"train": 10, "test": 10})


make_trainer = Traced
'''


CLIENT_CALLS = ("send", "_request")  # in which a request has an address: of httpx, and of aiohttp before it


def _sends_update(frame: FrameType) -> bool:
    """Whether an HTTP client begins to send parameters to a peer."""
    known = frame.f_locals
    url = known.get("str_or_url") or getattr(known.get("request"), "url", "")
    return str(url).endswith("/training/model_params")


class Recorder:
    """Notes which files of a package run, in the order in which they do so first."""

    def __init__(self, package: Path) -> None:
        self._root, self._base = f"{package}{os.sep}", package.parent
        self._files: dict[str, None] | None = None
        self.averaged = threading.Event()

    def install(self) -> None:
        """Watch this thread, and all that begin later."""
        sys.setprofile(self._called)
        threading.setprofile(self._called)

    @contextmanager
    def recording(self) -> Iterator[dict[str, None]]:
        """Note files until the end of the block, or until the node has averaged or sends its update."""
        files: dict[str, None] = {}
        self.averaged.clear()
        self._files = files
        try:
            yield files
        finally:
            self._files = None

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        files, code = self._files, frame.f_code
        if files is None or event != "call" or code.co_name == "<module>":
            return
        if not code.co_filename.startswith(self._root):
            if code.co_name in CLIENT_CALLS and _sends_update(frame):
                self._files = None
            return
        files.setdefault(os.path.relpath(code.co_filename, self._base))
        if code.co_name == "publish" and frame.f_locals.get("kind") == "averaged":
            self._files = None
            self.averaged.set()


class Driver:
    """Lets the two nodes train, and records what runs on the first one."""

    def __init__(self, folder: Path, recorder: Recorder, rounds: int) -> None:
        self.recorder, self.rounds = recorder, rounds
        self.hold = folder / "trainers" / "hold-2"
        self.own, self.peer = (self._client(free_port()) for _ in range(2))
        self.ways: dict[str, list[list[str]]] = {"update": [], "click": []}
        self.failure: BaseException | None = None

    @staticmethod
    def _client(port: int) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)

    def run(self) -> None:
        """Train, then let the node in the main thread end."""
        try:
            for client in (self.own, self.peer):
                self._until(lambda c=client: _meshed(c), "a mesh of two nodes")  # type: ignore[misc]
            for number in range(self.rounds + 1):
                self._round(number)
        except BaseException as exc:  # the main thread raises it again
            self.failure = exc
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def _round(self, number: int) -> None:
        self.hold.touch()
        with self.recorder.recording() as click:
            self.own.post("/training/trigger", json={"trainerId": TRAINER}).raise_for_status()
            self._until(lambda: _has_update(self.peer, number), "the own update at the peer")
        time.sleep(0.2)  # what follows the peer's answer is over then
        with self.recorder.recording() as update:
            self.hold.unlink()
            assert self.recorder.averaged.wait(SECONDS), "the node did not average"
        for client in (self.own, self.peer):
            self._until(
                lambda c=client: _job(c)["phase"] == "IDLE" and _job(c)["model_round"] == number,  # type: ignore[misc]
                f"the end of round {number}",
            )
        if number > 0:
            self.ways["update"].append(list(update))
            self.ways["click"].append(list(click))

    @staticmethod
    def _until(holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not come about")
            time.sleep(0.02)


def _job(client: httpx.Client) -> Mapping[str, Any]:
    job: Mapping[str, Any] = client.get(f"/jobs/{TRAINER}").json()
    return job


def _has_update(client: httpx.Client, number: int) -> bool:
    job = _job(client)
    return job["current_round"] == number and "traced" in job["received"]


def _meshed(client: httpx.Client) -> bool:
    try:
        if client.get("/ready").status_code != 200:
            return False
        return [peer["state"] for peer in client.get("/peers").json()] == ["alive"]
    except httpx.TransportError:
        return False


def common(ways: list[list[str]]) -> list[str]:
    """The files that ran every time, in the order of the shortest way."""
    always = set.intersection(*map(set, ways))
    return [file for file in min(ways, key=len) if file in always]


def traced(rounds: int = 5) -> dict[str, list[str]]:
    """The files of both ways, relative to the folder of the package `flnet`.

    To be called once, in the main thread of a process that does nothing else.
    """
    import flnet

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "trainers").mkdir()
        (folder / "trainers" / f"{TRAINER}.py").write_text(CODE)
        recorder = Recorder(Path(flnet.__file__).parent)
        driver = Driver(folder, recorder, rounds)
        os.environ.update(_settings(folder, "traced", 1, driver.own.base_url.port, driver.peer.base_url.port))
        log = (folder / "peer.log").open("wb")
        settings = _settings(folder, "peer", 2, driver.peer.base_url.port, driver.own.base_url.port)
        peer = subprocess.Popen(
            [sys.executable, "-m", "flnet", "run", "--exit-with-parent", str(os.getpid())],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
        try:
            _run_here(driver, recorder)
        finally:
            peer.terminate()
            peer.wait(SECONDS)
            log.close()
    if driver.failure is not None:
        raise driver.failure
    return {name: common(ways) for name, ways in driver.ways.items()}


def _run_here(driver: Driver, recorder: Recorder) -> None:
    """Run a node in this thread until the driver, in another one, has seen enough."""
    from flnet.__main__ import main

    given, shown = sys.argv, sys.stdout
    sys.argv, sys.stdout = ["flnet", "run"], sys.stderr
    recorder.install()
    thread = threading.Thread(target=driver.run, daemon=True)
    thread.start()
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.argv, sys.stdout = given, shown
        sys.setprofile(None)
        threading.setprofile(None)
    thread.join(SECONDS)


def _settings(folder: Path, name: str, part: int, port: int | None, other: int | None) -> dict[str, str]:
    values = {
        "NODE_ID": name,
        "NODE_PORT": f"{port}",
        "BOOTSTRAP_PAIRS": f"127.0.0.1:{other}",
        "STATE_PATH": str(folder / name),
        "TRAINERS_PATH": str(folder / "trainers"),
        "TRAINERS": TRAINER,
        "DATA_SHARD": f"{part}/2",
        "COMPUTE": "thread",
        "LOGGING_LEVEL": "ERROR",
    }
    return {f"FLNET_{key}": value for key, value in values.items()}


def main() -> None:
    """Print both ways."""
    parser = argparse.ArgumentParser(description="the files that a message runs through on a node")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=5, help="how many are compared")
    asked = parser.parse_args()
    ways = traced(asked.rounds)
    if asked.json:
        print(json.dumps(ways))
        return
    titles = {"update": "a peer's parameters arrive -> averaged", "click": "a click -> the own update is sent"}
    for name, files in ways.items():
        print(f"{titles[name]}: {len(files)} files")
        print("".join(f"  {number:3} {file}\n" for number, file in enumerate(files, 1)))


if __name__ == "__main__":
    main()
