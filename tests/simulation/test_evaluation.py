"""What a whole simulated mesh reached: the same on all nodes, and that of all test rows together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.datasets.metrics import class_counts
from flnet.params.params import Digest, PeerId
from flnet.protocol.counts import GroupAccuracy
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Evaluated, Event, RoundTriggered
from flnet.rounds.evaluation import measured_in
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from tests.helpers import key

from .helpers import idle, play_round, seeds

CLASSES = ("a", "b", "c")


def rows_of(node: PeerId, digest: Digest) -> tuple[np.ndarray, np.ndarray]:
    """True and guessed classes of a node's test rows: as many as nobody else has, and guessed by the model's digest."""
    chance = np.random.default_rng([int(node[1:]), int(digest[:8], 16)])
    truth = np.random.default_rng(int(node[1:])).integers(0, len(CLASSES), 1 + 40 * int(node[1:]))
    return truth, np.where(chance.random(len(truth)) < 0.6, truth, chance.integers(0, len(CLASSES), len(truth)))


class Counting(Cluster):
    """Nodes that count, but for those whose names are given."""

    silent: frozenset[str] = frozenset()

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        if not isinstance(event, Evaluated):
            return seconds, event
        counts = class_counts(*rows_of(node.id, event.digest), CLASSES)
        share = counts.right / counts.examples
        told = None if node.id in self.silent else counts
        return seconds, Evaluated(event.key, event.digest, share, counts.examples, split=event.split, counts=told)

    def accuracy_of(self, node: PeerId, digest: Digest) -> float:
        truth, guess = rows_of(node, digest)
        return float((truth == guess).mean())


def counting(size: int, seed: int, faults: Faults | None = None, silent: tuple[str, ...] = ()) -> Counting:
    cluster = Counting(size, seed, faults)
    cluster.silent = frozenset(silent)
    cluster.start()
    cluster.run_for(60)
    return cluster


def last_of(cluster: Cluster) -> dict[PeerId, Mapping[str, Any]]:
    """By node, the view of its newest record."""
    return {name: node.job.history.records[-1].view() for name, node in cluster.nodes.items()}


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_all_nodes_have_the_figures_of_all_rows(seed: int) -> None:
    cluster = counting(4, seed, Faults(digests=0.5, duplicate=0.2, delay=(0.001, 0.3)))
    play_round(cluster, "n02")
    records = last_of(cluster)
    meshes = {name: record["mesh"] for name, record in records.items()}
    whole = [mesh for mesh in meshes.values() if mesh["nodes"] == 4]
    assert len(whole) == 4
    for mesh in whole:
        assert mesh == whole[0] and mesh["basis"] == "counts"
    pairs = [rows_of(name, Digest(record["digest"])) for name, record in records.items()]
    truth, guess = (np.concatenate(side) for side in zip(*pairs, strict=True))
    assert whole[0]["accuracy"] == (truth == guess).mean() and whole[0]["examples"] == len(truth)
    recalls = [(guess[truth == name] == name).mean() for name in range(len(CLASSES))]
    assert whole[0]["figures"]["balanced_accuracy"] == pytest.approx(np.mean(recalls), abs=1e-12)
    own = {name: (a == b).mean() for name, (a, b) in zip(records, pairs, strict=True)}
    assert {name: told["accuracy"] for name, told in whole[0]["by_node"].items()} == own


def test_where_a_node_does_not_count_the_mean_is_weighted_by_examples() -> None:
    cluster = counting(4, 1, silent=("n03",))
    play_round(cluster, "n00")
    for record in last_of(cluster).values():
        mesh = record["mesh"]
        told = mesh["by_node"].values()
        mean = sum(t["accuracy"] * t["examples"] for t in told) / sum(t["examples"] for t in told)
        assert mesh["basis"] == "examples" and mesh["accuracy"] == pytest.approx(mean, abs=1e-12)
        assert mesh["figures"] == {} and mesh["labels"] == {}


def test_a_goal_is_judged_by_all_rows() -> None:
    cluster = counting(3, 2)
    cluster.nodes[PeerId("n01")].tell(TRAINER, RoundTriggered(4, until="accuracy>=0.99"))
    cluster.run_for(600)
    idle(cluster)
    judged = 0
    for number in range(4):
        records = [node.job.history.records[number].view() for node in cluster.nodes.values()]
        # None where another node was quicker to start the next round.
        meshes = [record.get("mesh") for record in records]
        assert len({mesh["accuracy"] for mesh in meshes if mesh and mesh["nodes"] == 3}) == 1
        for record in records:
            if decision := record["decision"]:
                assert decision["accuracy"] == record["mesh"]["accuracy"] and decision["basis"] == "counts"
                judged += 1
    assert judged >= 8


class Grouped(Counting):
    """Nodes whose rows with an even number are of one group, and the others of another; not all nodes have both."""

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = super().work(node, effect)
        return seconds, replace(event, groups=groups_of(node.id, event)) if isinstance(event, Evaluated) else event


def groups_of(node: PeerId, event: Evaluated) -> tuple[GroupAccuracy, ...]:
    truth, guess = rows_of(node, event.digest)
    sides = {"even": slice(0, None, 2), "odd": slice(1, None, 2)}
    right = {name: (truth == guess)[side] for name, side in sides.items()}
    return tuple(
        GroupAccuracy(name=name, accuracy=rows.mean(), examples=len(rows))
        for name, rows in right.items()
        if len(rows)
    )


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_fairness_over_nodes_and_groups(seed: int) -> None:
    cluster = Grouped(4, seed, Faults(duplicate=0.2))
    cluster.start()
    cluster.run_for(60)
    play_round(cluster, "n01")
    records = last_of(cluster)
    pairs = {name: rows_of(name, Digest(record["digest"])) for name, record in records.items()}
    each = {name: float((truth == guess).mean()) for name, (truth, guess) in pairs.items()}
    values = np.array(list(each.values()))
    sides = {
        name: np.concatenate([(truth == guess)[start::2] for truth, guess in pairs.values()])
        for start, name in enumerate(("even", "odd"))
    }
    for record in records.values():
        mesh = record["mesh"]
        assert mesh["worst"]["accuracy"] == each[mesh["worst"]["node"]] == values.min()
        assert mesh["spread"] == pytest.approx(values.std(), abs=1e-12)
        assert mesh["jain"] == pytest.approx(values.sum() ** 2 / (len(values) * (values**2).sum()), abs=1e-12)
        assert mesh == records[PeerId("n00")]["mesh"]
        for name, rows in sides.items():
            assert mesh["groups"][name]["accuracy"] == pytest.approx(rows.mean(), abs=1e-12)
            assert mesh["groups"][name]["examples"] == len(rows)
    assert mesh["groups"]["odd"]["nodes"] == 3  # n00 has one row


def test_a_node_may_belong_to_a_group_as_a_whole_and_keep_its_counts() -> None:
    counts = class_counts(np.array([0, 1]), np.array([0, 0]), CLASSES)
    told = (
        GroupAccuracy(name="women", accuracy=1, examples=1),
        GroupAccuracy(name="small", accuracy=0, examples=1),
    )
    event = Evaluated(key(0), Digest("d"), 0.5, 2, counts=counts, groups=told)
    whole = measured_in(event, Rules(group="small"))
    assert whole is not None and whole.counts == counts
    assert [(group.name, group.accuracy, group.examples) for group in whole.groups or ()] == [
        ("small", 0.5, 2),
        ("women", 1, 1),
    ]
    silent = measured_in(event, Rules(counts=False))
    assert silent is not None and silent.model_dump() == {"accuracy": 0.5, "examples": 2}
