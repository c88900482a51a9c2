"""A cell gives what whole nodes give with the same trainers, names and seed: updates, averages and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flnet.experiments.base import Cell
from flnet.experiments.learners import Learner, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import Mesh
from tests.experiments.cells import TOLD, cell
from tests.node.mesh import MNIST_3_7, until
from tests.node.mesh import Mesh as NodeMesh

SAID = ("round", "contributors", "digest", "examples", "pre_fedavg_accuracy", "post_fedavg_accuracy", "metrics")
Course = Mapping[str, list[dict[str, Any]]]


def learners(one: Cell, folder: Path) -> list[Learner]:
    return learners_of(one, trainer_file("TINY", TOLD), TOLD, folder)


def simulated(one: Cell, folder: Path) -> Course:
    """What the records of a cell's nodes say."""
    mesh = Mesh(one, learners(one, folder))
    while orders := mesh.advance():
        carry_out(orders)
        mesh.go_on()
    return {name: [said(record) for record in records] for name, records in mesh.records.items()}


async def real(one: Cell, folder: Path) -> Course:
    """What the records of whole nodes say, with queues, performers, lanes and a transport."""
    mesh, setup = NodeMesh(one.seed), one.setup
    names = [f"n{number:03}-{one.seed}" for number in range(setup.nodes)]
    try:
        for name, learner in zip(names, learners(one, folder), strict=True):
            first = () if name == names[0] else (names[0],)
            await mesh.add(name, learner.trainer, first, seed=one.seed, aggregation=setup.aggregation)
        await mesh.full()
        asked = json.dumps({"trainerId": MNIST_3_7, "rounds": setup.rounds}).encode()
        await mesh.nodes[names[0]].receive("/training/trigger", asked, "application/json", "127.0.0.1")
        await until(lambda: all(len(n.history(MNIST_3_7)) == setup.rounds for n in mesh.nodes.values()), 60)
        return {name: [said(record) for record in node.history(MNIST_3_7)] for name, node in mesh.nodes.items()}
    finally:
        await mesh.stop()


def said(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in SAID}


@pytest.mark.parametrize("aggregation", ["agg0", "agg1", "median"])
async def test_a_cell_gives_what_nodes_give(tmp_path: Path, aggregation: str) -> None:
    one = cell(0, exchange=True, partition="quantity:0.5", aggregation=aggregation)
    found = simulated(one, tmp_path / "simulated")
    assert await real(one, tmp_path / "real") == found
    assert len({record["digest"] for records in found.values() for record in records}) == one.setup.rounds
