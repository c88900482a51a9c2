"""Seeded fault schedules of vertical jobs: every run ends in a whole epoch or a stated reason."""

from __future__ import annotations

from random import Random

import pytest

from flnet.params.params import PeerId
from flnet.simulation.schedule import Faults
from tests.node.vertical_mesh import HasHosts
from tests.simulation.helpers import seeds
from tests.simulation.vertical_cluster import VerticalCluster

STEPS = 6
LABEL = PeerId("n01")


def play(seed: int, people: HasHosts | None = None) -> VerticalCluster:
    """One schedule of lost requests, cut ways, slow nodes and kills while nodes ask for epochs; then all is well."""
    rng, cluster = Random(seed), VerticalCluster(seed, people=people)
    cluster.begin()
    cluster.run_for(5)
    names, dead = list(cluster.nodes), {}
    for _ in range(STEPS):
        cluster.trigger(rng.choice(names), rng.randint(1, 3))
        lost = rng.choice((0.0, 0.0, 0.05))
        cluster.faults = Faults(
            lose_request=lost, lose_reply=lost, duplicate=rng.choice((0.0, 0.1)), delay=(0.001, 0.1)
        )
        cluster.run_for(rng.uniform(0.05, 2.0))
        match rng.choice(("kill", "kill", "cut", "slow", "nothing")):
            case "kill":
                name = rng.choice(names)
                if name not in dead:
                    dead[name] = cluster.kill(name)
            case "cut":
                some = rng.choice(names)
                cluster.cut([some], [name for name in names if name != some])
            case "slow":
                cluster.nodes[rng.choice(names)].slowness = rng.choice((1.0, 20.0))
        cluster.run_for(rng.uniform(0.1, 15.0))
        cluster.heal()
        for name in list(dead):
            cluster.back(dead.pop(name))
    cluster.faults = Faults()
    cluster.run_for(120)
    return cluster


@pytest.mark.parametrize("seed", seeds(10, 500))
def test_every_run_ends_in_a_whole_epoch_or_a_stated_reason(seed: int) -> None:
    cluster = play(seed)
    try:
        assert cluster.run_until_idle(300)
        before = max(cluster.reports, default=-1)
        for _ in range(5):
            cluster.trigger(LABEL)
            cluster.run_for(30)
            if max(cluster.reports, default=-1) > before:
                break
        assert max(cluster.reports, default=-1) > before, [r["outcome"] for r in cluster.job("n00").records()][-3:]
        holders = cluster.job(LABEL).models.holders  # one that was away when the models began is left out
        assert len(holders) >= 2
        assert {cluster.job(name).models.closed for name in holders} == {max(cluster.reports)}
        for name in cluster.nodes:
            for record in cluster.job(name).records():
                outcome = str(record["outcome"])
                assert outcome.endswith("has ended") or len(outcome.removeprefix("abandoned: ")) > 10, record
    finally:
        cluster.end()


@pytest.mark.parametrize("starter", [PeerId("n00"), LABEL])
@pytest.mark.parametrize("seed", range(3))
def test_one_click_is_one_epoch_though_the_initiator_is_killed_when_it_ends(starter: PeerId, seed: int) -> None:
    """It has run all its steps, the epoch ends at the label holder, and it has not heard so, or has not told all."""
    cluster = VerticalCluster(seed)
    try:
        cluster.begin()
        cluster.run_for(5)
        cluster.trigger(starter)
        cluster.run_until_idle(60)
        assert max(cluster.reports) == 0
        cluster.trigger(starter)
        for _ in range(100_000):
            cluster.run_for(0.0005)
            if 1 in cluster.reports:
                break
        assert cluster.job(starter).busy
        assert max(cluster.job(starter).models.ended) == 1
        cluster.back(cluster.kill(starter))
        cluster.run_for(60)
        assert cluster.run_until_idle(60)
        assert set(cluster.reports) == {0, 1}
        assert cluster.job(starter).models.closed == 1
        assert {max(cluster.job(name).models.ended) for name in cluster.nodes} == {1}
        last = cluster.job(starter).records()[-1]
        assert (last["outcome"], last["error"]) == ("epoch 1 of the models has ended", None)
        cluster.trigger(starter)
        cluster.run_until_idle(60)
        assert {cluster.job(name).models.closed for name in cluster.nodes} == {2}
    finally:
        cluster.end()
