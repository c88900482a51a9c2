"""A series of rounds outlives a restart: it goes on when the peers that were there are back."""

from __future__ import annotations

import pytest

from flnet.effects import CancelTimer, Save, Send, SetTimer, Train
from flnet.events import ClaimReceived, Paused, Resumed, RoundTriggered, SeriesStopped, TimerFired
from flnet.jobs import Phase
from flnet.jobs.goal_steps import DEADLINE
from flnet.jobs.regrouping import REGROUP
from flnet.messages import StartTraining
from tests.jobs.helpers import WAITS, came, claim
from tests.jobs.pursuing import peers_series
from tests.jobs.restarting import Lasting


def round_over(bench: Lasting, number: int, accuracy: float = 0.5) -> None:
    """The open round of b ends, with a and c."""
    bench.train()
    for name in "ac":
        bench.hear(came(name, number, "b"))
    bench.average()
    bench.measure(accuracy)
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, number, accuracy=accuracy)))


def left(bench: Lasting) -> int:
    found = bench.job.view()["rounds_left"]
    assert isinstance(found, int)
    return found


def killed_in_training() -> Lasting:
    """Round 0 of three; the node is started again, and trains once more."""
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.restart()
    assert (bench.phase, left(bench)) == (Phase.TRAINING, 2)
    assert SetTimer(REGROUP, 12 * WAITS.start) in bench.effects
    return bench


def test_the_rounds_that_a_person_asked_for_go_on_when_all_peers_are_back() -> None:
    bench = killed_in_training()
    round_over(bench, 0)
    assert (bench.phase, left(bench)) == (Phase.IDLE, 2)  # alone it would outrun the mesh
    bench.meet("a")
    assert bench.phase is Phase.IDLE
    bench.meet("c")
    assert (bench.phase, bench.state.number, left(bench)) == (Phase.TRAINING, 1, 1)
    assert CancelTimer(REGROUP) in bench.effects
    round_over(bench, 1)
    round_over(bench, 2)
    assert (bench.phase, bench.state.number, left(bench)) == (Phase.IDLE, 2, 0)


def test_who_does_not_come_back_is_waited_for_only_so_long() -> None:
    bench = killed_in_training()
    bench.meet("a")
    round_over(bench, 0)
    assert bench.phase is Phase.IDLE
    bench.hear(TimerFired(REGROUP))
    assert (bench.phase, bench.state.number) == (Phase.TRAINING, 1)
    assert bench.hear(TimerFired(REGROUP)) == []


def test_a_second_restart_before_they_are_back_waits_for_the_same_peers() -> None:
    bench = killed_in_training()
    round_over(bench, 0)
    bench.meet("a")
    bench.restart()
    assert (bench.phase, bench.state.regroups) == (Phase.IDLE, {"a", "c"})


def test_a_node_without_peers_goes_on_at_once() -> None:
    bench = Lasting(peers=[])
    bench.hear(RoundTriggered(3))
    bench.restart()
    bench.train()
    bench.average()
    bench.measure()
    assert (bench.phase, bench.state.number, left(bench)) == (Phase.TRAINING, 1, 1)


def test_what_a_person_stopped_does_not_come_back() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.hear(SeriesStopped())
    assert bench.one(Save).snapshot["rounds_left"] == 0
    bench.restart()
    assert left(bench) == 0
    assert bench.hear(SeriesStopped()) == []  # nothing to stop, and nothing to save


def test_a_pause_holds_the_rounds_back_over_a_restart() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.hear(Paused())
    bench.restart()
    for name in "ac":
        bench.meet(name)
        bench.hear(came(name, 0, "b"))
    bench.average()
    bench.measure()
    for name in "ac":
        bench.hear(ClaimReceived(claim(name)))
    assert (bench.phase, left(bench)) == (Phase.IDLE, 2)
    bench.hear(Resumed())
    assert (bench.phase, left(bench)) == (Phase.TRAINING, 1)


def test_rounds_that_were_asked_for_while_others_were_awaited_are_kept_before_the_answer() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(RoundTriggered(2))
    assert bench.phase is Phase.AVERAGING
    assert bench.saved.snapshot["rounds_left"] == 2  # the one that waits for the average, and the next one
    bench.restart()
    assert left(bench) == 2


GOAL = "accuracy>=0.9, within 600"


def killed_in_a_series(rounds: int = 5) -> tuple[Lasting, object]:
    """Between round 0 and what follows of it."""
    bench = Lasting()
    bench.hear(RoundTriggered(rounds, until=GOAL))
    round_over(bench, 0)
    goal = bench.job.view()["goal"]
    bench.restart()
    return bench, goal


def test_a_series_with_a_goal_goes_on_with_its_progress() -> None:
    bench, goal = killed_in_a_series()
    assert bench.phase is Phase.TRAINING  # of round 1, which had begun
    assert bench.job.view()["goal"] == goal
    assert SetTimer(DEADLINE, 600) in bench.effects
    round_over(bench, 1, 0.6)
    assert bench.job.view()["phase"] == "IDLE"
    for name in "ac":
        bench.meet(name)
    start = next(send.message for send in bench.all(Send) if isinstance(send.message, StartTraining))
    assert start.series is not None
    assert (start.round, start.series.counted, start.series.best, start.series.first) == (2, 2, 0.6, 0)


def test_where_it_is_anothers_turn_a_restarted_node_waits_for_it() -> None:
    bench = Lasting(peers=["a"])
    peers_series(bench)
    bench.restart()
    assert bench.all(Train) == []
    bench.meet("a")
    assert bench.phase is Phase.IDLE
    assert [timer.name for timer in bench.all(SetTimer)] == ["goal:next"]


@pytest.mark.parametrize("accuracy", [0.95, 0.5])
def test_how_a_series_ended_is_known_after_a_restart(accuracy: float) -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(1, until=GOAL))
    round_over(bench, 0, accuracy)
    goal = bench.job.view()["goal"]
    assert goal is not None
    assert goal["state"] == ("reached" if accuracy > 0.9 else "given_up")
    bench.restart()
    assert bench.job.view()["goal"] == goal
    assert bench.all(SetTimer) == []
    for name in "ac":
        bench.meet(name)
    assert bench.all(Train) == []
    assert bench.phase is Phase.IDLE


def test_a_series_that_a_person_stopped_in_an_open_round_still_ends_with_it() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(SeriesStopped())
    bench.restart()
    assert bench.state.pursuit.over == "stopped"
    round_over(bench, 0)
    goal = bench.job.view()["goal"]
    assert goal is not None
    assert (goal["state"], goal["words"]) == ("given_up", "a person stopped the series at b")
