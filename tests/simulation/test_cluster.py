"""Whole meshes in virtual time: rounds close, averages agree, and a split mesh becomes one again.

The ledger checks its invariants in every run (see test_invariants.py).
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from random import Random
from typing import Any

import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.topology import Topology
from flnet.rounds.participation import Participation
from flnet.rounds.round import Round
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import (
    STORM,
    clear_up,
    digests,
    idle,
    mesh,
    play_round,
    rounds,
    seeds,
    top,
    trace,
    train_until,
    whole,
)

# Rounds.


def test_ten_nodes_agree_in_each_of_ten_rounds_without_faults() -> None:
    cluster = mesh(10, seed=1)
    train_until(cluster, last=9, seed=1, crowd=(1, 1, 2, 3))
    by_round: dict[int, set[str]] = {}
    for (_, number), digest in cluster.ledger.averages.items():
        by_round.setdefault(number, set()).add(digest)
    assert all(len(averages) == 1 for averages in by_round.values())
    assert set(by_round) == set(range(top(cluster) + 1))
    contributors = {len(r["contributors"]) for node in cluster.nodes.values() for r in node.job.records()}
    assert contributors == {10}
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


@pytest.mark.parametrize(
    ("topology", "rule"),
    [
        ("mesh", "agg0"),
        ("ring", "agg0"),
        ("segments", "agg0"),
        ("segments:3", "agg0"),
        ("mesh", "secure"),
        ("segments", "secure"),
    ],
)
def test_a_round_leaves_the_memory_as_soon_as_another_is_in_its_place(
    topology: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[Round]] = []
    begin = Round.__init__

    def noted(self: Round, *args: Any) -> None:
        begin(self, *args)
        opened.append(weakref.ref(self))

    monkeypatch.setattr(Round, "__init__", noted)
    rules = Rules(
        Participation(names_all=topology != "mesh"),
        averaging={MERGING: parse_rule(rule).name},
        topology=Topology.read(topology),
    )
    cluster = mesh(4, seed=1, rules=rules)
    gc.collect()
    gc.disable()  # what refers to itself in a circle stays
    try:
        play_round(cluster, "n01", rounds=3)
        alive = [round for each in opened if (round := each()) is not None]
    finally:
        gc.enable()
    assert len(opened) == 12
    assert sorted(map(id, alive)) == sorted(id(node.job.round) for node in cluster.nodes.values())


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(("large", "small"), [(3, 3), (3, 5), (5, 3)])
def test_a_mesh_that_was_split_has_one_average_after_the_next_round(seed: int, large: int, small: int) -> None:
    rng, cluster = Random(seed), mesh(5, seed)
    names = rng.sample(list(cluster.nodes), 5)
    train_until(cluster, last=0, seed=seed)
    cluster.cut(names[:3], names[3:])
    for i in range(max(large, small)):
        if i < large:
            cluster.trigger(rng.choice(names[:3]))
        if i < small:
            cluster.trigger(rng.choice(names[3:]))
        idle(cluster)
    assert len(digests(cluster)) == 2
    clear_up(cluster, rng.choice(names))
    assert whole(cluster)


@pytest.mark.parametrize("first", [0, 4])
def test_the_nodes_of_a_healed_mesh_hold_one_model_after_the_next_round(first: int) -> None:
    cluster = mesh(5, seed=4)
    names = list(cluster.nodes)
    cluster.cut(names[:3], names[3:])
    for name in (names[0], names[3]):
        cluster.trigger(name)
    idle(cluster)
    assert len({node.job.view().digest for node in cluster.nodes.values()}) == 2
    cluster.heal()
    cluster.run_for(60)
    play_round(cluster, names[first])
    assert len({node.job.view().digest for node in cluster.nodes.values()}) == 1


def test_an_unreachable_node_does_not_hold_up_the_others() -> None:
    cluster = mesh(4, seed=5)
    names = list(cluster.nodes)
    cluster.cut(names[:1], names[1:])
    play_round(cluster, names[1])
    assert [node.job.number for node in cluster.nodes.values()] == [-1, 0, 0, 0]
    clear_up(cluster, names[2])


# Membership.


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_any_connected_graph_becomes_a_full_mesh_under_faults(seed: int) -> None:
    rng = Random(seed + 1)
    size = rng.randint(2, 12)
    cluster = Cluster(size, seed, STORM)
    parents = [[rng.randrange(i)] if i else [] for i in range(size)]
    cluster.start(parents.__getitem__)
    cluster.run_for(300)
    cluster.faults = Faults()
    cluster.run_for(60)
    assert whole(cluster)


def test_without_faults_a_mesh_is_complete_within_seconds() -> None:
    cluster = Cluster(12, seed=3)
    cluster.start(lambda i: [i - 1] if i else [])  # a chain, all started at the same moment
    cluster.run_for(3)
    assert whole(cluster)


# Equal seeds, equal runs.


def run_of(seed: int) -> str:
    cluster = mesh(5, seed, STORM)
    train_until(cluster, last=3, seed=3, crowd=(1, 2), interrupt=0.3)
    return trace(cluster)


def test_equal_seeds_give_equal_runs_whatever_the_order_of_hashes_and_others_do_not() -> None:
    code = "from tests.simulation.test_cluster import run_of; print(run_of(7))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for salt in ("1", "2")
    }
    assert runs == {run_of(7)}
    assert runs != {run_of(8)}


def test_a_cluster_that_was_ended_has_nothing_left() -> None:
    cluster = mesh(3, seed=1)
    (first, *_) = cluster.nodes.values()
    cluster.trigger(first.id)
    cluster.end()
    assert first.is_dead
    assert cluster.run_until_idle()
    cluster.run_for(1000)
    assert (cluster.busy(), cluster.alive) == ([], [])
