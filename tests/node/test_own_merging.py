"""A trainer that needs a merging rule of its own gets it, whatever the node merges others by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule
from flnet.algorithms.registry import parse_rule
from flnet.compute.checks import declared
from flnet.errors import TrainerError
from flnet.params.params import Params
from flnet.trainer import Array, Fit, Score, Task, Trainer
from tests.node.mesh import MNIST_3_7, Linear, Mesh
from tests.node.test_runtime import trigger


class Least(Linear):
    """Merged by the median, in which one far update counts for nothing."""

    merging = "median"

    def __init__(self, accuracy: float, step: float) -> None:
        super().__init__(accuracy)
        self.step = np.float32(step)

    def fit(self, task: Task) -> Fit:
        return Fit({name: value + self.step for name, value in task.params.items()}, 10)


@pytest.mark.parametrize("usual", ["agg1", "krum:1"])
async def test_the_rule_of_the_trainer_makes_the_average(usual: str) -> None:
    mesh = Mesh()
    try:
        first = await mesh.add("a", Least(0.5, 1), aggregation=usual)
        for name, step in (("b", 2), ("c", 9)):
            await mesh.add(name, Least(0.5, step), ("a",), aggregation=usual)
        await mesh.full()
        before = first.core.jobs[MNIST_3_7].held.model
        await trigger(first, 1)
        await mesh.idle(0)
        after = first.core.jobs[MNIST_3_7].held.model
        assert before is not None and after is not None and first.core.jobs[MNIST_3_7].settings.folds is False
        assert first.core.jobs[MNIST_3_7].settings.agreement == {"merging rule": "median"}
        for name, value in before.shared.items():
            assert np.allclose(after.shared[name], value + 2)
    finally:
        await mesh.stop()


async def test_a_rule_is_made_once_and_not_for_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(rule: str, *more: Any) -> AggregationRule:
        made.append(rule)
        return parse_rule(rule, *more)

    monkeypatch.setattr("flnet.compute.tasks.parse_rule", counted)
    mesh = Mesh()
    try:
        first = await mesh.add("a", Least(0.5, 1))
        await mesh.add("b", Least(0.5, 2), ("a",))
        await mesh.full()
        for number in range(2):
            await trigger(first, 1)
            await mesh.idle(number)
        assert made == ["median"] * 2  # by each of the two nodes
    finally:
        await mesh.stop()


def test_a_rule_that_does_not_exist_is_told_when_the_trainer_is_loaded() -> None:
    class Odd(Trainer):
        merging = "voting"

        def initial_params(self, seed: int) -> Mapping[str, Array]:
            return {"w": np.zeros(1, np.float32)}

        def fit(self, task: Task) -> Fit:
            return Fit(task.params, 1)

        def evaluate(self, params: Mapping[str, Array]) -> Score:
            return Score(0.5, 1)

    with pytest.raises(TrainerError, match="trainer ODD: merging is 'voting'"):
        declared(Odd(), "ODD", Params({"w": np.zeros(1, np.float32)}))
