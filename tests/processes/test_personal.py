"""Real nodes with models of their own: one is killed, and has its increment, share and control variates again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load

from flnet.params.params import Params
from tests.processes.harness import Harness, RealNode, harness, kept, until

pytestmark = pytest.mark.slow
TRAINER = '''
"""Two clouds of points; where they lie, and which of them is which, differs from node to node."""

from tests.algorithms.lines import Lines, clouds


def make_trainer(settings):
    part = settings.shard[0]
    return Lines(*clouds(80, 3.0 * part, part == 2, part))
'''


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        (made.trainers / "LINES.py").write_text(TRAINER)
        yield made


def idle(node: RealNode, round: int) -> bool:
    job = node.job("LINES")
    return bool(job["current_round"] == round and job["phase"] == "IDLE")


def arrays(node: RealNode) -> Params:
    """All parameters of the model that is held."""
    digest = node.job("LINES")["digest"]
    answer = node.http.get(f"/jobs/LINES/models/{digest}")
    assert answer.status_code == 200, answer.text
    return Params(load(answer.content))


def rounds(mesh: Harness, count: int) -> None:
    for node in mesh.nodes:
        mesh.up(node)
    mesh.meshed(*mesh.nodes[:2])
    for node in (mesh.nodes[0], mesh.nodes[2]):
        answer = node.trigger("LINES", count)
        assert answer.is_success, answer.text
    for node in mesh.nodes:
        until(lambda n=node: idle(n, count - 1), f"round {count - 1} on {node.name}")  # type: ignore[misc]
    until(lambda: kept(mesh.nodes, count - 1), "the last round on all disks")


def test_what_is_private_survives_a_kill(mesh: Harness) -> None:
    common = {"TRAINERS": "LINES", "AGGREGATION": "scaffold"}
    mesh.start(**common, PERSONAL_MODEL="increment:20")
    mesh.start(**common)
    mesh.start(TRAINERS="LINES", PERSONAL_MODEL="apfl:0.5:0.01", BOOTSTRAP_PAIRS="")  # a mesh of its own
    rounds(mesh, 2)
    increment, plain, adaptive = mesh.nodes
    before = {node.name: arrays(node) for node in (increment, adaptive)}
    held = before[increment.name]
    assert {"personal/w", "own control/w", "control/w", "selector/state"} <= set(held)
    assert all((held[name] != 0).any() for name in ("personal/w", "own control/w", "control/w"))
    assert (arrays(plain)["w"] == held["w"]).all()
    assert (arrays(plain)["control/w"] == held["control/w"]).all()
    assert not any(name.startswith(("personal", "selector")) for name in arrays(plain))
    assert before[adaptive.name]["personal-share"] != 0.5
    figures = increment.history("LINES")[-1]["metrics"]["after"]
    assert {"local_accuracy", "chosen_accuracy"} <= set(figures)
    for node in (increment, adaptive):
        node.kill()
        mesh.again(node)
        mesh.up(node)
        assert arrays(node) == before[node.name]
    reply = increment.http.post("/jobs/LINES/predict", json={"inputs": [[1, 3, 0, 0], [1, -90, 0, 0]]}).json()
    assert reply["choice"]["answered"] == ["local", "global"]
    assert reply["choice"]["errors"][0] <= reply["choice"]["limit"] < reply["choice"]["errors"][1]
