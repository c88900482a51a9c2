"""What each deed of a schedule does."""

from __future__ import annotations

import pytest

from flnet.membership import State
from flnet.params import PeerId
from flnet.simulation.deeds import Deeds, befall
from flnet.simulation.schedule import DEEDS, OF_SCHEDULES, Action, draw
from tests.simulation.helpers import digests, mesh, rounds, whole

A, B, C = PeerId("n00"), PeerId("n01"), PeerId("n02")


def deeds(size: int = 3) -> Deeds:
    return Deeds(mesh(size, 1))


def act(deed: str, node: int = 1, other: int = 2, size: float = 0.6) -> Action:
    return Action(0.0, deed, node, other, size)


@pytest.mark.parametrize("deed", [*DEEDS, *OF_SCHEDULES])
def test_every_deed_can_be_done_to_a_living_and_to_a_dead_node(deed: str) -> None:
    d = deeds()
    d.do(act(deed))
    d.cluster.run_for(5)
    d.do(act("kill"))
    d.do(act(deed))
    d.cluster.run_for(5)
    d.end_faults()
    assert d.cluster.run_until_idle()


def test_a_series_is_asked_for_and_stopped() -> None:
    d = deeds()
    d.do(act("series", size=0.99))
    d.do(act("stop"))
    assert d.cluster.run_until_idle()
    assert rounds(d.cluster) == {0}


def test_who_leaves_says_so_and_may_come_back() -> None:
    d = deeds()
    d.do(act("leave"))
    d.cluster.run_for(1)
    here = d.cluster.nodes[A].core.members
    assert (here.known[B].state, d.cluster.nodes[B].is_dead, d.left) == (State.LEFT, True, {B})
    d.do(act("start"))
    d.cluster.run_for(5)
    assert whole(d.cluster)


def test_who_lost_the_disk_begins_anew_and_who_kept_it_goes_on() -> None:
    d = deeds()
    d.do(act("trigger"))
    assert d.cluster.run_until_idle()
    d.do(act("kill", node=0))
    d.do(act("kill and lose the disk"))
    for node in (0, 1):
        d.do(act("start", node=node))
    assert [node.job.state.number for node in d.cluster.nodes.values()] == [0, -1, 0]
    assert d.has_lost_disks


def test_who_started_the_newest_round_forgets_it_before_anyone_misses_it() -> None:
    d = deeds()
    d.do(act("trigger", node=2))
    assert d.cluster.run_until_idle()
    d.do(act("forget", node=0, size=0.5))
    assert d.cluster.nodes[C].is_dead
    d.cluster.run_for(0.6)
    assert [node.job.state.number for node in d.cluster.nodes.values()] == [0, 0, -1]
    assert whole(d.cluster)


def test_a_person_goes_back_to_a_model_that_the_node_held() -> None:
    d = deeds()
    for _ in range(2):
        d.do(act("trigger"))
        assert d.cluster.run_until_idle()
    (held,) = digests(d.cluster)
    first = sorted(d.cluster.nodes[B].shelf).index(held) > 0
    d.do(act("go back", size=0.0 if first else 0.99))
    assert len(digests(d.cluster)) == 2


def test_parts_do_not_reach_each_other_until_they_are_healed() -> None:
    d = deeds()
    d.do(act("part", other=0, size=0.4))
    assert (A, B) in d.cluster.network.cuts
    assert (B, C) not in d.cluster.network.cuts
    d.do(act("heal"))
    assert d.cluster.network.cuts == set()
    d.do(act("cut one way"))
    assert d.cluster.network.cuts == {(B, C)}


def test_faults_of_one_node_end() -> None:
    d = deeds()
    for deed in ("break the disk", "clock runs off", "slow down", "pause"):
        d.do(act(deed))
    node = d.cluster.nodes[B]
    assert (node.disk.fails, node.local.rate, node.slowness, node.job.state.paused) == (True, 1.4, 10.0, True)
    d.end_faults()
    assert (node.disk.fails, node.local.rate, node.slowness, node.job.state.paused) == (False, 1.0, 1.0, False)


@pytest.mark.parametrize("ending", ["one dies", "one blinks", "one reboots"])
def test_what_befalls_a_node_in_a_round_costs_the_others_nothing(ending: str) -> None:
    d = deeds(4)
    d.do(act("trigger", node=0))
    befall(d, ending, d.cluster.nodes[B], 0.5)
    assert d.cluster.run_until_idle()
    others = {A, C, PeerId("n03")}
    for name in others:
        assert others <= set(d.cluster.nodes[name].job.history()[-1]["contributors"])


def test_a_quarter_of_the_runs_have_what_schedules_do_and_the_others_are_as_before() -> None:
    drawn = [draw(seed) for seed in range(200)]
    with_schedules = [one for one in drawn if any(action.deed in OF_SCHEDULES for action in one.actions)]
    assert 30 <= len(with_schedules) <= 70
    assert {action.deed for one in drawn for action in one.actions} == {*DEEDS, *OF_SCHEDULES}


def test_hours_end_and_begin_and_examples_arrive() -> None:
    d = deeds(2)
    state = d.cluster.nodes[A].job.state
    d.do(Action(0.0, "hours end", 0, 0, 0.5))
    d.do(Action(0.0, "new examples", 0, 6, 0.5))
    assert (state.unwilling, state.arrived.rows) == ("outside of its hours", 7)
    d.do(Action(0.0, "schedule", 0, 0, 0.5))
    assert d.cluster.run_until_idle() and state.number == 0
    d.end_faults()
    assert state.unwilling == ""
