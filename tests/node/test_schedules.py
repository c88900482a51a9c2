"""The schedules of a node's jobs: whose counts, when a round is asked for, and how often."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from flnet.errors import InvalidMessage, JobBusy, SettingsError, UnknownTrainer
from flnet.node import schedules as conditions
from flnet.node.build import usual_schedule
from flnet.node.core import NodeCore
from flnet.node.schedules import AGAIN_SECONDS, Conditions, Schedules
from flnet.params.params import TrainerId
from flnet.protocol.events import (
    Averaged,
    DataChanged,
    Evaluated,
    Event,
    Planned,
    Prepared,
    RoundTriggered,
    Trained,
)
from flnet.rounds.schedule import Moment, Schedule
from flnet.rounds.steps import Phase
from flnet.settings import Settings
from tests.helpers import params, peer
from tests.rounds.helpers import declaration

T = TrainerId("T")
HOUR = 3600.0


class Node:
    """One job, whose events are heard at once, and a clock that a test moves."""

    def __init__(self, usual: str = "", *, prepare: bool = True) -> None:
        self.core = NodeCore(peer("a"), [T])
        self.moment = Moment(1000.0, 12 * HOUR)
        self.heard: list[Event] = []
        self.schedules = Schedules(self.core, self._hear, Schedule.parse(usual), lambda machine: self.moment)
        self.job = self.core.jobs[T]
        if prepare:
            self.core.hear(T, Prepared(declaration(data={"rows": {"test": 10}}), params(w=[1, 1])))

    def _hear(self, owner: TrainerId | None, event: Event) -> None:
        self.heard.append(event)
        self.core.hear(owner, event)

    def plan(self, when: str | None) -> None:
        self._hear(T, self.schedules.plan(T, when))

    def passes(self, seconds: float) -> list[RoundTriggered]:
        """So long, with a question every five seconds; the rounds that were asked for."""
        before = len(self.heard)
        for _ in range(int(seconds / 5)):
            now = self.moment.now + 5
            self.moment = replace(self.moment, now=now, of_day=(self.moment.of_day + 5) % 86_400)
            self.schedules.tick()
        return [event for event in self.heard[before:] if isinstance(event, RoundTriggered)]

    def train(self) -> None:
        """End the round that is open."""
        assert self.job.key is not None
        self.core.hear(T, Trained(self.job.key, params(w=[2, 2]), 5, 0.5))
        self.core.hear(T, Averaged(self.job.key, params(w=[2, 2])))
        self.core.hear(T, Evaluated(self.job.key, params(w=[2, 2]).digest, 0.5))
        assert self.job.phase is Phase.IDLE

    def arrive(self, rows: int) -> None:
        self.core.hear(T, DataChanged(declaration(data={"rows": {"test": 10}}), params(w=[1, 1]), rows))


def test_without_a_schedule_nothing_starts() -> None:
    node = Node()
    node.arrive(1000)
    assert (node.passes(600), node.heard) == ([], [])
    assert node.schedules.view(T)["when"] == "never"


def test_every_so_often_counts_from_the_newest_round() -> None:
    node = Node("every 10m")
    assert node.passes(600) == []
    (asked,) = node.passes(10)
    assert asked.why == "10m have passed since the last round"
    assert node.passes(60) == []  # it is open
    node.train()
    assert node.passes(530) == []
    assert len(node.passes(20)) == 1


def test_arrivals_start_one_round() -> None:
    node = Node("new 5")
    node.arrive(4)
    assert node.passes(300) == []
    assert node.schedules.view(T)["next_words"] == "when new examples have come: 4 of 5 so far"
    node.arrive(1)
    (asked,) = node.passes(5)
    assert asked.why == "5 new examples have come"
    node.train()
    assert node.passes(300) == []


def test_a_start_that_leads_to_nothing_is_not_repeated_at_once() -> None:
    node = Node("new 5")
    node.arrive(5)
    node.core.hear = lambda owner, event: []  # type: ignore[method-assign]
    assert len(node.passes(AGAIN_SECONDS - 5)) == 1
    assert len(node.passes(AGAIN_SECONDS)) == 1


@pytest.mark.parametrize("state", ["paused", "left"])
def test_a_person_comes_first(state: str) -> None:
    node = Node("new 5")
    node.arrive(5)
    setattr(node.job.series, state, 1)
    assert node.passes(60) == []


def test_the_word_of_a_person_counts_until_it_is_taken_back() -> None:
    node = Node("every 10m")
    node.plan("never")
    assert node.passes(1200) == []
    assert (node.schedules.view(T)["when"], node.schedules.view(T)["by_person"]) == ("never", True)
    node.plan(None)
    assert node.schedules.view(T)["next_seconds"] == 600
    assert len(node.passes(605)) == 1


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        Node().plan("sometimes")
    with pytest.raises(InvalidMessage, match="nothing starts one"):
        Node().plan("between 22:00-06:00")
    with pytest.raises(UnknownTrainer):
        Node().schedules.plan(TrainerId("X"), None)
    with pytest.raises(JobBusy):
        Node(prepare=False).plan("new 5")


def test_a_clock_that_is_put_back_starts_again() -> None:
    node = Node("every 10m")
    node.passes(300)
    node.moment = replace(node.moment, now=10.0)
    node.schedules.tick()
    assert isinstance(node.heard[-1], Planned) and node.job.series.plan.since == 10.0
    assert node.passes(590) == []
    assert len(node.passes(15)) == 1


def test_it_declines_outside_of_its_hours_and_is_told_so_once() -> None:
    node = Node("between 13:00-14:00, decline")
    node.passes(60)
    assert node.job.series.unwilling == "outside of the hours 13:00-14:00"
    assert node.schedules.view(T)["unwilling"] == "outside of the hours 13:00-14:00"
    assert len(node.heard) == 1
    node.passes(HOUR)
    assert (node.job.series.unwilling, len(node.heard)) == ("", 2)


def test_while_a_trainer_loads_nothing_is_asked_of_its_job() -> None:
    node = Node("every 1s, between 13:00-14:00, decline", prepare=False)
    assert (node.passes(60), node.heard) == ([], [])
    assert node.schedules.view(T)["next_words"] == ""


def test_a_wrong_setting_stops_the_start() -> None:
    assert usual_schedule(Settings(train_when="every 6h")) == Schedule(every=6 * HOUR)
    assert usual_schedule(Settings()) == Schedule()
    assert usual_schedule(Settings(watch_data=Path("in"))) == Schedule(new=1)
    assert usual_schedule(Settings(watch_data=Path("in"), train_when="every 6h")) == Schedule(every=6 * HOUR)
    with pytest.raises(SettingsError, match="FLNET_TRAIN_WHEN=sometimes: when: expected parts"):
        usual_schedule(Settings(train_when="sometimes"))
    with pytest.raises(SettingsError, match=r"FLNET_TRAIN_WHEN=load<=0\.8: when: 'load<=0\.8' only says when"):
        usual_schedule(Settings(train_when="load<=0.8"))


# What the machine is asked: its local time, and how busy other programs keep it.


class Machine:
    """Two processors; counts seconds of work that a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.busy, self.mine = 0.0, 0.0, 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.at)
        monkeypatch.setattr(conditions, "_busy_seconds", lambda: self.busy)
        monkeypatch.setattr(Conditions, "_own_seconds", lambda _: self.mine)
        monkeypatch.setattr(psutil, "cpu_count", lambda: 2)

    def goes_on(self, seconds: float, *, others: float = 0.0, mine: float = 0.0) -> None:
        """So long, with so many processors at work."""
        self.at += seconds
        self.mine += seconds * mine
        self.busy += seconds * (others + mine)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_own_training_is_no_load(machine: Machine) -> None:
    read = Conditions()
    read()
    machine.goes_on(30, mine=1)
    assert read().load == 0.0
    machine.goes_on(30, mine=1, others=1)
    assert read().load == 0.5


def test_a_moment_of_work_weighs_little_and_lasting_work_all(machine: Machine) -> None:
    read = Conditions()
    assert read().load is None  # nothing can be said yet
    machine.goes_on(30)
    read()
    machine.goes_on(3, others=2)
    assert read().load == pytest.approx(0.1)  # a tenth of the half minute
    machine.goes_on(60, others=2)
    assert read().load == 1.0


@pytest.mark.parametrize(
    ("battery", "percent"),
    [
        (None, None),
        (SimpleNamespace(percent=40, power_plugged=True), None),
        (SimpleNamespace(percent=40, power_plugged=None), None),
        (SimpleNamespace(percent=40, power_plugged=False), 40.0),
    ],
)
def test_a_battery_counts_while_it_feeds_the_machine(
    monkeypatch: pytest.MonkeyPatch, battery: object, percent: float | None
) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert Conditions()().battery == percent


def test_the_time_of_day_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "localtime", lambda: time.struct_time((2026, 3, 29, 3, 4, 5, 6, 88, 1)))
    assert Conditions()().of_day == 3 * 3600 + 4 * 60 + 5


def test_this_machine_can_be_read() -> None:
    read = Conditions()
    moment = read()
    assert moment.now > 1.6e9 and 0 <= moment.of_day < 86_400
    assert read(machine=False).battery is None and read._own_seconds() > 0 and conditions._busy_seconds() > 0
