"""A series of rounds outlives restarts, of one node and of all nodes at once."""

from __future__ import annotations

from random import Random

import pytest

from flnet.events import RoundTriggered
from flnet.params import PeerId
from flnet.simulation import TRAINER, Cluster
from flnet.simulation.restarts import kill, start_again
from tests.simulation.helpers import digests, mesh, rounds

ROUNDS = 8
ASKED = PeerId("n01")
GOALS = [None, "accuracy>=1"]


def begun(seed: int, goal: str | None) -> tuple[Random, Cluster]:
    """Somewhere in the first rounds of a series of ROUNDS that n01 was asked for."""
    rng, cluster = Random(seed), mesh(4, seed)
    cluster.nodes[ASKED].hear(TRAINER, RoundTriggered(ROUNDS, until=goal))
    reach(cluster, 1)
    cluster.run_for(rng.uniform(0, 5))
    assert max(rounds(cluster)) < ROUNDS - 1
    return rng, cluster


def reach(cluster: Cluster, number: int) -> None:
    """Let things happen until all nodes are in this round."""
    end = cluster.clock.now + 3600
    cluster.clock.run(lambda: min(rounds(cluster)) >= number, end)
    assert min(rounds(cluster)) >= number


def at_its_end(cluster: Cluster) -> None:
    """The series comes to its end, after as many rounds as were asked for, and nothing goes on behind it."""
    reach(cluster, ROUNDS - 1)
    assert cluster.run_until_idle()
    cluster.run_for(600)
    assert rounds(cluster) == {ROUNDS - 1}
    assert {node.job.state.rounds_left for node in cluster.nodes.values()} == {0}
    assert not any(node.job.state.pursuit.series for node in cluster.nodes.values())
    assert len(digests(cluster)) == 1


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("seed", range(5))
def test_it_goes_on_when_the_node_that_was_asked_is_killed(seed: int, goal: str | None) -> None:
    rng, cluster = begun(seed, goal)
    dead = kill(cluster, ASKED)
    cluster.run_for(rng.choice([0.0, 0.5]))
    start_again(cluster, dead)
    at_its_end(cluster)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("seed", range(5))
def test_it_goes_on_when_all_nodes_are_killed_at_once(seed: int, goal: str | None) -> None:
    rng, cluster = begun(seed, goal)
    dead = [kill(cluster, name) for name in list(cluster.nodes)]
    rng.shuffle(dead)
    for node in dead:
        start_again(cluster, node)
        cluster.run_for(rng.choice([0.0, 0.1, 2.0]))
    at_its_end(cluster)


@pytest.mark.parametrize("goal", GOALS)
def test_it_goes_on_after_a_while_when_a_node_never_comes_back(goal: str | None) -> None:
    rng, cluster = begun(3, goal)
    dead = [kill(cluster, name) for name in list(cluster.nodes)]
    rng.shuffle(dead)
    lost = next(node for node in dead if node.id != ASKED)
    for node in dead:
        if node is not lost:
            start_again(cluster, node)
    del cluster.nodes[lost.id]
    at_its_end(cluster)


def test_a_disk_that_forgets_the_series_would_be_noticed() -> None:
    _, cluster = begun(1, None)
    dead = [kill(cluster, name) for name in list(cluster.nodes)]
    for node in dead:
        kept = dict(node.saved.snapshot)
        del kept["rounds_left"]
        object.__setattr__(node.saved, "snapshot", kept)
        start_again(cluster, node)
    cluster.run_for(3600)
    assert max(rounds(cluster)) < ROUNDS - 1
