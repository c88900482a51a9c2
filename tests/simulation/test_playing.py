"""Schedules that nobody thought of: whatever happens in them, the mesh comes to rest and keeps its promises."""

from __future__ import annotations

import gc

import pytest

from flnet.errors import IllegalStep
from flnet.simulation import playing
from flnet.simulation.playing import Failure, broken_by, play
from flnet.simulation.schedule import Schedule, draw

PART = 25  # schedules in one test, so that a run can be watched


@pytest.mark.parametrize("part", range(20))
def test_no_schedule_breaks_a_mesh(part: int) -> None:
    broken = broken_by(range(part * PART, (part + 1) * PART))
    assert [f"python -m flnet.simulation --replay {f.schedule.seed}: {f.words}" for f in broken] == []


@pytest.mark.parametrize("seed", [2156, 24224, 24527, 24791, 25216, 143769, 149298])
def test_schedules_that_broke_a_mesh_once_do_so_no_more(seed: int) -> None:
    assert play(draw(seed)) is None


def test_equal_schedules_give_equal_runs() -> None:
    def told(seed: int) -> list[tuple[float, str, str]]:
        lines: list[tuple[float, str, str]] = []
        play(draw(seed), lambda at, who, text: lines.append((at, who, text)))
        return lines

    assert told(4) == told(4)
    assert told(4) != told(5)


def test_an_exception_is_a_failure_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(self: object) -> None:
        raise IllegalStep("no such step")

    monkeypatch.setattr(playing.Play, "_clean_rounds", bug)
    failure = play(draw(1))
    assert failure is not None
    assert failure.words == "IllegalStep: no such step"


def test_the_kind_of_a_failure_names_no_nodes_and_no_numbers() -> None:
    one = Failure(draw(1), "n01 went back to round 3")
    other = Failure(draw(2), "n04 went back to round 12")
    assert one.kind == other.kind == "went back to round"
    assert Failure(draw(1), "n01 counts ['n02']: twice").kind != one.kind


def test_it_ends_after_so_many_failures_and_leaves_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(schedule: Schedule) -> Failure:
        return Failure(schedule, "always")

    monkeypatch.setattr(playing, "play", always)
    assert [failure.schedule.seed for failure in broken_by(range(10), most=3)] == [0, 1, 2]
    assert gc.isenabled()
