"""Twenty nodes with bad lines and busy event loops: a dead node is declared dead soon, a live one never."""

from __future__ import annotations

import pytest

from flnet.params.params import PeerId
from tests.simulation.deaths import (
    BAD_LINES,
    GOOD_LINES,
    Deaths,
    false_deaths,
    joined,
    keep_busy,
    seconds_until_dead_for_all,
)
from tests.simulation.helpers import seeds

A_MINUTE = 60.0


@pytest.mark.parametrize("rounds", [4, pytest.param(10, marks=pytest.mark.long)])
def test_twenty_nodes_with_bad_lines_train_and_declare_nobody_dead(rounds: int) -> None:
    cluster = joined(1, BAD_LINES)
    assert all(len(node.core.members.alive) == 19 for node in cluster.nodes.values())
    deaths = Deaths(cluster)
    for i in range(rounds):
        assert cluster.trigger(PeerId(f"n{i:02}"))
        while cluster.busy():
            deaths.watch(1.0)
    assert deaths.false == set()
    assert {node.job.number for node in cluster.nodes.values()} == {rounds - 1}


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("refuses", [True, False])
def test_all_of_twenty_nodes_notice_a_death_within_ten_seconds(refuses: bool, seed: int) -> None:
    assert seconds_until_dead_for_all(seed, refuses=refuses, faults=GOOD_LINES) <= 10.0


def test_nodes_with_busy_loops_declare_nobody_dead() -> None:
    assert false_deaths(1, 5 * A_MINUTE, size=10) == 0


def test_a_false_death_would_be_seen() -> None:
    cluster = joined(1, GOOD_LINES, size=3)
    deaths = Deaths(cluster)
    names = list(cluster.nodes)
    cluster.cut(names[:1], names[1:])
    deaths.watch(A_MINUTE)
    assert (names[0], names[1]) in deaths.false
    assert (names[1], names[0]) in deaths.false


def test_a_busy_node_is_late() -> None:
    cluster = joined(1, GOOD_LINES, size=2)
    names = list(cluster.nodes)
    keep_busy(cluster, names[0], cluster.rng)
    before = cluster.nodes[names[0]].core.members.state.roster.tick
    cluster.run_for(A_MINUTE)
    ticks = [node.core.members.state.roster.tick - before for node in cluster.nodes.values()]
    assert ticks[0] < ticks[1]
