"""Optimisers of which every node must hold the same moments: newcomers, lost nodes, faults, and a node that lies."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.params.params import Array, Digest, Params, PeerId
from flnet.protocol.effects import Average, Evaluate, Train
from flnet.protocol.events import Declaration, Event, MeshStarted, Prepared, Trained
from flnet.protocol.messages import HyperParams, Peer
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import any_faults, clear_up, digests, first_of, mesh, play_round, seeds, train_until

FIRST, LAST = PeerId("n00"), PeerId("n03")
WEIGHTS, STATISTICS = ("kernel", "offset"), ("mean", "variance")
BUFFERS = (*STATISTICS, "seen")
JOINS, ROUNDS = 60, 120


def rules_of(name: str) -> Rules:
    return Rules(averaging={MERGING: parse_rule(name).name})


def alike(node: PeerId, digest: Digest) -> float:
    """No model is better than another, so each node takes the start of a round, and an average that counts."""
    return 0.5


def with_rule(cluster: Cluster, name: str) -> Cluster:
    cluster.strategy, cluster.accuracy_of = parse_rule(name), alike  # type: ignore[method-assign]
    return cluster


def memories(cluster: Cluster) -> set[Digest | None]:
    remembered = [node.job.held.remembered for node in cluster.alive]
    return {memory.digest if memory else None for memory in remembered}


def averages_of_last_round(cluster: Cluster) -> set[str | None]:
    """What the nodes averaged in the newest round, before any of them adopted another model."""
    return {node.job.history.records[-1].digest for node in cluster.alive}


# A network with batch normalisation over 120 rounds, and a node that joins in the middle.


class NetworkMesh(Cluster):
    """Nodes that train one block with batch normalisation: each pulls the weights to a target of its own."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(size, seed=5, rules=rules_of(name))
        with_rule(self, name)
        self.sent: dict[int, dict[PeerId, tuple[Params, int]]] = {}
        self.chance = np.random.default_rng(7)
        self.first: Params = Params()
        for node in self.nodes.values():
            node.tell(TRAINER, self.prepared())
            node.tell(None, MeshStarted(tuple(self.network.nodes)))
        self.run_for(30)

    def prepared(self) -> Prepared:
        arrays = {
            "kernel": np.linspace(-1, 1, 12).reshape(3, 4),
            "offset": np.zeros(4),
            "mean": np.zeros(4),
            "variance": np.ones(4),
            "seen": np.array(0),
        }
        self.first = Params(arrays)
        names = tuple(arrays)
        return Prepared(Declaration("T", HyperParams(e=1, u=0.1, b=8), 0.0, names, buffers=BUFFERS), self.first)

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        if not isinstance(effect, Train):
            return super().work(node, effect)
        target, chance = int(node.id[1:]), self.chance
        trained = {
            name: effect.params[name] * 0.9 + 0.1 * target + chance.normal(0, 0.01, effect.params[name].shape)
            for name in WEIGHTS
        }
        statistics = {"mean": chance.normal(target, 1, 4), "variance": chance.uniform(1, 60, 4)}
        params = Params({**trained, **statistics, "seen": effect.params["seen"] + 1 + target})
        examples = 10 + target
        self.sent.setdefault(effect.key.number, {})[node.id] = params, examples
        return 1.0, Trained(effect.key, params, examples, 0.5)

    def join(self) -> None:
        """Another node comes, which knows nothing of the rounds before."""
        name = self.name_of(len(self.nodes))
        node = self.add(Peer(id=name, ip=f"10.0.0.{len(self.nodes) + 1}", port=4000))
        node.tell(TRAINER, self.prepared())
        node.tell(None, MeshStarted(tuple(self.network.nodes)))
        self.run_for(30)

    def play(self, rounds: int) -> None:
        assert self.trigger(FIRST, rounds)
        assert self.run_until_idle(100.0 * rounds)


def step(rule: str, change: Array, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Reddi et al. (2021), Algorithm 2, and Hsu et al. (2019), written down for one array."""
    if rule == "fedavgm":
        first = 0.9 * first + change
        return first, first, second
    first, square = 0.9 * first + 0.1 * change, change**2
    yogi = second - 0.01 * square * np.sign(second - square)
    second = 0.99 * second + 0.01 * square if rule == "fedadam" else yogi
    return 0.01 * first / (np.sqrt(second) + 1e-3), first, second


def expected(cluster: NetworkMesh, rule: str) -> dict[str, Array]:
    """The model after all rounds, of the updates that were sent in them."""
    model: dict[str, Any] = {name: np.array(cluster.first[name], np.float64) for name in cluster.first}
    first = {name: np.zeros_like(model[name]) for name in WEIGHTS}
    second = {name: np.full_like(model[name], 1e-6) for name in WEIGHTS}
    for number in sorted(cluster.sent):
        params, examples = zip(*(cluster.sent[number][peer] for peer in sorted(cluster.sent[number])), strict=True)
        shares = np.array(examples) / sum(examples)
        mean = {name: sum(w * p[name] for w, p in zip(shares, params, strict=True)) for name in model}
        for name in WEIGHTS:
            moved, first[name], second[name] = step(rule, mean[name] - model[name], first[name], second[name])
            model[name] = model[name] + moved
        model |= {name: mean[name] for name in STATISTICS}
        model["seen"] = max(p["seen"] for p in params)
    return model


@pytest.mark.parametrize("rule", first_of(1, "fedadam", "fedavgm", "fedyogi"))
def test_a_node_that_joins_in_round_60_ends_with_the_model_of_the_others_after_120(rule: str) -> None:
    cluster = NetworkMesh(3, rule)
    cluster.play(JOINS)
    assert len(digests(cluster)) == 1
    cluster.join()
    for _ in range(2):  # at once, and with its own moments from then on
        cluster.play(1)
        assert len(averages_of_last_round(cluster)) == 1
    cluster.play(ROUNDS - JOINS - 2)
    assert (len(digests(cluster)), len(averages_of_last_round(cluster)), len(memories(cluster))) == (1, 1, 1)
    assert {len(sent) for sent in list(cluster.sent.values())[JOINS + 1 :]} == {4}
    record = cluster.nodes[FIRST].job.history.records[-1]
    assert (record.key.number, len(record.contributors)) == (ROUNDS - 1, 4)
    held = cluster.nodes[LAST].job.held.current.shared
    for name, array in expected(cluster, rule).items():
        np.testing.assert_allclose(held[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


# Nodes that miss rounds, lose their disk, or meet faults of all kinds.


def after_missing_rounds(before: int, *, keeps_disk: bool = True) -> Cluster:
    """Four nodes under FedAdam, the last of which was away for two rounds after so many."""
    cluster = with_rule(mesh(4, seed=3, rules=rules_of("fedadam")), "fedadam")
    play_round(cluster, FIRST, before)
    dead = cluster.kill(LAST)
    del cluster.nodes[LAST]
    play_round(cluster, FIRST, 2)
    cluster.nodes[LAST] = dead
    cluster.restart(dead, keeps_disk=keeps_disk)
    cluster.run_for(30)
    return cluster


@pytest.mark.parametrize("keeps_disk", [True, False], ids=["its disk", "a new disk"])
def test_a_node_that_missed_rounds_averages_like_the_others_in_its_first_round(keeps_disk: bool) -> None:
    cluster = after_missing_rounds(4, keeps_disk=keeps_disk)
    for _ in range(2):
        play_round(cluster, FIRST)
        assert len(memories(cluster)) == 1
    assert len(averages_of_last_round(cluster)) == 1


@pytest.mark.parametrize("rule", ["fedavgm", "clip,fedadam"])
@pytest.mark.parametrize("seed", seeds(3, 20))
def test_all_invariants_hold_under_faults_and_in_the_end_all_nodes_remember_the_same(seed: int, rule: str) -> None:
    rng = Random(seed)
    cluster = with_rule(mesh(rng.choice([3, 4, 5]), seed, any_faults(rng), rules=rules_of(rule)), rule)
    train_until(cluster, 2, seed, crowd=(1, 2), interrupt=0.5)
    victim = rng.choice(list(cluster.nodes))
    dead = cluster.kill(victim)
    del cluster.nodes[victim]
    train_until(cluster, 4, seed, crowd=(1, 2), interrupt=0.5)
    cluster.nodes[victim] = dead
    cluster.restart(dead, keeps_disk=rng.random() < 0.5)
    train_until(cluster, 6, seed, crowd=(1, 2), interrupt=0.5)
    clear_up(cluster)
    play_round(cluster, next(iter(cluster.nodes)))
    assert (len(memories(cluster)), len(averages_of_last_round(cluster)), len(digests(cluster))) == (1, 1, 1)
    outcomes = [record.outcome for node in cluster.nodes.values() for record in node.job.history.records]
    assert not any("averaging failed" in outcome for outcome in outcomes)


def test_two_parts_of_a_split_mesh_remember_the_same_in_the_first_round_after_it() -> None:
    cluster = with_rule(mesh(5, 4, rules=rules_of("fedadam")), "fedadam")
    play_round(cluster, FIRST, 2)
    some, others = list(cluster.nodes)[:3], list(cluster.nodes)[3:]
    cluster.cut(some, others)
    cluster.run_for(120)
    play_round(cluster, FIRST, 2)
    play_round(cluster, others[0], 2)
    assert len(memories(cluster)) == 2
    cluster.heal()
    cluster.run_for(120)
    play_round(cluster, FIRST)
    assert len(memories(cluster)) == 1


# A member that lies.


@pytest.mark.parametrize("since", [0, 3])
def test_a_memory_that_one_node_makes_up_is_fetched_by_nobody(since: int, monkeypatch: Any) -> None:
    cluster = with_rule(mesh(4, 2, rules=rules_of("fedavgm")), "fedavgm")
    if since:
        play_round(cluster, FIRST, since)
    liar = cluster.nodes[LAST].job.held
    state = liar.state_memory

    def lie(shared: Any) -> Digest | None:
        state(shared)
        huge = Params({"first moment": np.full(7, 1e30, np.float32)})
        liar.stated_memory = huge.merged_with({"x": np.zeros(1)})
        return liar.stated_memory.digest

    monkeypatch.setattr(liar, "state_memory", lie)
    play_round(cluster, FIRST, 3)
    honest = [node for node in cluster.alive if node.id != LAST]
    assert len({node.job.held.digest for node in honest}) == 1
    for node in honest:
        remembered = node.job.held.remembered
        assert remembered is not None
        assert float(np.abs(remembered["first moment"]).max()) < 1e3


def test_while_no_memory_can_be_fetched_a_node_adopts_the_model_of_the_others() -> None:
    cluster = after_missing_rounds(3)
    cluster.faults = Faults(fail_fetch=1.0)
    play_round(cluster, FIRST)
    assert (len(averages_of_last_round(cluster)), len(memories(cluster))) == (2, 2)
    cluster.faults = Faults()
    play_round(cluster, FIRST, 2)
    assert (len(averages_of_last_round(cluster)), len(memories(cluster)), len(digests(cluster))) == (1, 1, 1)
