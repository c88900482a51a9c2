"""A node that was away judges updates by an old base: what it averages apart from the others counts for none."""

from __future__ import annotations

import pytest

from flnet.params import PeerId
from flnet.screening import Bounds
from flnet.simulation import Cluster
from flnet.simulation.restarts import kill, start_again
from tests.simulation.helpers import digests, mesh, rounds

BACK = PeerId("n04")


def after_its_return(seed: int, bounds: Bounds) -> Cluster:
    """Five nodes; one of them misses two rounds, comes back with its disk, and starts the next round."""
    cluster = mesh(5, seed)
    cluster.bounds = bounds
    cluster.trigger(BACK)
    assert cluster.run_until_idle()
    dead = kill(cluster, BACK)
    cluster.trigger(PeerId("n00"), 2)
    assert cluster.run_until_idle()
    start_again(cluster, dead)
    cluster.run_for(30)
    cluster.trigger(BACK)
    assert cluster.run_until_idle()
    return cluster


@pytest.mark.parametrize("seed", [0, 6, 7])
@pytest.mark.parametrize("bounds", [Bounds(ratio=1.2), Bounds(clip=0.5)], ids=["gate", "clip"])
def test_all_hold_one_model_after_the_first_round_of_a_node_that_was_away(seed: int, bounds: Bounds) -> None:
    cluster = after_its_return(seed, bounds)
    assert rounds(cluster) == {3}
    assert len(digests(cluster)) == 1


def test_it_averages_otherwise_and_takes_what_the_others_average() -> None:
    record = after_its_return(0, Bounds(clip=0.5)).nodes[BACK].job.state.history[-1]
    assert record.contributors == ("n00", "n01", "n02", "n03")
    assert record.exchanged_with is not None
