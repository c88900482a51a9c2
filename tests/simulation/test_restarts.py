"""Nodes are killed and restarted: rounds and series continue. Kills at any moment under faults: `test_search.py`."""

from __future__ import annotations

from random import Random

import pytest

from flnet.params.params import PeerId
from flnet.protocol.events import RoundTriggered
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER
from tests.simulation.helpers import clear_up, digests, idle, mesh, play_round, rounds, seeds


def restart_all(
    cluster: Cluster, rng: Random, pauses: tuple[float, ...] = (0.0,), lost: PeerId | None = None
) -> None:
    """Kill all nodes at once, and restart them in a random order, except one that is lost."""
    dead = [cluster.kill(name) for name in list(cluster.nodes)]
    rng.shuffle(dead)
    for node in dead:
        if node.id != lost:
            cluster.restart(node)
            cluster.run_for(rng.choice(pauses))
    if lost is not None:
        del cluster.nodes[lost]


def test_nodes_that_are_all_killed_at_once_continue_from_the_last_round() -> None:
    for seed in range(10):
        rng, cluster = Random(seed), mesh(4, seed)
        cluster.trigger(PeerId("n01"))
        cluster.run_for(rng.uniform(0, 4))
        restart_all(cluster, rng)
        idle(cluster)
        clear_up(cluster, PeerId("n02"))


def test_a_node_that_lost_its_disk_does_not_repeat_alone_a_round_that_it_had_started() -> None:
    cluster = mesh(3, 1)
    first = next(iter(cluster.nodes))
    play_round(cluster, first)
    cluster.restart(cluster.kill(first), keeps_disk=False)  # before it is missed
    cluster.run_for(1.0)
    play_round(cluster, first)
    assert (rounds(cluster), len(digests(cluster))) == ({1}, 1)
    for node in cluster.nodes.values():
        assert set(node.job.records()[-1]["contributors"]) == set(cluster.nodes) - {first}


# Series of rounds.

ROUNDS = 8
ASKED = PeerId("n01")
GOALS = pytest.mark.parametrize("goal", [None, "accuracy>=1"])


def in_a_series(seed: int, goal: str | None) -> tuple[Random, Cluster]:
    """A mesh somewhere in the first rounds of a series of ROUNDS, which n01 was asked for."""
    rng, cluster = Random(seed), mesh(4, seed)
    cluster.nodes[ASKED].hear(TRAINER, RoundTriggered(ROUNDS, until=goal))
    run_to(cluster, 1)
    cluster.run_for(rng.uniform(0, 5))
    assert max(rounds(cluster)) < ROUNDS - 1
    return rng, cluster


def run_to(cluster: Cluster, number: int) -> None:
    """Run until all nodes are in this round."""
    cluster.clock.run(lambda: min(rounds(cluster)) >= number, cluster.clock.now + 3600)
    assert min(rounds(cluster)) >= number


def check_end(cluster: Cluster) -> None:
    """The series ends after as many rounds as were asked for, and nothing continues."""
    run_to(cluster, ROUNDS - 1)
    idle(cluster)
    cluster.run_for(600)
    assert rounds(cluster) == {ROUNDS - 1}
    assert {node.job.series.left for node in cluster.nodes.values()} == {0}
    assert not any(node.job.series.stopping.series for node in cluster.nodes.values())
    assert len(digests(cluster)) == 1


@GOALS
@pytest.mark.parametrize("seed", seeds(2, 5))
@pytest.mark.parametrize("kills_all", [False, True], ids=["one node", "all nodes"])
def test_a_series_continues_after_kills(seed: int, goal: str | None, kills_all: bool) -> None:
    rng, cluster = in_a_series(seed, goal)
    if kills_all:
        restart_all(cluster, rng, (0.0, 0.1, 2.0))
    else:
        dead = cluster.kill(ASKED)
        cluster.run_for(rng.choice([0.0, 0.5]))
        cluster.restart(dead)
    check_end(cluster)


@GOALS
def test_a_series_continues_after_a_while_without_a_node_that_never_comes_back(goal: str | None) -> None:
    rng, cluster = in_a_series(3, goal)
    restart_all(cluster, rng, lost=PeerId("n03"))
    check_end(cluster)
