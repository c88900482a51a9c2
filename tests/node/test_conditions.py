"""What the machine is asked: its local time, and how busy other programs keep it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import psutil
import pytest

from flnet.node import conditions
from flnet.node.conditions import Conditions


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
