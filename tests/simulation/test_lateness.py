"""Slow nodes whose updates count later, while others are started again in the middle of a round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.effects import Effect
from flnet.events import Restored
from flnet.jobs import Rules
from flnet.jobs import job as job_steps
from flnet.jobs.restoring import restored
from flnet.jobs.state import JobState
from flnet.params import PeerId
from flnet.simulation import Cluster
from flnet.simulation.playing import play
from flnet.simulation.restarts import kill, start_again
from flnet.simulation.schedule import draw

FIRST, REBOOTS, SLOW = PeerId("n00"), PeerId("n01"), PeerId("n04")


def slow_node_after_a_restart() -> Cluster:
    """A node was killed after it had spoken, before a slow one that trains on over the round heard its word."""
    cluster = Cluster(5, 3, rules=Rules(staleness=3))
    cluster.start()
    cluster.run_for(10)
    cluster.nodes[SLOW].slowness = 10.0
    cluster.trigger(FIRST)
    assert cluster.run_until_idle(100)
    cluster.network.cuts.add((REBOOTS, SLOW))
    cluster.trigger(FIRST)
    node = cluster.nodes[REBOOTS]
    while len(cluster.nodes[FIRST].job.state.averaging.updates) < 4:  # type: ignore[union-attr]
        cluster.run_for(0.01)
    assert SLOW in node.job.state.averaging.late  # type: ignore[union-attr]
    dead = kill(cluster, REBOOTS)
    cluster.heal()
    start_again(cluster, dead)
    assert cluster.run_until_idle(200)
    return cluster


def test_a_slow_node_hears_the_word_of_who_comes_back() -> None:
    cluster = slow_node_after_a_restart()
    state = cluster.nodes[SLOW].job.state
    assert (state.number, state.history[-1].missing) == (1, ())
    assert state.history[-1].contributors == ("n00", "n01", "n02", "n03")


def test_where_who_declined_is_forgotten_it_waits_for_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(s: JobState, event: Restored) -> list[Effect]:
        return restored(s, replace(event, snapshot={**event.snapshot, "declined": {}}))

    monkeypatch.setattr(job_steps, "restored", forgets)
    cluster = slow_node_after_a_restart()
    assert cluster.nodes[SLOW].job.state.history[-1].missing == (REBOOTS,)


@pytest.mark.parametrize("seed", [647, 679])
def test_schedules_in_which_a_restart_cost_slow_nodes_the_round(seed: int) -> None:
    schedule = draw(seed)
    assert schedule.staleness and schedule.ending == "one reboots"
    assert play(schedule) is None
