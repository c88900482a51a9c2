"""Whole nodes and the ways in which they merge: by rules of people and of trainers, with what all must have alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pytest

from flnet.aggregation.base import AggregationRule
from flnet.algorithms.registry import parse_rule
from flnet.compute.checks import declared
from flnet.errors import InvalidMessage, TrainerError
from flnet.node.interface import EditHyperParams
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import Array, Fit, Score, Task, Trainer
from tests.node.mesh import MNIST_3_7, Linear, mesh_of, trigger, until


class Animals(Linear):
    """Says which classes its outputs stand for, and remembers what it was asked to train with."""

    def __init__(self, target: float, classes: str = "", examples: int = 10) -> None:
        super().__init__(target, examples)
        self.seen: list[HyperParams] = []
        if classes:
            self.agreement = {"classes": classes}

    def fit(self, task: Task) -> Fit:
        self.seen.append(task.hyper)
        return super().fit(task)


class Least(Linear):
    """Merged by the median, in which one far update counts for nothing."""

    merging = "median"

    def __init__(self, step: float) -> None:
        super().__init__(0.5)
        self.step = np.float32(step)

    def fit(self, task: Task) -> Fit:
        return Fit({name: value + self.step for name, value in task.params.items()}, 10)


def told(node: NodeRuntime, words: str) -> bool:
    return any(words in item.text for item in node.feed.recent())


def shared(node: NodeRuntime) -> Params:
    return node.core.jobs[MNIST_3_7].held.current.shared


async def test_nodes_with_other_classes_are_told_what_differs_and_nobody_waits() -> None:
    differ = "the nodes do not agree on classes: cat, fox at b; cat, dog at a"
    trainers = Animals(1, "cat, dog"), Animals(2, "cat, fox"), Animals(3, "cat, dog")
    async with mesh_of(*trainers) as mesh:
        a, b, c = mesh.nodes.values()
        await trigger(a)
        for node in (a, c):
            await until(lambda n=node: n.job(MNIST_3_7).phase == "IDLE" and n.job(MNIST_3_7).current_round == 0)  # type: ignore[misc]
            record = node.history(MNIST_3_7)[-1]
            assert record["contributors"] == ["a", "c"] and "forced" not in record["outcome"]
        await until(lambda: told(a, differ) and told(b, differ))
        assert b.job(MNIST_3_7).current_round == -1
        assert a.job(MNIST_3_7).schema_digest != b.job(MNIST_3_7).schema_digest


async def test_a_node_trains_with_its_own_epochs_rate_and_batch_and_says_so() -> None:
    weak, strong = Animals(1, examples=30), Animals(2, examples=10)
    async with mesh_of(strong) as mesh:
        await mesh.add("b", weak, ("a",), local_epochs=1, local_batch_size=7, local_learning_rate=0.5)
        await mesh.full()
        await mesh.train()
        assert strong.seen == [HyperParams(e=2, u=1e-05, b=64)]
        assert weak.seen == [HyperParams(e=1, u=0.5, b=7)]
        own = {"e": 2, "u": 1e-05, "b": 64}, {"e": 1, "u": 0.5, "b": 7}
        for node, used in zip(mesh.nodes.values(), own, strict=True):
            view = node.job(MNIST_3_7).as_json()
            assert view["hyper"] == {"e": 2, "u": 1e-05, "b": 64}
            assert view["used_hyper"] == node.history(MNIST_3_7)[-1]["used_hyper"] == used
        assert len(mesh.digests()) == 1
        assert float(shared(mesh.nodes["a"])["bias"][0]) == (10 * 1.0 + 30 * 0.5) / 40  # weights stay the examples


async def test_who_pulls_away_from_all_others_is_named_by_each_of_them() -> None:
    async with mesh_of(1.0, 1.0, 1.25, -9.0, aggregation="cosine,agg0") as mesh:
        await mesh.train(rounds=3)
        for node in mesh.nodes.values():
            weighed = node.history(MNIST_3_7)[-1]["weighed"]
            assert weighed["d"]["cosine"] < 0 < weighed["a"]["cosine"]
            assert (weighed["d"]["weight"], weighed["a"]["weight"]) == (0.0, 1 / 3)
            (item,) = [item for item in node.feed.recent() if item.kind == "weight_collapsed"]
            assert item.text.startswith("the updates of d have been left out since round 0: ")
            assert [one.peer for one in node.job(MNIST_3_7).counts_little] == ["d"]


async def test_where_all_pull_alike_nobody_is_named() -> None:
    async with mesh_of(1.0, 1.1, 1.2, aggregation="clip,cosine,agg1") as mesh:
        await mesh.train(rounds=4)
        for node in mesh.nodes.values():
            assert not {item.kind for item in node.feed.recent()} & {"weight_collapsed", "weight_recovered"}
            assert node.job(MNIST_3_7).counts_little == []


@pytest.mark.parametrize("rule", ["consistency", "clip,cosine,consistency:raw", "fedavgm:0.5:0.8", "fedyogi"])
async def test_all_nodes_make_the_same_of_what_they_remember(rule: str) -> None:
    async with mesh_of(1.0, 1.1, 1.2, 1.3, aggregation=rule) as mesh:
        await mesh.train(rounds=4)
        records = [node.history(MNIST_3_7) for node in mesh.nodes.values()]
        for course in zip(*records, strict=True):
            assert len({record["digest"] for record in course}) == 1
            assert all(record["exchanged_with"] is None for record in course)
            assert len({orjson.dumps(record["weighed"]) for record in course}) == 1
        weighed = [["consistency" in record["weighed"]["b"] for record in course] for course in records]
        assert weighed == [[False, False, "consistency" in rule, "consistency" in rule]] * 4


async def test_a_rule_that_people_choose_on_all_nodes_merges_the_next_round() -> None:
    chosen = EditHyperParams(aggregation="clip:1000,median")
    async with mesh_of(1.0, 3.0, 50.0) as mesh:
        first, second, third = mesh.nodes.values()
        for node in (first, second):
            assert (await node.edit_hyper_params(MNIST_3_7, chosen)).merging_rule == "clip:1000,median"
        await trigger(first)
        await until(lambda: first.job(MNIST_3_7).phase == "IDLE" and len(first.history(MNIST_3_7)) == 1)
        assert first.history(MNIST_3_7)[0]["contributors"] == ["a", "b"]  # c merges by the mean: it is not heard
        await third.edit_hyper_params(MNIST_3_7, chosen)
        await mesh.train()
        for node in mesh.nodes.values():
            record = node.history(MNIST_3_7)[-1]
            assert record["contributors"] == ["a", "b", "c"]
            assert all("weight" not in one for one in record["weighed"].values())  # medians give none
        with pytest.raises(InvalidMessage):
            await first.edit_hyper_params(MNIST_3_7, EditHyperParams(aggregation="scaffold"))


@pytest.mark.parametrize("usual", ["agg1", "krum:1"])
async def test_the_rule_of_the_trainer_makes_the_average(usual: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(rule: str, *more: Any) -> AggregationRule:
        made.append(rule)
        return parse_rule(rule, *more)

    monkeypatch.setattr("flnet.compute.tasks.parse_rule", counted)
    async with mesh_of(Least(1), Least(2), Least(9), aggregation=usual) as mesh:
        first = mesh.nodes["a"]
        before = shared(first)
        await mesh.train(rounds=2)
        settings = first.core.jobs[MNIST_3_7].settings
        assert settings.folds is False and settings.agreement == {"merging rule": "median"}
        for name, value in before.items():
            assert np.allclose(shared(first)[name], value + 2 * 2)
        assert made == ["median"] * 3  # by each node once, not for each round


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


async def test_half_of_the_nodes_train_all_hold_one_model_and_people_read_who_has_other_settings() -> None:
    async with mesh_of(0.0, 1.0, 2.0, 3.0, participation=0.5) as mesh:
        await mesh.train(rounds=3)
        assert len(mesh.digests()) == 1
        for node in mesh.nodes.values():
            for record in node.history(MNIST_3_7):
                assert record["contributors"] == record["chosen"] and len(record["chosen"]) == 2
        await mesh.add("e", Linear(1.0), ("a",))
        await mesh.full()
        await trigger(mesh.nodes["a"])
        await until(lambda: told(mesh.nodes["a"], "do not agree on participation"))


class Limited(Linear):
    """Trains with little steps only in rounds of other nodes."""

    defaults = HyperParams(e=1, u=0.0008, b=64)
    limits = MappingProxyType({"learning_rate": 0.0024})


async def test_a_round_that_asks_for_more_than_all_peers_allow_is_one_of_a_node_alone_on_its_node_only() -> None:
    async with mesh_of(*(Limited(target) for target in (1, 2, 3, 4))) as mesh:
        first = mesh.nodes["a"]
        view = await first.edit_hyper_params(MNIST_3_7, EditHyperParams(e=5, u=0.005))
        assert "at most 0.0024 in a round of another node, got 0.005" in view.asks_too_much
        await mesh.train()
        assert len(mesh.digests()) == 1  # all have taken the average of the only update
        record = first.history(MNIST_3_7)[-1]
        assert record["contributors"] == ["a"]
        assert record["alone"].keys() == record["left_out"].keys() == {"b", "c", "d"}
        assert all("got 0.005" in why for why in record["alone"].values())
        for name in "bcd":
            assert "alone" not in mesh.nodes[name].history(MNIST_3_7)[-1]
        await first.edit_hyper_params(MNIST_3_7, EditHyperParams(e=1, u=0.0024))
        await mesh.train()
        record = first.history(MNIST_3_7)[-1]
        assert (len(record["contributors"]), record["left_out"], "alone" in record) == (4, {}, False)
