"""Makes the state folder that a node of this version leaves, killed in the middle of a round.

`python -m tests.frozen.make_state` in a checkout of the version; it writes state-1a28d2c.tar.gz.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from tests.frozen.places import HERE, plugins
from tests.frozen.state_views import SETTINGS
from tests.processes.harness import PinnedHarness, RealNode, answers, until

MADE = HERE / "state-1a28d2c.tar.gz"
ROUNDS = 8


class StateHarness(PinnedHarness):
    """Three nodes with the trainers of this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.rmtree(self.trainers)
        plugins(self.trainers)


def done(node: RealNode, trainer: str, rounds: int) -> None:
    """Wait until a node has averaged so many rounds, and is quiet."""
    until(
        lambda: len(node.history(trainer)) >= rounds and node.job(trainer)["phase"] == "IDLE",
        f"{rounds} rounds of {trainer} on {node.name}",
    )


def played(folder: Path) -> Path:
    """The state folder of a node that lived through much."""
    mesh = StateHarness(folder)
    try:
        marks = [mesh.mark(index) for index in range(3)]
        usual = {**SETTINGS, "COMPUTE": "process"}
        for index in range(3):
            place = {"NODE_ID": f"n{index}", "DATA_SHARD": f"{index + 1}/9"}
            mesh.start(**{**usual, **place})
        first, second, third = mesh.nodes
        for node, own in zip(mesh.nodes, marks, strict=True):
            until(lambda n=node: answers(n, "/health"), node.name)  # type: ignore[misc]
            for mark in marks:
                if mark != own:
                    introducer = mark == marks[1]
                    node.http.post("/trust/accept", json={"fingerprint": mark, "introducer": introducer})
        mesh.ready()
        first.trigger("STEADY", rounds=2)
        for node in mesh.nodes:
            done(node, "STEADY", 2)
        first.http.patch("/jobs/STEADY/params", json={"e": 3, "u": 0.25})
        second.http.post("/training/trigger", json={"trainerId": "STEADY", "until": "accuracy>=0.99", "rounds": 2})
        for node in mesh.nodes:
            done(node, "STEADY", 4)
        pinned = first.history("STEADY")[1]["digest"]
        first.http.put(f"/jobs/STEADY/models/{pinned}/pin").raise_for_status()
        third.http.post("/jobs/STEADY/pause").raise_for_status()
        first.trigger("STEADY")
        done(first, "STEADY", 5)
        third.http.post("/jobs/STEADY/resume")
        back = first.history("STEADY")[3]["digest"]
        first.http.post(f"/jobs/STEADY/models/{back}/restore").raise_for_status()
        first.trigger("STEADY", rounds=3)
        for node in (first, second):
            done(node, "STEADY", ROUNDS)
        first.http.put(
            "/jobs/STEADY/schedule", json={"when": "new 100000, between 22:00-06:00"}
        ).raise_for_status()
        first.http.post("/trust/reject", json={"fingerprint": fingerprint_of_nobody(mesh)}).raise_for_status()
        first.trigger("WAITING")
        for node in mesh.nodes:
            done(node, "WAITING", 1)
        (mesh.trainers / "hold-WAITING-3").touch()
        second.trigger("WAITING")
        until(lambda: first.job("WAITING")["received"] == ["n0", "n1"], "the updates of two of three")
        first.kill()
    finally:
        mesh.stop()
    return folder / "state0"


def fingerprint_of_nobody(mesh: PinnedHarness) -> str:
    """Of a key that no node has."""
    return mesh.mark(7)


def main() -> None:
    """Make the file."""
    with tempfile.TemporaryDirectory() as made:
        state = played(Path(made))
        with tarfile.open(MADE, "w:gz", compresslevel=9) as packed:
            packed.add(state, "state0")
        print(sorted(str(path.relative_to(state)) for path in state.rglob("*")), MADE.stat().st_size)


if __name__ == "__main__":
    main()
