"""People pause and resume nodes in the middle of everything: no round hangs, and afterwards all are one again."""

from __future__ import annotations

from random import Random

import pytest

from flnet.events import Paused, Resumed, SeriesStopped
from flnet.params import PeerId
from flnet.simulation import TRAINER, Cluster
from tests.simulation.helpers import STORM, any_weather, clear_up, digests, mesh, rounds, stuck, top

ORDERS = (Paused(), Paused(), Resumed(), SeriesStopped())


def meddle(cluster: Cluster, rng: Random, times: int) -> None:
    """Ask for rounds, and pause, resume and stop, here and there."""
    for _ in range(times):
        who = rng.choice(list(cluster.nodes))
        if rng.random() < 0.5:
            cluster.trigger(who, rng.choice([1, 3]))
        else:
            cluster.nodes[who].hear(TRAINER, rng.choice(ORDERS))
        if rng.random() < 0.6:
            cluster.run_for(rng.uniform(0, 6))
        else:
            assert cluster.run_until_idle(), stuck(cluster)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_people_pause_in_any_weather_no_round_hangs(seed: int) -> None:
    rng = Random(seed)
    cluster = mesh(rng.choice([2, 3, 5]), seed, STORM if seed % 2 else any_weather(rng))
    meddle(cluster, rng, 40)
    for node in cluster.nodes.values():
        node.hear(TRAINER, SeriesStopped())
        node.hear(TRAINER, Resumed())
    assert cluster.run_until_idle(), stuck(cluster)
    clear_up(cluster, next(iter(cluster.nodes)))
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


def test_rounds_of_a_mesh_in_which_some_rest_are_averages_of_the_others() -> None:
    cluster = mesh(4, seed=1)
    resting, working = list(cluster.nodes)[:2], list(cluster.nodes)[2:]
    for name in resting:
        cluster.nodes[PeerId(name)].hear(TRAINER, Paused())
    assert not cluster.trigger(resting[0])
    assert cluster.trigger(working[0], rounds=3)
    assert cluster.run_until_idle(), stuck(cluster)
    for node in cluster.nodes.values():
        assert [record["contributors"] for record in node.job.history()] == [working] * 3
    assert len(digests(cluster)) == 1
