"""Trains five rounds with a node of revision 1a28d2c and one of this checkout, real processes on loopback.

    python -m tests.frozen.mixed_mesh [--kind binary] [--old-against-old]

Both must end every round with the same model. FLNET_OLD_TREE names a checkout of 1a28d2c; without it, a worktree is made
in a temporary folder. The Python of this checkout runs both; what the old revision needs besides lies in .venv/earlier,
where `make long` installs it, or FLNET_OLD_PYTHON names another Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.frozen.places import EARLIER, OLD, ROOT, free_port

ROUNDS, SECONDS, TRAINER = 5, 120.0, "SMALL_DIGITS"
KINDS: Mapping[str, Mapping[str, str]] = {
    "binary": {},
    "json": {"WIRE": "json"},
    "float16": {"WIRE": "float16"},
    "int8": {"WIRE": "int8"},
    "keyed": {"MESH_KEY": "correct horse battery staple"},
    "pinned": {"MESH_MODE": "pinned"},
    "moments": {"AGGREGATION": "fedadam:0.1"},
    "asynchronous": {"ROUNDS": "asynchronous"},
}


class Node:
    """One node of one of the two versions."""

    def __init__(self, name: str, python: str, packages: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self.name, self.port = name, free_port()
        given = {
            "NODE_ID": name,
            "NODE_PORT": str(self.port),
            "TRAINERS": TRAINER,
            "STATE_PATH": str(folder / name),
            **settings,
        }
        clean = {key: value for key, value in os.environ.items() if not key.startswith("FLNET_")}
        variables = {f"FLNET_{key}": value for key, value in given.items()}
        with (folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", "flnet", "run"],
                env={**clean, **variables, "PYTHONPATH": f"{packages}{os.pathsep}{EARLIER}"},
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        scheme = "https" if given.get("MESH_MODE") == "pinned" else "http"
        self.http = httpx.Client(
            base_url=f"{scheme}://127.0.0.1:{self.port}", verify=False, trust_env=False, timeout=60
        )
        self.log = folder / f"{name}.log"

    def get(self, path: str) -> Any:
        """An answer as JSON; None while there is none."""
        assert self.process.poll() is None, f"{self.name} ended: {self.log.read_text()[-3000:]}"
        try:
            answer = self.http.get(path)
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def digests(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """Round, model and contributors of every round so far."""
        records = self.get(f"/jobs/{TRAINER}/history") or []
        return [(one["round"], one["digest"], tuple(one["contributors"])) for one in records]

    def end(self) -> None:
        """Stop it."""
        self.http.close()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


@contextmanager
def old_tree() -> Iterator[Path]:
    """A checkout of the old revision."""
    given = os.environ.get("FLNET_OLD_TREE")
    if given:
        yield Path(given)
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), OLD], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def packages_of(tree: Path, folder: Path) -> Path:
    """A folder from which the packages of a checkout are imported, before those that are installed."""
    folder.mkdir()
    for package, place in (("flnet", "flnet"), ("flnet_trainers", "trainers"), ("flnet_resources", "resources")):
        (folder / package).symlink_to((tree / place).resolve())
    return folder


def until(holds: Any, what: str) -> None:
    """Wait for something."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.1)


def introduce(first: Node, second: Node) -> None:
    """Let persons accept both nodes of a pinned mesh."""
    marks = [node.get("/trust")["own"]["fingerprint"] for node in (first, second)]
    first.http.post("/trust/accept", json={"fingerprint": marks[1]}).raise_for_status()
    second.http.post("/trust/accept", json={"fingerprint": marks[0]}).raise_for_status()


def meshed(node: Node) -> bool:
    """Whether a node is ready, and sees the other one."""
    ready, peers = node.get("/ready"), node.get("/peers")
    return bool(ready and ready["ready"] and peers and peers[0]["state"] == "alive")


def train(kind: str, first: Node, second: Node) -> list[tuple[int, str, tuple[str, ...]]]:
    """Five rounds, started at both in turns; what came of each.

    Raises:
        AssertionError: the nodes ended a round with different models.
    """
    for node in (first, second):
        until(lambda n=node: n.get("/health") is not None, f"the start of {node.name}")
    if kind == "pinned":
        introduce(first, second)
    until(lambda: meshed(first) and meshed(second), "the mesh")
    for number in range(ROUNDS):
        starter = (first, second)[number % 2]
        if kind == "asynchronous":
            trigger_version(starter, number)
            continue
        starter.http.post("/training/trigger", json={"trainerId": TRAINER}).raise_for_status()
        for node in (first, second):
            until(lambda n=node, done=number + 1: len(n.digests()) == done, f"round {number} of {node.name}")
            until(lambda n=node: n.get(f"/jobs/{TRAINER}")["phase"] == "IDLE", f"rest of {node.name}")
    if kind == "asynchronous":
        return first.digests()
    assert first.digests() == second.digests(), f"{kind}: {first.digests()} and {second.digests()}"
    assert {len(one[2]) for one in first.digests()} == {2}, f"{kind}: {first.digests()}"
    return first.digests()


def trigger_version(node: Node, number: int) -> None:
    """Let a node without common rounds make a version; from the second one on it merges the other's."""
    before = len(node.digests())
    node.http.post("/training/trigger", json={"trainerId": TRAINER}).raise_for_status()
    until(lambda: len(node.digests()) > before, f"a version of {node.name}")
    until(lambda: node.get(f"/jobs/{TRAINER}")["phase"] == "IDLE", f"rest of {node.name}")
    merged = node.digests()[-1][2]
    assert number == 0 or len(merged) == 2, f"{node.name} merged {merged} only"


def play(kind: str, trees: tuple[Path, Path]) -> None:
    """Train with one node of each tree, and say what came of it."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as nodes:
        folder = Path(made)
        pythons = (os.environ.get("FLNET_OLD_PYTHON") or sys.executable, sys.executable)
        packages = [packages_of(tree, folder / f"packages{i}") for i, tree in enumerate(trees)]
        first = Node("old", pythons[0], packages[0], folder, {**KINDS[kind], "DATA_SHARD": "1/2"})
        nodes.callback(first.end)
        place = {"DATA_SHARD": "2/2", "BOOTSTRAP_PAIRS": f"127.0.0.1:{first.port}"}
        second = Node("new", pythons[trees[0] != trees[1]], packages[1], folder, {**KINDS[kind], **place})
        nodes.callback(second.end)
        rounds = train(kind, first, second)
    print(f"{kind}: {', '.join(digest[:10] for _, digest, _ in rounds)}", flush=True)


def main() -> None:
    """Play all kinds, or some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="one kind of mesh; all without it")
    parser.add_argument("--old-against-old", action="store_true", help="to see that the test itself works")
    asked = parser.parse_args()
    with old_tree() as tree:
        for kind in asked.kind or KINDS:
            play(kind, (tree, tree if asked.old_against_old else ROOT))


if __name__ == "__main__":
    main()
