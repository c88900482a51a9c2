"""Goals of series: what is read of them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage, JobBusy
from flnet.params.params import PeerId
from flnet.protocol.counts import MOST_EXAMPLES, Scored
from flnet.protocol.effects import Answer, CancelTimer, Evaluate, SetTimer, Train
from flnet.protocol.events import (
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
    Trained,
)
from flnet.protocol.messages import (
    MAX_ROUNDS,
    MOST_LOSS,
    Accuracy,
    AccuracyReply,
    ReportMessage,
    SeriesMessage,
    StartTraining,
)
from flnet.protocol.updates import Over, Report
from flnet.rounds.goals import (
    Decision,
    Falling,
    Goal,
    GoalProgress,
    MeanScore,
    NoGain,
    Reach,
    Within,
    decide,
    score_of,
)
from flnet.rounds.peers import Peers
from flnet.rounds.settings import publish
from flnet.rounds.steps import Phase
from flnet.rounds.stopping import GoalSeries, Stopping
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, refuses, settings
from tests.rounds.scenarios import peers_series


@pytest.mark.parametrize(
    ("words", "conditions", "plain"),
    [
        ("accuracy>=0.98", (Reach(0.98),), "accuracy>=0.98"),
        (" Mean  Accuracy >= .5 ", (Reach(0.5),), "accuracy>=0.5"),
        ("every accuracy>=1", (Reach(1.0, "every"),), "every accuracy>=1.0"),
        ("own accuracy>=9e-1", (Reach(0.9, "own"),), "own accuracy>=0.9"),
        ("no-gain 5", (NoGain(5),), "no-gain 5 0.0"),
        ("no-gain 5 0.001", (NoGain(5, 0.001),), "no-gain 5 0.001"),
        ("mlfedavg", (Falling(),), "mlfedavg 0.0"),
        ("mlfedavg 0.01 cumulative", (Falling(0.01, True),), "mlfedavg 0.01 cumulative"),
        ("accuracy>=0.9,within 60", (Reach(0.9), Within(60)), "accuracy>=0.9, within 60.0"),
    ],
)
def test_goals_are_read_as_people_write_them_and_written_so_that_they_are_read_again(
    words: str, conditions: tuple[object, ...], plain: str
) -> None:
    goal = Goal.parse(words)
    assert (goal.conditions, str(goal)) == (conditions, plain)
    assert Goal.parse(plain) == goal


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "expected conditions such as"),
        ("accuracy>0.9", "expected conditions"),
        ("accuracy>=0", "not above 0 to 1"),
        ("accuracy>=1.01", "not above 0 to 1"),
        ("no-gain 0", "not from 1 to 1e+06"),
        ("no-gain 2 1.5", "not from 0 to 1"),
        ("within 0", "not above 0"),
        ("within 1e99", "not above 0"),
        ("accuracy>=nan", "expected conditions"),
        ("accuracy>=0.9,", "expected conditions"),
        ("accuracy>=0.9, own accuracy>=0.9", "once"),
        ("accuracy>=\u0660.\u0669", "expected conditions"),
        ("x" * 201, "at most 200 characters"),
    ],
)
def test_what_is_no_goal_is_refused_in_words(words: str, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why.replace("+", r"\+")):
        Goal.parse(words)


@given(st.text(max_size=40))
def test_any_text_is_a_goal_or_refused(words: str) -> None:
    try:
        goal = Goal.parse(words)
    except InvalidMessage:
        return
    assert Goal.parse(str(goal)) == goal


def test_a_goal_is_reached_by_the_strongest_of_its_conditions() -> None:
    goal = Goal.parse("accuracy>=0.9, no-gain 2, within 60")
    assert [goal.is_aim(condition) for condition in goal.conditions] == [True, False, False]
    assert goal.seconds == 60
    assert Goal.parse("no-gain 2").is_aim(NoGain(2))
    assert Goal.parse("no-gain 2").seconds is None


# Decisions on series: tables of worked rounds, and that no order of reports changes one.


Rows = list[tuple[float, float | None]]


def reports(*accuracies: float) -> dict[PeerId, Report]:
    return {PeerId(f"n{i}"): Report(accuracy) for i, accuracy in enumerate(accuracies)}


def decided(words: str, rows: Rows, last: int = 1000) -> tuple[int, Decision]:
    """The round after which a series ends (or the last row's), and the decision there."""
    goal, progress = Goal.parse(words), GoalProgress()
    for number, (accuracy, loss) in enumerate(rows):
        here = {PeerId("n0"): Report(accuracy, loss)}
        decision = decide(goal, progress, here, number=number, by=PeerId("n0"), is_last=number + 1 >= last)
        if decision.over:
            return number, decision
        progress = decision.progress
    return len(rows) - 1, decision


def test_the_mean_of_four_nodes_reaches_an_accuracy() -> None:
    goal = Goal.parse("accuracy>=0.98")
    here = reports(0.97, 0.98, 0.985, 0.99)
    decision = decide(goal, GoalProgress(), here, number=7, by=PeerId("n0"), is_last=False)
    assert (decision.over, decision.words) == (
        "reached",
        "mean accuracy 0.9812 of 4 nodes reached 0.98 in round 7",
    )
    assert (decision.nodes, decision.score) == (4, MeanScore(0.98125))


def test_an_accuracy_is_reached_exactly_and_not_just_below() -> None:
    goal = Goal.parse("accuracy>=0.1")
    for count in range(1, 60):  # a plain sum of tenths drifts; the mean of equals is that number
        assert decide(goal, GoalProgress(), reports(*[0.1] * count), number=0, by=PeerId("x"), is_last=False).over
    below = decide(goal, GoalProgress(), reports(0.1, 0.0999999), number=0, by=PeerId("x"), is_last=False)
    assert (below.over, below.words) == (None, "accuracy>=0.1 does not hold yet")


@pytest.mark.parametrize(
    ("words", "over"),
    [("accuracy>=0.8", "reached"), ("every accuracy>=0.8", None), ("every accuracy>=0.7", "reached"),
     ("own accuracy>=0.9", "reached"), ("own accuracy>=0.91", None)],
)  # fmt: skip
def test_whose_accuracy_counts(words: str, over: str | None) -> None:
    here = reports(0.7, 0.9)
    decision = decide(Goal.parse(words), GoalProgress(), here, number=0, by=PeerId("n1"), is_last=False)
    assert decision.over == over


def test_the_own_accuracy_of_a_node_that_is_gone_reaches_nothing() -> None:
    decision = decide(
        Goal.parse("own accuracy>=0.1"), GoalProgress(), reports(0.9), number=0, by=PeerId("gone"), is_last=False
    )
    assert decision.over is None


@pytest.mark.parametrize(
    ("words", "accuracies", "ends"),
    [
        ("no-gain 2", [0.5, 0.6, 0.6, 0.6], 3),
        ("no-gain 2", [0.5, 0.6, 0.59, 0.61, 0.61, 0.6], 5),
        ("no-gain 1", [0.5, 0.4], 1),
        ("no-gain 3 0.125", [0.5, 0.5625, 0.625, 0.625, 0.75, 0.75], 3),  # creeping up is no gain over the best
        (
            "no-gain 2 0.125",
            [0.5, 0.625, 0.75, 0.75, 0.75],
            4,
        ),  # 0.625 is exactly 0.125 more: no gain; 0.75 is one
    ],
)
def test_no_gain(words: str, accuracies: list[float], ends: int) -> None:
    number, decision = decided(words, [(a, None) for a in accuracies])
    assert (number, decision.over) == (ends, "reached")
    assert "no gain over" in decision.words


def test_the_rule_looks_at_two_falls_and_two_rises() -> None:
    losses = [1, 0.8, 0.7, 0.72, 0.75]
    falls = [0.5, 0.6, 0.7, 0.69, 0.68]
    number, decision = decided("mlfedavg", list(zip(falls, losses, strict=True)))
    assert (number, decision.over) == (4, "reached")
    assert decision.words == (
        "mean accuracy fell and mean loss rose for the second time running, to 0.6800 and 0.7500, in round 4"
    )
    for accuracies in ([0.5, 0.6, 0.7, 0.69, 0.69], [0.5, 0.6, 0.7, 0.71, 0.7]):
        assert decided("mlfedavg", list(zip(accuracies, losses, strict=True)))[1].over is None
    assert decided("mlfedavg 0.05", list(zip(falls, losses, strict=True)))[1].over is None
    assert decided("mlfedavg", [(a, None) for a in falls])[1].over is None  # no node tells a loss


def test_the_cumulative_rule_looks_at_means_of_all_rounds_from_the_eleventh_on() -> None:
    losses: list[float | None] = [1, 0.8, 0.7, 0.72, 0.75]
    rows = list(zip([0.5, 0.6, 0.7, 0.69, 0.68], losses, strict=True))
    decision = decided("mlfedavg cumulative", rows)[1]
    assert [mean.loss for mean in decision.progress.means] == pytest.approx([2.5 / 3, 0.805, 0.794])
    worse: Rows = [(0.9 - 0.01 * i, 1 + 0.1 * i) for i in range(12)]
    assert decided("mlfedavg cumulative", worse)[0] == 10  # the eleventh
    assert decided("mlfedavg", worse)[0] == 2


def test_a_weaker_condition_gives_the_goal_up_and_the_bound_does() -> None:
    rows: Rows = [(0.5, None)] * 9
    number, decision = decided("accuracy>=0.9, no-gain 2", rows)
    assert (number, decision.over) == (2, "given_up")
    number, decision = decided("accuracy>=0.9", rows, last=4)
    assert (number, decision.over, decision.words) == (3, "given_up", "it was the last round that was asked for")
    assert decided("accuracy>=0.5, no-gain 1", rows)[1].over == "reached"


@pytest.mark.parametrize(
    ("words", "said", "over", "why"),
    [
        ("accuracy>=0.9", "stopped", "given_up", "a person stopped the series at n1"),
        ("accuracy>=0.9", "reached", "reached", "n1 found the goal reached before"),
        ("accuracy>=0.9", "given_up", "given_up", "n1 found before that the goal is to be given up"),
        ("accuracy>=0.9, within 60", "deadline", "given_up", "60 s are over at n1"),
        ("within 60", "deadline", "reached", "60 s are over at n1"),
        ("accuracy>=0.9", "deadline", None, "does not hold yet"),
    ],
)
def test_what_one_node_says_ends_the_series_for_all(words: str, said: Over, over: str | None, why: str) -> None:
    here = {
        PeerId("n0"): Report(0.5),
        PeerId("n1"): Report(0.5, None, said),
        PeerId("n2"): Report(0.5, None, said),
    }
    decision = decide(Goal.parse(words), GoalProgress(), here, number=3, by=PeerId("n0"), is_last=False)
    assert (decision.over, why in decision.words) == (over, True)


def test_a_round_of_which_nobody_reported_changes_nothing_but_the_bound() -> None:
    before = GoalProgress(3, 0.5, 1)
    decision = decide(Goal.parse("no-gain 2"), before, {}, number=3, by=PeerId("n0"), is_last=False)
    assert (decision.over, decision.progress, decision.score) == (None, before, None)
    assert decide(Goal.parse("no-gain 2"), before, {}, number=3, by=PeerId("n0"), is_last=True).over == "given_up"


UNIT = st.floats(0, 1)
REPORT = st.builds(Report, UNIT, st.none() | st.floats(0, 1e9), st.sampled_from([None, "stopped", "reached"]))


@given(st.lists(REPORT, max_size=12), UNIT.filter(bool), st.randoms(use_true_random=False))
def test_the_order_in_which_reports_came_decides_nothing(came: list[Report], least: float, rng: Random) -> None:
    goal = Goal((Reach(least), NoGain(1, 0.01)))
    here = [(PeerId(f"n{i}"), report) for i, report in enumerate(came)]
    mixed = rng.sample(here, len(here))
    decision, other = (
        decide(goal, GoalProgress(1, 0.5), dict(x), number=1, by=PeerId("n0"), is_last=False)
        for x in (here, mixed)
    )
    assert decision == other
    if score := score_of(dict(here)):
        assert min(r.accuracy for r in came) <= score.accuracy <= max(r.accuracy for r in came)


# --- By which accuracy a series that ends when accuracy falls is judged: on validation rows, where one is told.


VALIDATED = {"validation_accuracy": 0.7, "validation_loss": 0.25}


@pytest.mark.parametrize(
    ("until", "before", "after", "accuracy"),
    [
        ("mlfedavg", VALIDATED, {}, 0.7),
        ("mlfedavg cumulative, within 600", VALIDATED, {}, 0.7),
        ("mlfedavg", {"validation_loss": 0.25}, {}, 0.5),
        ("mlfedavg", {**VALIDATED, "validation_accuracy": 7.0}, {}, 0.5),
        ("mlfedavg", {}, {"loss": 0.25}, 0.5),
        ("accuracy>=0.9, mlfedavg", VALIDATED, {}, 0.5),
        ("no-gain 3", VALIDATED, {}, 0.5),
    ],
)
def test_what_is_reported(until: str, before: dict[str, float], after: dict[str, float], accuracy: float) -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=until))
    assert bench.job.key is not None
    bench.hear(Trained(bench.job.key, params(w=(2, 4)), 1, 0.5, metrics=before))
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.5, metrics=after))
    split: Literal["validation"] | None = "validation" if accuracy == 0.7 else None
    assert bench.said(Accuracy).report == ReportMessage(accuracy=accuracy, loss=0.25, split=split)
    assert bench.job.held.accuracy == 0.5  # what people see stays what was measured on test rows


@pytest.mark.parametrize("until", ["accuracy>=0.9", "no-gain 3", "accuracy>=0.9, mlfedavg"])
def test_a_goal_is_decided_by_validation_rows_where_there_are_some(until: str) -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=until))
    assert bench.job.key is not None
    bench.hear(Trained(bench.job.key, params(w=(2, 4)), 1, 0.5))
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    effect = bench.one(Evaluate)
    assert effect.validates and effect.split == "test"
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.5, 10, validation=Scored(0.95, 20, 19)))
    said = bench.said(Accuracy)
    assert said.report == ReportMessage(accuracy=0.95, examples=20, right=19, split="validation")
    # Test rows, as before.
    assert said.accuracy == 0.5 and said.measured is not None and said.measured.examples == 10


def test_without_a_goal_validation_rows_cost_nothing() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(1))
    assert bench.job.key is not None
    bench.hear(Trained(bench.job.key, params(w=(2, 4)), 1, 0.5))
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    assert not bench.one(Evaluate).validates


@pytest.mark.parametrize(
    ("splits", "rows"),
    [(["test"] * 2, "test"), (["validation"] * 2, "validation"), (["validation", "test"], "mixed")],
)
def test_a_decision_says_which_rows_decided(splits: list[Any], rows: str) -> None:
    reports = {
        PeerId(name): Report(0.5, examples=10, right=5, split=split)
        for name, split in zip("ab", splits, strict=True)
    }
    decision = decide(
        Goal.parse("accuracy>=0.9"), GoalProgress(), reports, number=0, by=PeerId("a"), is_last=False
    )
    assert decision.view()["rows"] == rows and decision.view()["basis"] == "counts"


# --- What is kept of a series survives the way over the wire, to the last bit.


SCORE = st.builds(MeanScore, UNIT, st.none() | st.floats(-1e6, 1e6))
PROGRESS = st.builds(
    GoalProgress,
    st.integers(0, 1000),
    st.none() | UNIT,
    st.integers(0, 1000),
    st.lists(SCORE, max_size=3).map(tuple),
    st.builds(MeanScore, st.floats(0, 1000), st.none() | st.floats(-1e6, 1e6)),
)


LOSSES = st.sampled_from([-MOST_LOSS, 0.0, MOST_LOSS])
AT_BOUNDS = st.builds(
    SeriesMessage,
    by=st.just("a"),
    first=st.just(0),
    until=st.sampled_from(["accuracy>=1", "no-gain 5", "mlfedavg 0 cumulative", "mlfedavg"]),
    rounds=st.just(MAX_ROUNDS),
    counted=st.sampled_from([0, MAX_ROUNDS]),
    best=st.sampled_from([None, 0.0, 1.0]),
    stale=st.sampled_from([0, MAX_ROUNDS]),
    means=st.lists(st.tuples(UNIT, st.none() | LOSSES), max_size=3).map(tuple),
    total_accuracy=st.sampled_from([0.0, float(MAX_ROUNDS)]),
    total_loss=st.sampled_from([None, 0.0, -MOST_LOSS * MAX_ROUNDS, MOST_LOSS * MAX_ROUNDS]),
)
STATED = st.builds(
    ReportMessage,
    accuracy=st.sampled_from([0.0, 0.5, 1.0]),
    loss=st.none() | LOSSES,
    examples=st.sampled_from([None, 0, 1, MOST_EXAMPLES]),
)


@given(AT_BOUNDS, st.lists(st.lists(STATED, min_size=1, max_size=9), min_size=1, max_size=4))
def test_whatever_peers_may_state_the_next_start_can_state_what_follows(
    start: SeriesMessage, rounds: list[list[ReportMessage]]
) -> None:
    series, progress = GoalSeries.read(start)
    for number, told in enumerate(rounds):
        heard = {
            PeerId(f"n{place}"): Report(one.accuracy, one.loss, one.over, one.examples, one.right)
            for place, one in enumerate(told)
        }
        made = decide(series.goal, progress, heard, number=number, by=PeerId("a"), is_last=False)
        assert json.dumps(made.view(), allow_nan=False)
        read = SeriesMessage.model_validate_json(series.message(made.progress).model_dump_json(by_alias=True))
        again, progress = GoalSeries.read(read)
        assert again.message(progress) == read


SETTINGS, PEERS = settings("a"), Peers()


def none(**fields: Any) -> Stopping:
    """A job that never had a series, but for these fields."""
    return Stopping(SETTINGS, PEERS, publish, **fields)


@given(PROGRESS)
def test_progress_comes_over_the_wire_as_it_was(progress: GoalProgress) -> None:
    series = GoalSeries(PeerId("a"), 3, Goal.parse("mlfedavg 0.001 cumulative, within 1e3"), 30)
    message = series.message(progress)
    read = SeriesMessage.model_validate_json(message.model_dump_json(by_alias=True))
    assert GoalSeries.read(read) == (series, progress)


def test_without_a_series_nothing_is_said() -> None:
    stopping = none(reports={PeerId("a"): Report(0.5)})
    assert (stopping.message(), stopping.report(), stopping.view(3)) == (None, None, None)


def test_a_goal_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        GoalSeries.read(SeriesMessage(by="a", first=0, until="bliss", rounds=1))


@given(PROGRESS, st.booleans(), st.sampled_from([None, "stopped", "deadline"]))
def test_a_series_under_way_is_kept_as_it_was(progress: GoalProgress, company: bool, over: Over | None) -> None:
    series = GoalSeries(PeerId("a"), 3, Goal.parse("every accuracy>=0.5, within 1e3"), 30)
    before = none(series=series, progress=progress, company=company, over=over)
    assert before.read(json.loads(json.dumps(before.kept()))) == before


def test_how_a_series_ended_is_kept() -> None:
    series, progress = GoalSeries(PeerId("a"), 3, Goal.parse("accuracy>=0.5"), 30), GoalProgress(2, 0.4, 1)
    told = Decision("given_up", "it was the last round", progress, MeanScore(0.4, 2.0), 3)
    ended: tuple[tuple[PeerId, int], Over] = (series.name, "given_up")
    before = none(progress=progress, ended=ended, decision=told, decided=(series, 5, "given_up"))
    after = before.read(json.loads(json.dumps(before.kept())))
    assert after == before
    assert after.view(9) == before.view(9)
    assert none().kept() is None
    assert before.read(None) == before.none()


@pytest.mark.parametrize("changes", [{"series": {"by": "a"}}, {"ended": [1]}, {"decision": {}}, {"decided": 5}])
def test_what_is_damaged_is_noticed(changes: dict[str, object]) -> None:
    before = none(series=GoalSeries(PeerId("a"), 3, Goal.parse("accuracy>=0.5"), 30))
    kept = before.kept()
    assert kept is not None
    with pytest.raises((InvalidMessage, KeyError, TypeError, ValueError)):
        before.read({**kept, **changes})


# --- A series with a goal on one node and on a few: who decides what, who starts the next round, what a stop does.


GOAL = "accuracy>=0.9"


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
    digest = bench.job.held.current.shared.digest if bench.job.held.model else None
    for name, accuracy in zip("ac", accuracies, strict=True):
        bench.hear(ClaimReceived(replace(claim(name, number, accuracy), digest=digest, params=None)))


# --- the beginning


def test_a_start_says_the_goal_and_an_accuracy_the_report() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="accuracy>=0.9, within 60"))
    message = bench.said(StartTraining).series
    assert message == SeriesMessage(by="b", first=0, until="accuracy>=0.9, within 60.0", rounds=5)
    assert (
        bench.published["goal_set"] == "rounds go on until accuracy>=0.9, within 60.0, 5 at most (asked for at b)"
    )
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
    assert bench.job.view().as_json()["goal"] is None


def test_what_is_no_goal_is_refused_and_so_is_a_second_series() -> None:
    refuses(Bench(), RoundTriggered(3, until="more"), InvalidMessage)
    bench = pursuing()
    refusal = refuses(bench, RoundTriggered(3, until="no-gain 2"), JobBusy)
    assert "accuracy>=0.9 are under way, asked for at b" in str(refusal)


# --- the end of a round


def test_a_goal_that_is_not_reached_leads_to_the_next_round_at_once() -> None:
    bench = pursuing()
    claims(bench, 0, 0.5, 0.75)
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "b"))
    message = bench.said(StartTraining).series
    assert message is not None
    mean = pytest.approx(1.75 / 3)
    assert [message.counted, message.best, *message.means[0]] == [1, mean, mean, None]


def test_a_goal_that_is_reached_ends_the_series_with_the_figures() -> None:
    bench = pursuing(accuracy=0.9)
    claims(bench, 0, 0.9, 0.9)
    assert bench.phase is Phase.IDLE
    assert bench.published["goal_reached"] == (
        "accuracy>=0.9: reached after 1 of at most 5 rounds: "
        "mean accuracy 0.9000 of 3 nodes reached 0.9 in round 0"
    )
    view = bench.job.view().as_json()["goal"]
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
    assert bench.published["goal_given_up"].endswith(
        "2 of at most 2 rounds: it was the last round that was asked for"
    )


def test_a_report_counts_and_not_what_was_adopted_since_and_the_first_word_counts() -> None:
    bench = pursuing(accuracy=0.9)
    first = replace(claim("a", accuracy=0.91), report=Report(0.5))
    bench.hear(ClaimAnswered(first))
    bench.hear(ClaimReceived(replace(first, report=Report(1.0))))
    assert bench.job.series.stopping.reports[PeerId("a")] == Report(0.5)


# --- who starts the next round


def test_who_did_not_start_the_last_round_waits_its_turn() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    assert (bench.phase, bench.one(SetTimer)) == (Phase.IDLE, SetTimer("goal:next", 3.0))
    bench.hear(TimerFired("goal:next"))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "b"))
    message = bench.said(StartTraining).series
    assert message is not None
    assert (message.by, message.first, message.counted) == ("a", 0, 1)


def test_a_start_that_comes_in_time_ends_the_waiting() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    message = bench.job.series.stopping.message()
    bench.hear(asked("a", 1, series=message))
    assert CancelTimer("goal:next") in bench.effects
    assert bench.hear(TimerFired("goal:next")) == []
    assert bench.job.key == key(1)


def test_the_next_in_turn_starts_as_soon_as_the_first_is_lost() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(PeerLost(PeerId("a"), "gone"))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "b"))


def test_who_lost_all_others_waits_for_them_and_then_gives_up_for_itself_alone() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    message = bench.job.series.stopping.message()
    bench.hear(PeerLost(PeerId("a"), "gone"))
    assert bench.one(SetTimer) == SetTimer("goal:next", 36.0)
    bench.hear(TimerFired("goal:next"))
    assert "no other node has been reachable for 36 s" in bench.published["goal_given_up"]
    bench.hear(asked("a", 1, series=message))
    assert (bench.phase, bench.job.series.stopping.over) == (Phase.TRAINING, None)


def test_progress_that_a_start_brings_counts_more_than_the_own() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    message = bench.job.series.stopping.message()
    assert message is not None
    bench.hear(asked("a", 1, series=message.model_copy(update={"best": 0.75, "stale": 4, "counted": 7})))
    progress = bench.job.series.stopping.progress
    assert (progress.best, progress.stale, progress.counted) == (0.75, 4, 7)


def test_a_series_that_this_node_holds_for_over_ends_with_the_round_that_somebody_still_starts() -> None:
    bench = Bench(peers=["a"])
    peers_series(bench)
    message = bench.job.series.stopping.message()
    bench.hear(SeriesStopped())
    assert "a person stopped the series at b" in bench.published["goal_given_up"]
    assert bench.hear(TimerFired("goal:next")) == []
    bench.hear(asked("a", 1, series=message))
    assert bench.job.series.stopping.series is not None
    bench.train()
    bench.hear(came("a", 1))
    bench.average()
    bench.measure()
    report = bench.said(Accuracy).report
    assert report is not None
    assert report.over == "stopped"
    bench.hear(TimerFired("exchange:1:a"))
    assert [bench.phase, bench.job.view().as_json()["goal"]["state"]] == [Phase.IDLE, "given_up"]


def test_a_goal_of_a_kind_that_is_not_known_here_keeps_nobody_from_training() -> None:
    bench = Bench()
    bench.hear(asked("a", series=SeriesMessage(by="a", first=0, until="bliss", rounds=3)))
    assert (len(bench.all(Train)), bench.job.series.stopping.series) == (1, None)
    assert "goal_unknown" in bench.published


@pytest.mark.parametrize("first", [1, 5, 2**53 - 1])
def test_a_series_that_is_said_to_begin_later_is_not_followed_and_locks_nobody_out(first: int) -> None:
    bench = Bench()
    bench.hear(asked("a", series=SeriesMessage(by="a", first=first, until=GOAL, rounds=3)))
    assert (len(bench.all(Train)), bench.job.series.stopping.series) == (1, None)
    assert f"it begins later, with round {first}" in bench.published["goal_unknown"]


@pytest.mark.parametrize("loss", [MOST_LOSS, -MOST_LOSS])
def test_a_loss_at_the_bound_jams_no_series(loss: float) -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="accuracy>=0.9"))
    for number in range(3):
        on(bench, number, 0.5)
        digest = bench.job.held.current.shared.digest
        for name in "ac":
            said = replace(claim(name, number, 0.5), report=Report(0.5, loss, None, MOST_EXAMPLES))
            bench.hear(ClaimReceived(replace(said, digest=digest, params=None)))
    assert bench.job.number == 3 and bench.job.view().as_json()["goal"]["state"] == "open"
    bench.hear(SeriesStopped())


def test_of_two_series_that_of_the_round_that_is_entered_stays() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(asked("a", series=SeriesMessage(by="a", first=0, until="no-gain 2", rounds=3)))
    assert "it gave way to that of a" in bench.published["goal_given_up"]
    assert bench.job.view().as_json()["goal"]["by"] == "a"


# --- stops, pauses, time


def test_a_stop_in_a_round_reaches_all_with_its_accuracy() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(SeriesStopped())
    assert bench.published == {
        "series_stopped": "the series until accuracy>=0.9 ends on all nodes with the open round"
    }
    on(bench, 0, 0.5)
    report = bench.said(Accuracy).report
    assert report is not None
    assert report.over == "stopped"
    claims(bench, 0, 0.5, 0.5)
    assert bench.phase is Phase.IDLE
    assert "a person stopped the series at b" in bench.published["goal_given_up"]


def test_a_stop_before_the_first_round_of_a_series_ends_it_at_once() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(RoundTriggered(5, until=GOAL))  # it waits for the average in progress
    bench.hear(SeriesStopped())
    assert (bench.job.series.stopping.series, bench.job.series.pending) == (None, None)


def test_time_that_is_over_is_told_with_the_next_accuracy() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(5, until="accuracy>=0.9, within 60"))
    bench.hear(TimerFired("goal:deadline"))
    assert "goal_deadline" in bench.published
    on(bench, 0, 0.5)
    claims(bench, 0, 0.5, 0.5)
    assert "60 s are over at b" in bench.published["goal_given_up"]
    assert bench.hear(TimerFired("goal:deadline")) == []


def test_a_paused_node_starts_no_round_of_a_series_until_it_is_resumed() -> None:
    bench = pursuing()
    bench.hear(Paused())
    claims(bench, 0, 0.5, 0.5)
    assert bench.phase is Phase.IDLE
    bench.hear(Resumed())
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "b"))


def test_who_does_not_know_of_the_series_reports_only_to_who_does() -> None:
    bench = Bench().through_average()
    for asking, said in ((None, None), (Report(0.1), ReportMessage(accuracy=0.8))):
        bench.hear(ClaimReceived(replace(claim("a", accuracy=0.1), report=asking)))
        message = bench.one(Answer).message
        assert isinstance(message, AccuracyReply)
        assert message.report == said
