"""Rules that remember: a node that missed rounds differs, is not followed, and agrees again by itself."""

from __future__ import annotations

import pytest

from flnet.params import PeerId
from flnet.simulation import Cluster
from flnet.simulation.restarts import kill, start_again
from flnet.strategies import Strategy, clip, composed, cosine, fed_avg_m
from flnet.strategies.consistency import consistency
from flnet.strategies.fed_opt import PERIOD
from tests.simulation.helpers import mesh

BACK, FIRST = PeerId("n03"), PeerId("n00")
SCORED = composed([clip(), cosine()], consistency(window=3))


def played(cluster: Cluster, rounds: int) -> None:
    cluster.trigger(FIRST, rounds)
    assert cluster.run_until_idle(600.0 * rounds)
    assert len({node.job.state.model and node.job.state.model.shared.digest for node in cluster.alive}) == 1


def averages_of_last(cluster: Cluster) -> set[str | None]:
    """What the nodes averaged in the newest round, before any adopted another's."""
    return {node.job.state.history[-1].digest for node in cluster.alive}


@pytest.mark.parametrize(
    ("rule", "reach", "keeps_disk"),
    [(SCORED, 14, True), (SCORED, 14, False), (fed_avg_m(), PERIOD, True)],
    ids=["scores", "scores, new disk", "momentum"],
)
def test_a_node_that_missed_rounds_agrees_again_in_the_end(rule: Strategy, reach: int, keeps_disk: bool) -> None:
    cluster = mesh(4, seed=3)
    cluster.strategy = rule
    played(cluster, 4)
    assert len(averages_of_last(cluster)) == 1
    dead = kill(cluster, BACK)
    played(cluster, 2)
    start_again(cluster, dead, keeps=keeps_disk)
    cluster.run_for(30)
    played(cluster, 1)
    assert len(averages_of_last(cluster)) == 2  # it made another one, and holds that of the others
    played(cluster, reach)
    assert len(averages_of_last(cluster)) == 1
