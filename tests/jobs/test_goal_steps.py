"""A series with a goal on one node and on a few: who decides what, who starts the next round, what a stop does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.effects import Answer, CancelTimer, Evaluate, Publish, SetTimer, Train
from flnet.errors import InvalidMessage, JobBusy
from flnet.events import (
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    Paused,
    PeerLost,
    PeerSeen,
    Resumed,
    RoundTriggered,
    SeriesStopped,
    TimerFired,
)
from flnet.jobs import Phase
from flnet.messages import Accuracy, AccuracyReply, ReportMessage, SeriesMessage, StartTraining
from flnet.params import PeerId, Report
from tests.helpers import key
from tests.jobs.helpers import Bench, asked, came, claim, refuses
from tests.jobs.pursuing import peers_series

GOAL = "accuracy>=0.9"


def told(bench: Bench) -> dict[str, str]:
    return {effect.kind: effect.text for effect in bench.all(Publish)}


def pursuing(rounds: int = 5, until: str = GOAL, accuracy: float = 0.5) -> Bench:
    """In the exchange of the first round of a series that was asked for here."""
    bench = Bench()
    bench.hear(RoundTriggered(rounds, until=until))
    return on(bench, 0, accuracy)


def on(bench: Bench, number: int, accuracy: float) -> Bench:
    """From TRAINING to EXCHANGING, with the updates of both peers."""
    bench.train()
    for name in "ac":
        bench.hear(came(name, number, "b"))
    bench.average()
    bench.measure(accuracy)
    return bench


def claims(bench: Bench, number: int, *accuracies: float, w: tuple[float, float] = (5, 5)) -> None:
    """Both peers tell what they hold; b's threshold is not beaten by equal models."""
    digest = bench.state.model.shared.digest if bench.state.model else None
    for name, accuracy in zip("ac", accuracies, strict=True):
        bench.hear(ClaimReceived(replace(claim(name, number, accuracy), digest=digest, params=None)))


# --- the beginning


def test_a_start_says_the_goal_and_an_accuracy_the_report() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="accuracy>=0.9, within 60"))
    said = bench.said(StartTraining).series
    assert said == SeriesMessage(by="b", first=0, until="accuracy>=0.9, within 60.0", rounds=5)
    assert told(bench)["goal_set"] == "rounds go on until accuracy>=0.9, within 60.0, 5 at most (asked for at b)"
    assert SetTimer("goal:deadline", 60.0) in bench.effects
    on(bench, 0, 0.625)
    assert bench.said(Accuracy).report == ReportMessage(accuracy=0.625)


def test_without_a_goal_messages_are_as_they_were() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(3))
    assert "series" not in bench.said(StartTraining).fields()
    on(bench, 0, 0.5)
    assert "report" not in bench.said(Accuracy).fields()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    message = bench.one(Answer).message
    assert isinstance(message, AccuracyReply)
    assert "report" not in message.fields()
    assert bench.job.view()["goal"] is None


def test_what_is_no_goal_is_refused_and_so_is_a_second_series() -> None:
    refuses(Bench(), RoundTriggered(3, until="more"), InvalidMessage)
    bench = pursuing()
    refusal = refuses(bench, RoundTriggered(3, until="no-gain 2"), JobBusy)
    assert "accuracy>=0.9 are under way, asked for at b" in str(refusal)


# --- the end of a round


def test_a_goal_that_is_not_reached_leads_to_the_next_round_at_once() -> None:
    bench = pursuing()
    claims(bench, 0, 0.5, 0.75)
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(1, "b"))
    said = bench.said(StartTraining).series
    assert said is not None
    mean = pytest.approx(1.75 / 3)
    assert [said.counted, said.best, *said.means[0]] == [1, mean, mean, None]


def test_a_goal_that_is_reached_ends_the_series_with_the_figures() -> None:
    bench = pursuing(accuracy=0.9)
    claims(bench, 0, 0.9, 0.9)
    assert bench.phase is Phase.IDLE
    assert told(bench)["goal_reached"] == (
        "accuracy>=0.9: reached after 1 of at most 5 rounds: "
        "mean accuracy 0.9000 of 3 nodes reached 0.9 in round 0"
    )
    view = bench.job.view()["goal"]
    assert (view["state"], view["by"], view["round"], view["nodes"], view["accuracy"]) == (
        "reached",
        "b",
        0,
        3,
        0.9,
    )
    assert CancelTimer("goal:deadline") in bench.effects


def test_the_bound_gives_the_goal_up() -> None:
    bench = pursuing(rounds=2)
    claims(bench, 0, 0.5, 0.5)
    on(bench, 1, 0.5)
    claims(bench, 1, 0.5, 0.5)
    assert bench.phase is Phase.IDLE
    assert told(bench)["goal_given_up"].endswith("2 of at most 2 rounds: it was the last round that was asked for")


def test_a_report_counts_and_not_what_was_adopted_since_and_the_first_word_counts() -> None:
    bench = pursuing(accuracy=0.9)
    first = replace(claim("a", accuracy=0.91), report=Report(0.5))
    bench.hear(ClaimAnswered(first))
    bench.hear(ClaimReceived(replace(first, report=Report(1.0))))
    assert bench.state.pursuit.reports[PeerId("a")] == Report(0.5)


def test_a_loss_is_told_where_the_trainer_tells_one() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="mlfedavg"))
    bench.train()
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.5, metrics={"loss": 0.25}))
    assert bench.said(Accuracy).report == ReportMessage(accuracy=0.5, loss=0.25)


# --- who starts the next round


def test_who_did_not_start_the_last_round_waits_its_turn() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    assert (bench.phase, bench.one(SetTimer)) == (Phase.IDLE, SetTimer("goal:next", 3.0))
    bench.hear(TimerFired("goal:next"))
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(1, "b"))
    said = bench.said(StartTraining).series
    assert said is not None
    assert (said.by, said.first, said.counted) == ("a", 0, 1)


def test_a_start_that_comes_in_time_ends_the_waiting() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    said = bench.state.pursuit.said()
    bench.hear(asked("a", 1, series=said))
    assert CancelTimer("goal:next") in bench.effects
    assert bench.hear(TimerFired("goal:next")) == []
    assert bench.state.key == key(1)


def test_the_next_in_turn_starts_as_soon_as_the_first_is_lost() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(PeerLost(PeerId("a"), "gone"))
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(1, "b"))


def test_who_lost_all_others_waits_for_them_and_then_gives_up_for_itself_alone() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    said = bench.state.pursuit.said()
    bench.hear(PeerLost(PeerId("a"), "gone"))
    assert bench.one(SetTimer) == SetTimer("goal:next", 36.0)
    bench.hear(TimerFired("goal:next"))
    assert "no other node has been reachable for 36 s" in told(bench)["goal_given_up"]
    bench.hear(asked("a", 1, series=said))
    assert (bench.phase, bench.state.pursuit.over) == (Phase.TRAINING, None)


def test_progress_that_a_start_brings_counts_more_than_the_own() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    said = bench.state.pursuit.said()
    assert said is not None
    bench.hear(asked("a", 1, series=said.model_copy(update={"best": 0.75, "stale": 4, "counted": 7})))
    progress = bench.state.pursuit.progress
    assert (progress.best, progress.stale, progress.counted) == (0.75, 4, 7)


def test_a_series_that_this_node_holds_for_over_ends_with_the_round_that_somebody_still_starts() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    said = bench.state.pursuit.said()
    bench.hear(SeriesStopped())
    assert "a person stopped the series at b" in told(bench)["goal_given_up"]
    assert bench.hear(TimerFired("goal:next")) == []
    bench.hear(asked("a", 1, series=said))
    assert bench.state.pursuit.series is not None
    bench.train()
    bench.hear(came("a", 1))
    bench.average()
    bench.measure()
    report = bench.said(Accuracy).report
    assert report is not None
    assert report.over == "stopped"
    bench.hear(TimerFired("exchange:1:a"))
    assert [bench.phase, bench.job.view()["goal"]["state"]] == [Phase.IDLE, "given_up"]


def test_a_goal_of_a_kind_that_is_not_known_here_keeps_nobody_from_training() -> None:
    bench = Bench()
    bench.hear(asked("a", series=SeriesMessage(by="a", first=0, until="bliss", rounds=3)))
    assert (len(bench.all(Train)), bench.state.pursuit.series) == (1, None)
    assert "goal_unknown" in told(bench)


def test_of_two_series_that_of_the_round_that_is_entered_stays() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(asked("a", series=SeriesMessage(by="a", first=0, until="no-gain 2", rounds=3)))
    assert "it gave way to that of a" in told(bench)["goal_given_up"]
    assert bench.job.view()["goal"]["by"] == "a"


# --- stops, pauses, time


def test_a_stop_in_a_round_reaches_all_with_its_accuracy() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(SeriesStopped())
    assert told(bench) == {
        "series_stopped": "the series until accuracy>=0.9 ends on all nodes with the open round"
    }
    on(bench, 0, 0.5)
    report = bench.said(Accuracy).report
    assert report is not None
    assert report.over == "stopped"
    claims(bench, 0, 0.5, 0.5)
    assert bench.phase is Phase.IDLE
    assert "a person stopped the series at b" in told(bench)["goal_given_up"]


def test_a_stop_before_the_first_round_of_a_series_ends_it_at_once() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(RoundTriggered(5, until=GOAL))  # it waits for the average in progress
    bench.hear(SeriesStopped())
    assert (bench.state.pursuit.series, bench.state.pending) == (None, None)


def test_time_that_is_over_is_told_with_the_next_accuracy() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="accuracy>=0.9, within 60"))
    bench.hear(TimerFired("goal:deadline"))
    assert "goal_deadline" in told(bench)
    on(bench, 0, 0.5)
    claims(bench, 0, 0.5, 0.5)
    assert "60 s are over at b" in told(bench)["goal_given_up"]
    assert bench.hear(TimerFired("goal:deadline")) == []


def test_a_paused_node_starts_no_round_of_a_series_until_it_is_resumed() -> None:
    bench = pursuing()
    bench.hear(Paused())
    claims(bench, 0, 0.5, 0.5)
    assert bench.phase is Phase.IDLE
    bench.hear(Resumed())
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(1, "b"))


def test_who_does_not_know_of_the_series_reports_only_to_who_does() -> None:
    bench = Bench().through_average()
    for asking, said in ((None, None), (Report(0.1), ReportMessage(accuracy=0.8))):
        bench.hear(ClaimReceived(replace(claim("a", accuracy=0.1), report=asking)))
        message = bench.one(Answer).message
        assert isinstance(message, AccuracyReply)
        assert message.report == said
