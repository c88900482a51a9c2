"""The command that plays schedules by the thousand, and what it says of one that breaks something."""

from __future__ import annotations

import pytest

from flnet.effects import Publish
from flnet.jobs import gathering
from flnet.simulation.__main__ import main
from flnet.simulation.hunting import Options, command, hunt, replay
from flnet.simulation.schedule import Reduction


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: updates of peers are acknowledged and not saved."""
    monkeypatch.setattr(gathering, "_kept", lambda s, event: Publish("forgotten", "not saved"))


def test_a_clean_run_says_how_far_it_is() -> None:
    lines: list[object] = []
    assert hunt(Options(2, seed=7), lines.append) == 0
    assert str(lines[-1]).startswith("2 of 2 schedules, 0 broken, ")


def test_more_processes_play_the_same() -> None:
    lines: list[object] = []
    assert hunt(Options(2, seed=7, jobs=2), lines.append) == 0
    assert str(lines[-1]).startswith("2 of 2 schedules, 0 broken, ")


def test_a_failure_comes_with_its_seed_the_smallest_schedule_and_the_command_for_it(forgetful: None) -> None:
    lines: list[str] = []
    assert hunt(Options(3, most=1), lambda line: lines.append(str(line))) >= 1
    assert lines[0].startswith("seed 0 breaks: ")
    assert "which is not on its disk" in lines[0]
    assert "2 nodes" in lines[1]
    last = next(line for line in lines if "--replay 0" in line)
    assert main(last.split()[3:]) == 1


def test_a_replay_tells_what_happens_and_when() -> None:
    lines: list[str] = []
    assert replay(3, Reduction(size=2, actions=(0,)), lambda line: lines.append(str(line))) is None
    assert lines[0].startswith("seed 3: 2 nodes")
    assert any("round 0 of SIMULATED was started by" in line for line in lines)
    assert lines[-1] == "nothing is broken"


def test_the_command_that_is_printed() -> None:
    words = "python -m flnet.simulation --replay 8 --nodes 3 --actions 1,2"
    assert command(8, Reduction(3, (1, 2))) == words
