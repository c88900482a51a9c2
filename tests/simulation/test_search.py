"""The search for failing schedules: running many of them, shrinking a failure, replaying it, the command line."""

from __future__ import annotations

import gc

import pytest

from flnet.errors import IllegalStep
from flnet.simulation import playback, search
from flnet.simulation.__main__ import main
from flnet.simulation.schedule import Reduction, Schedule, draw
from flnet.simulation.search import (
    Failure,
    Options,
    broken_by,
    command,
    fewer_actions,
    fewer_faults,
    fewer_nodes,
    play,
    replay,
    shrink,
)
from tests.simulation.helpers import forget_updates, seeds

PART = 10  # schedules in one test, to see progress


@pytest.mark.parametrize("part", seeds(1, 50))
def test_no_schedule_breaks_a_mesh(part: int) -> None:
    broken = broken_by(range(part * PART, (part + 1) * PART))
    assert [f"python -m flnet.simulation --replay {f.schedule.seed}: {f.reason}" for f in broken] == []


@pytest.mark.parametrize("part", seeds(1, 40))
def test_no_schedule_breaks_a_mesh_whose_models_are_downloaded_from_all_that_have_them(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("download", "starting_model"):
        monkeypatch.setattr(f"flnet.rounds.{module}.LARGE_BYTES", 0)
    broken = broken_by(range(3000 + part * 5, 3005 + part * 5))
    assert [f"{failure.schedule.seed}: {failure.reason}" for failure in broken] == []


@pytest.mark.parametrize("part", seeds(1, 8))
def test_no_schedule_breaks_an_asynchronous_mesh(part: int) -> None:
    assert broken_by(range(part * PART, (part + 1) * PART), asynchronous=True) == []


@pytest.mark.parametrize("part", seeds(1, 50))
def test_no_schedule_breaks_a_mesh_where_claims_are_signed(part: int) -> None:
    broken = broken_by(range(part * PART, (part + 1) * PART), keyed=True)
    assert [f"python -m flnet.simulation --keyed --replay {f.schedule.seed}: {f.reason}" for f in broken] == []


@pytest.mark.parametrize("seed", [492, 647, 679, 2156, 24224, 24527, 24791, 25216, 143769, 149298])
def test_schedules_that_once_broke_a_mesh_do_so_no_more(seed: int) -> None:
    assert play(draw(seed)) is None


@pytest.mark.parametrize("seed", [20116, 20506, 30392])
def test_schedules_that_once_broke_an_asynchronous_mesh_do_so_no_more(seed: int) -> None:
    """A lost notice counted as no reply to the next request; a reply to an older notice hid a newer version."""
    assert play(Reduction(asynchronous=True).of(draw(seed))) is None


def test_a_disk_that_is_still_broken_when_all_faults_end_is_waited_for() -> None:
    assert play(draw(99)) is None


def test_equal_schedules_give_equal_runs() -> None:
    def events(seed: int) -> list[tuple[float, str, str]]:
        lines: list[tuple[float, str, str]] = []
        play(draw(seed), lambda at, node, text: lines.append((at, node, text)))
        return lines

    assert events(4) == events(4) != events(5)


def test_an_exception_is_a_failure_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(self: object) -> None:
        raise IllegalStep("no such step")

    monkeypatch.setattr(playback.Play, "_clean_rounds", bug)
    failure = play(draw(1))
    assert failure is not None
    assert failure.reason == "IllegalStep: no such step"


def test_the_kind_of_a_failure_has_no_names_and_no_numbers() -> None:
    failures = [
        Failure(draw(1), f"{node} went back to round {number}") for node, number in (("n01", 3), ("n04", 12))
    ]
    assert {failure.kind for failure in failures} == {"went back to round"}
    assert Failure(draw(1), "n01 counts ['n02']: twice").kind == "counts"


def test_it_stops_after_so_many_failures_and_turns_the_collector_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "play", lambda schedule: Failure(schedule, "always"))
    before = gc.get_freeze_count()
    assert before > 0  # what tests/conftest.py set aside
    assert [failure.schedule.seed for failure in broken_by(range(10), most=3)] == [0, 1, 2]
    assert gc.isenabled()
    assert gc.get_freeze_count() > before / 2


# Shrinking.


def test_actions_that_do_not_matter_are_dropped() -> None:
    runs: list[tuple[int, ...]] = []

    def fails(reduction: Reduction) -> bool:
        assert reduction.actions is not None
        runs.append(reduction.actions)
        return {3, 11} <= set(reduction.actions)

    assert fewer_actions(range(16), Reduction(), fails) == (3, 11)
    assert len(runs) < 40
    assert fewer_actions(range(16), Reduction(), lambda r: True) == ()
    assert fewer_actions(range(5), Reduction(), lambda r: r.actions == (0, 1, 2, 3, 4)) == (0, 1, 2, 3, 4)


def test_nodes_and_faults_that_do_not_matter_are_dropped() -> None:
    assert fewer_nodes(9, Reduction(), lambda r: (r.size or 9) >= 4).size == 4
    assert fewer_nodes(9, Reduction(), lambda r: False).size is None
    best = fewer_faults(draw(3).faults, Reduction(), lambda r: "duplicate" not in r.mild)
    assert "duplicate" not in best.mild
    assert {"corrupt", "fail_training"} <= set(best.mild)


def test_another_failure_is_not_taken_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(schedule: Schedule) -> Failure:
        return Failure(schedule, "something else" if len(schedule.actions) < 3 else "n01 went back to round 3")

    monkeypatch.setattr(search, "play", other)
    best = shrink(other(draw(1)))
    assert best.actions is not None
    assert len(best.actions) == 3


def test_shrinking_takes_no_more_runs_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Schedule] = []

    def recorded(schedule: Schedule) -> Failure:
        runs.append(schedule)
        return Failure(schedule, "always")

    monkeypatch.setattr(search, "play", recorded)
    shrink(Failure(draw(1), "always"), tries=5)
    assert len(runs) == 5


# The commands.


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_prints_its_progress(jobs: int) -> None:
    lines: list[str] = []
    assert search.search(Options(2, seed=7, jobs=jobs), lines.append) == 0
    assert lines[-1].startswith("2 of 2 schedules, 0 broken, ")


def test_a_failure_is_shrunk_and_printed_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_updates(monkeypatch)
    lines: list[str] = []
    assert search.search(Options(3, most=1), lines.append) >= 1
    assert lines[0].startswith("seed 0 breaks: ")
    assert "which is not on its disk" in lines[0]
    assert "2 nodes" in lines[1]
    last = next(line for line in lines if "--replay 0" in line)
    assert "--nodes 2 --actions none" in last  # the last rounds are enough
    assert main(last.split()[3:]) == 1


def test_a_replay_prints_what_happens_and_when() -> None:
    lines: list[str] = []
    assert replay(3, Reduction(size=2, actions=(0,)), lines.append) is None
    assert lines[0].startswith("seed 3: 2 nodes")
    assert any("round 0 of SIMULATED was started by" in line for line in lines)
    assert lines[-1] == "nothing is broken"
    assert command(8, Reduction(3, (1, 2))) == "python -m flnet.simulation --replay 8 --nodes 3 --actions 1,2"


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "3", "--nodes", "2", "--actions", "none", "--mild", "delay,duplicate"]) == 0
    assert "nothing is broken" in capsys.readouterr().out
    assert main(["--schedules", "1", "--seed", "9"]) == 0
    assert "1 of 1 schedules" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--replay", "3", "--mild", "sunshine"])
