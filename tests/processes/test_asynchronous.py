"""Real nodes without common rounds: versions reach others, outlive a kill, and do not mix with common rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, environment, harness, until

pytestmark = pytest.mark.slow


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        for _ in range(3):
            made.start(ROUNDS="asynchronous")
        made.ready()
        yield made


def flnet(node: RealNode, *words: str) -> str:
    """What a command says of a node."""
    command = [sys.executable, "-m", "flnet", *words, "--node", f"127.0.0.1:{node.port}"]
    return subprocess.run(
        command, env=environment({}), capture_output=True, text=True, timeout=120, check=True
    ).stdout


def own(node: RealNode) -> int:
    number: int = node.job()["versions"]["own"]
    return number


def test_versions_of_real_nodes(mesh: Harness) -> None:
    first, second, third = mesh.nodes
    mesh.go()
    assert first.trigger().json() == {"trainerId": "SLOW", "round": 1}
    until(lambda: own(first) == 1, "the first version")

    (result,) = json.loads(flnet(second, "train", "SLOW", "--wait", "--json"))
    assert result["number"] == 1
    assert second.history()[-1]["outcome"] == "merged n0 v1, trained, now v1"
    assert "SLOW n0: version 1, 1 merged into 1 at 20" in flnet(second, "status")

    mesh.hold()
    third.trigger()
    until(lambda: third.job()["phase"] == "TRAINING", "the training of the third node")
    third.kill()
    mesh.again(third)
    mesh.up(third)
    until(lambda: third.job()["phase"] == "TRAINING", "the same training after the kill")
    assert third.job()["current_round"] == 1
    mesh.go()
    until(lambda: own(third) == 1, "the version that was begun before the kill")
    until(lambda: bool(third.told("round_closed")), "it on the disk")
    told = {row["peer"]: row["merged"] for row in third.job()["versions"]["peers"]}
    assert {"n0", "n1"} >= told.keys() and set(told.values()) <= {1, None}

    third.kill()
    mesh.again(third)
    mesh.up(third)
    assert own(third) == 1
    until(lambda: any(row["peer"] == "n2" for row in first.job()["versions"]["peers"]), "the news of it")
    mesh.meshed(*mesh.nodes)  # who is thought dead is not asked
    first.trigger()
    until(lambda: own(first) == 2, "the second version")
    assert set(first.history()[-1]["contributors"]) == {"n0", "n1", "n2"}

    common = mesh.start(ROUNDS="common")
    mesh.up(common)
    mesh.meshed(*mesh.nodes)
    common.trigger()
    until(lambda: common.history() != [], "the round of the other kind")
    assert common.history()[-1]["contributors"] == ["n3"] and own(first) == 2
    words = "of each node by itself (asynchronous) at n0; common to all nodes at n3"
    until(lambda: any(words in line for line in log(mesh, "n3")), "words on it in the log")


def log(mesh: Harness, name: str) -> list[str]:
    """What a node has logged."""
    return (mesh.folder / f"{name}.log").read_text().splitlines()
