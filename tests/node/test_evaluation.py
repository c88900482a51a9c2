"""Real nodes tell each other what they counted, and show the figures of all test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from flnet.datasets.metrics import class_counts
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array
from flnet.protocol.messages import Trigger
from flnet.trainer import GroupAccuracy, Score
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until

NAMES = ("three", "seven")


class Counting(Linear):
    """Has so many test rows, of which it judges some wrongly; on validation rows it is always right."""

    def __init__(self, rows: int, wrong: int) -> None:
        super().__init__(1.0)
        self.truth = np.arange(rows) % 2
        self.guess = np.where(np.arange(rows) < wrong, 1 - self.truth, self.truth)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        chances = np.eye(2)[self.guess] * 0.5 + 0.25
        counts = class_counts(self.truth, self.guess, NAMES, chances)
        right = self.truth == self.guess
        groups = [GroupAccuracy(name="first", accuracy=float(right[0]), examples=1)]
        return Score(float(right.mean()), len(right), counts=counts, groups=groups)

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        return Score(1.0, 3, counts=class_counts(self.truth[:3], self.truth[:3], NAMES))


def _state(node: NodeRuntime) -> str:
    goal = node.job(MNIST_3_7).goal
    return "" if goal is None else goal.state


def meshes(mesh: Mesh) -> list[Mapping[str, Any]]:
    """What each node has in its newest record."""
    return [node.history(MNIST_3_7)[-1]["mesh"] for node in mesh.nodes.values()]


async def test_all_nodes_show_the_figures_of_all_rows() -> None:
    async with mesh_of(Counting(1000, 100), Counting(10, 10), Counting(4, 0)) as mesh:
        await mesh.train()
        first, *others = meshes(mesh)
        assert all(other == first for other in others)
        assert first["accuracy"] == 904 / 1014 and first["basis"] == "counts" and first["examples"] == 1014
        assert first["figures"]["auc"] > 0.8 and len(first["labels"]["recall"]) == 2
        assert first["worst"] == {"node": "b", "accuracy": 0.0}
        assert first["groups"] == {"first": {"accuracy": 1 / 3, "examples": 3, "nodes": 3}}
        for node in mesh.nodes.values():
            view = node.job(MNIST_3_7).as_json()
            assert view["mesh"]["accuracy"] == 904 / 1014 and "by_node" not in view["mesh"]
            # Its own stays beside it.
            assert view["post_fedavg_accuracy"] == first["by_node"][node.me.id]["accuracy"]


async def test_a_node_may_keep_its_counts_to_itself_and_name_its_group() -> None:
    async with mesh_of(Counting(1000, 100)) as mesh:
        await mesh.add("b", Counting(10, 10), ("a",), share_counts=False, group="small")
        await mesh.full()
        await mesh.train()
        for told in meshes(mesh):
            assert (
                told["basis"] == "examples"
                and told["figures"] == {}
                and told["accuracy"] == pytest.approx(900 / 1010)
            )
            assert told["groups"]["small"] == {"accuracy": 0.0, "examples": 10, "nodes": 1}


async def test_a_trainer_without_counts_is_weighted_by_its_rows() -> None:
    async with mesh_of(Counting(15, 15), 1.0) as mesh:  # the second one has five rows, as tests.node.mesh says
        await mesh.train()
        for told in meshes(mesh):
            own = told["by_node"]["b"]["accuracy"]
            assert told["basis"] == "examples" and told["accuracy"] == pytest.approx(own * 5 / 20)


async def test_a_goal_is_reached_on_validation_rows() -> None:
    async with mesh_of(Counting(1000, 100), Counting(10, 10)) as mesh:
        a = mesh.nodes["a"]
        body = Trigger(trainer_id=MNIST_3_7, rounds=3, until="accuracy>=0.99").model_dump_json(by_alias=True)
        reply = await a.receive(Trigger.path, body.encode(), "application/json", "127.0.0.1")
        assert reply.status == 202
        await until(lambda: all(_state(node) == "reached" for node in mesh.nodes.values()))
        for node in mesh.nodes.values():
            decision = node.history(MNIST_3_7)[-1]["decision"]
            assert (decision["accuracy"], decision["rows"], decision["basis"]) == (1.0, "validation", "counts")
            assert node.history(MNIST_3_7)[-1]["mesh"]["accuracy"] == 900 / 1010  # test rows decided nothing
