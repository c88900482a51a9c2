"""Failing schedules are made small, and still break the same."""

from __future__ import annotations

import pytest

from flnet.effects import Publish
from flnet.jobs import gathering
from flnet.simulation import shrinking
from flnet.simulation.playing import Failure, play
from flnet.simulation.schedule import Reduction, Schedule, draw
from flnet.simulation.shrinking import fewer_actions, fewer_nodes, finer_weather, shrink


def test_only_the_actions_that_matter_stay() -> None:
    runs: list[tuple[int, ...]] = []

    def fails(reduction: Reduction) -> bool:
        assert reduction.actions is not None
        runs.append(reduction.actions)
        return {3, 11} <= set(reduction.actions)

    assert fewer_actions(range(16), Reduction(), fails) == (3, 11)
    assert len(runs) < 40


def test_if_nothing_matters_nothing_stays() -> None:
    assert fewer_actions(range(16), Reduction(), lambda r: True) == ()


def test_if_all_matter_all_stay() -> None:
    assert fewer_actions(range(5), Reduction(), lambda r: r.actions == (0, 1, 2, 3, 4)) == (0, 1, 2, 3, 4)


def test_as_few_nodes_as_will_do() -> None:
    assert fewer_nodes(9, Reduction(), lambda r: (r.size or 9) >= 4).size == 4
    assert fewer_nodes(9, Reduction(), lambda r: False).size is None


def test_only_the_faults_that_matter_stay() -> None:
    weather = draw(3).weather
    found = finer_weather(weather, Reduction(), lambda r: "duplicate" not in r.mild)
    assert "duplicate" not in found.mild
    assert {"corrupt", "fail_training"} <= set(found.mild)


def test_a_run_is_shrunk_to_what_breaks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_kept", lambda s, event: Publish("forgotten", "not saved"))
    failure = play(draw(0))
    assert failure is not None
    small = shrink(failure)
    assert (small.size, small.actions) == (2, ())  # the rounds at the end are enough for it
    again = play(small.of(draw(0)))
    assert again is not None
    assert again.kind == failure.kind


def test_another_failure_is_not_taken_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(schedule: Schedule) -> Failure:
        return Failure(schedule, "something else" if len(schedule.actions) < 3 else "n01 went back to round 3")

    monkeypatch.setattr(shrinking, "play", other)
    found = shrink(other(draw(1)))
    assert found.actions is not None
    assert len(found.actions) == 3


def test_it_takes_no_more_runs_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Schedule] = []

    def noted(schedule: Schedule) -> Failure:
        runs.append(schedule)
        return Failure(schedule, "always")

    monkeypatch.setattr(shrinking, "play", noted)
    shrink(Failure(draw(1), "always"), tries=5)
    assert len(runs) == 5
