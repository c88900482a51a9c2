"""Schedules are drawn from a seed, can be reduced and printed, and each of their actions does what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flnet.algorithms.registry import RULES, USUAL, parse_rule
from flnet.algorithms.topology import Topology
from flnet.membership.probing import Pauses
from flnet.membership.roster import State
from flnet.params.params import PeerId
from flnet.simulation.actions import Actions
from flnet.simulation.schedule import (
    ACTIONS,
    ENDINGS,
    FAULT_NAMES,
    OF_SCHEDULES,
    RULES_IN_SEGMENTS,
    Action,
    Faults,
    Reduction,
    described,
    described_action,
    draw,
    given_rule,
)
from tests.simulation.helpers import digests, idle, mesh, play_round, rounds, whole

A, B, C = PeerId("n00"), PeerId("n01"), PeerId("n02")


def test_everything_happens_in_many_schedules_and_a_seed_always_draws_the_same() -> None:
    assert draw(5) == draw(5) != draw(6)
    drawn = [draw(seed) for seed in range(300)]
    assert {action.kind for schedule in drawn for action in schedule.actions} == {*ACTIONS, *OF_SCHEDULES}
    assert {schedule.ending for schedule in drawn} == set(ENDINGS)
    assert {schedule.ending for schedule in drawn if schedule.staleness} == set(ENDINGS)
    assert {schedule.size for schedule in drawn} == {5, 6, 7, 8, 9}
    assert all(0 <= action.size < 1 for schedule in drawn for action in schedule.actions)
    bad = {name for s in drawn for name in FAULT_NAMES if getattr(s.faults, name) != getattr(Faults(), name)}
    assert bad == set(FAULT_NAMES)
    assert all(schedule.actions[0].kind == "trigger" for schedule in drawn)
    with_schedules = [one for one in drawn if any(action.kind in OF_SCHEDULES for action in one.actions)]
    assert 45 <= len(with_schedules) <= 105  # a quarter
    assert next(schedule for schedule in drawn if schedule.tick == 1.0).pauses == Pauses()


@pytest.mark.parametrize(
    ("faults", "is_calm"),
    [
        ({}, True),
        ({"fail_training": 0.5, "duplicate": 0.5, "training": (9.0, 99.0)}, True),
        *(({name: 0.01}, False) for name in ("lose_request", "lose_reply", "corrupt")),
        ({"delay": (0.0, 0.3)}, False),
        ({"saving": (0.0, 0.5)}, False),
    ],
)
def test_a_mesh_is_calm_without_faults_that_may_fail_a_probe(faults: dict[str, Any], is_calm: bool) -> None:
    assert replace(Faults(), **faults).is_calm is is_calm


def test_a_reduction_keeps_what_it_names_and_is_written_as_options() -> None:
    schedule = draw(3)
    less = Reduction(size=2, actions=(0, 2), mild=("delay", "duplicate")).of(schedule)
    assert (less.size, less.seed) == (2, schedule.seed)
    assert less.actions == (schedule.actions[0], schedule.actions[2])
    assert (less.faults.delay, less.faults.duplicate) == (Faults().delay, Faults().duplicate)
    assert less.faults.training == schedule.faults.training
    assert Reduction().of(schedule) == schedule
    assert Reduction().options() == []
    assert Reduction(2, (), ("delay",)).options() == ["--nodes", "2", "--actions", "none", "--mild", "delay"]
    assert Reduction(actions=(1, 4)).options() == ["--actions", "1,4"]


def test_the_rule_of_a_schedule_in_segments_is_drawn_and_changes_nothing_else() -> None:
    allowed = {name for name in RULES if Topology("segments").allows(parse_rule(name))}
    assert set(RULES_IN_SEGMENTS) == allowed
    drawn = [Reduction(segments=True).of(draw(seed)) for seed in range(50)]
    assert {schedule.rule for schedule in drawn} == allowed
    for schedule in drawn:
        given = Reduction(segments=True, rule="median").of(draw(schedule.seed))
        assert replace(schedule, rule="median") == given
        assert given.rules.merging == "median" and given_rule(given) in ("median", "")
        assert given_rule(schedule) == "" and schedule.rules.merging == parse_rule(schedule.rule).name
    assert Reduction(segments=True, secure=True).of(draw(0)).rule == Reduction().of(draw(0)).rule == USUAL
    assert Reduction(segments=True, rule="agg0").options() == ["--segments", "--rule", "agg0"]
    assert "the rule is median" in described(Reduction(segments=True, rule="median").of(draw(0)))[0]


def test_a_schedule_is_printed_in_lines() -> None:
    schedule = draw(3)
    lines = described(schedule)
    assert lines[0].startswith(f"seed 3: {schedule.size} nodes")
    assert lines[1].startswith("faults: ")
    assert len(lines) == 2 + len(schedule.actions)
    assert described_action(schedule.actions[0], 5).startswith("trigger n0")


# Actions.


class Performed:
    """A mesh to which actions happen."""

    def __init__(self, size: int = 3) -> None:
        self.cluster = mesh(size, 1)
        self.actions = Actions(self.cluster)
        self.nodes = self.cluster.nodes

    def act(self, kind: str, node: int = 1, other: int = 2, size: float = 0.6) -> None:
        self.actions.perform(Action(0.0, kind, node, other, size))

    def numbers(self) -> list[int]:
        return [node.job.number for node in self.nodes.values()]


@pytest.mark.parametrize("kind", [*ACTIONS, *OF_SCHEDULES])
def test_every_action_can_happen_to_a_live_and_to_a_dead_node(kind: str) -> None:
    p = Performed()
    for act in (kind, "kill", kind):
        p.act(act)
        p.cluster.run_for(5)
    p.actions.end_faults()
    idle(p.cluster)


def test_a_series_can_be_stopped() -> None:
    p = Performed()
    p.act("series", size=0.99)
    p.act("stop")
    idle(p.cluster)
    assert rounds(p.cluster) == {0}


def test_a_node_that_leaves_announces_it_and_may_come_back() -> None:
    p = Performed()
    p.act("leave")
    p.cluster.run_for(1)
    assert p.nodes[A].core.members.known[B].state is State.LEFT
    assert (p.nodes[B].is_dead, p.actions.left) == (True, {B})
    p.act("start")
    p.cluster.run_for(5)
    assert whole(p.cluster)


def test_a_restarted_node_continues_unless_it_lost_its_disk() -> None:
    p = Performed()
    play_round(p.cluster, A)
    p.act("kill", node=0)
    p.act("kill and lose the disk")
    for node in (0, 1):
        p.act("start", node=node)
    assert p.numbers() == [0, -1, 0]
    assert p.actions.has_lost_disks


def test_the_node_that_started_the_newest_round_forgets_it_before_it_is_missed() -> None:
    p = Performed()
    play_round(p.cluster, C)
    p.act("forget", node=0, size=0.5)
    assert p.nodes[C].is_dead
    p.cluster.run_for(0.6)
    assert p.numbers() == [0, 0, -1]
    assert whole(p.cluster)


def test_a_node_goes_back_to_a_model_that_it_held() -> None:
    p = Performed()
    for _ in range(2):
        play_round(p.cluster, B)
    (held,) = digests(p.cluster)
    is_last = sorted(p.nodes[B].models).index(held) > 0
    p.act("go back", size=0.0 if is_last else 0.99)
    assert len(digests(p.cluster)) == 2


def test_parts_of_a_mesh_are_cut_off_until_they_are_healed() -> None:
    p = Performed()
    p.act("part", other=0, size=0.4)
    assert (A, B) in p.cluster.network.cuts
    assert (B, C) not in p.cluster.network.cuts
    p.act("heal")
    p.act("cut one way")
    assert p.cluster.network.cuts == {(B, C)}


def test_faults_of_one_node_begin_and_end() -> None:
    p = Performed()
    node = p.nodes[B]
    for kind in ("break the disk", "clock runs off", "slow down", "pause"):
        p.act(kind)
    assert (node.disk.fails, node.local.rate, node.slowness, node.job.series.paused) == (True, 1.4, 10.0, True)
    p.actions.end_faults()
    assert (node.disk.fails, node.local.rate, node.slowness, node.job.series.paused) == (False, 1.0, 1.0, False)


def test_hours_end_and_begin_and_examples_arrive() -> None:
    p = Performed(2)
    job = p.nodes[A].job
    p.act("hours end", node=0)
    p.act("new examples", node=0, other=6)
    assert (job.series.unwilling, job.arrivals.arrived.rows) == ("outside of its hours", 7)
    p.act("schedule", node=0)
    idle(p.cluster)
    assert job.number == 0
    p.actions.end_faults()
    assert job.series.unwilling == ""


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending])
def test_a_disturbed_node_does_not_cost_the_others_their_round(ending: str) -> None:
    p = Performed(4)
    p.act("trigger", node=0)
    p.actions.disturb(ending, p.nodes[B], 0.5)
    idle(p.cluster)
    others = {*p.nodes} - {B}
    for name in others:
        assert others <= set(p.nodes[name].job.records()[-1]["contributors"])
