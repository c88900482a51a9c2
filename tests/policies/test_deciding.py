"""Decisions on series: tables of worked rounds, and that no order of reports changes one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import Over, PeerId, Report
from flnet.policies.deciding import Decision, Progress, Score, decide, score_of
from flnet.policies.goal import Goal, NoGain, Reach

Rows = list[tuple[float, float | None]]


def reports(*accuracies: float) -> dict[PeerId, Report]:
    return {PeerId(f"n{i}"): Report(accuracy) for i, accuracy in enumerate(accuracies)}


def judged(words: str, rows: Rows, last: int = 1000) -> tuple[int, Decision]:
    """The round after which a series ends (or the last row's), and the decision there."""
    goal, progress = Goal.parse(words), Progress()
    for number, (accuracy, loss) in enumerate(rows):
        here = {PeerId("n0"): Report(accuracy, loss)}
        found = decide(goal, progress, here, number=number, by=PeerId("n0"), is_last=number + 1 >= last)
        if found.over:
            return number, found
        progress = found.progress
    return len(rows) - 1, found


def test_the_mean_of_four_nodes_reaches_an_accuracy() -> None:
    goal = Goal.parse("accuracy>=0.98")
    here = reports(0.97, 0.98, 0.985, 0.99)
    found = decide(goal, Progress(), here, number=7, by=PeerId("n0"), is_last=False)
    assert (found.over, found.words) == ("reached", "mean accuracy 0.9812 of 4 nodes reached 0.98 in round 7")
    assert (found.nodes, found.score) == (4, Score(0.98125))


def test_an_accuracy_is_reached_exactly_and_not_just_below() -> None:
    goal = Goal.parse("accuracy>=0.1")
    for count in range(1, 60):  # a plain sum of tenths drifts; the mean of equals is that number
        assert decide(goal, Progress(), reports(*[0.1] * count), number=0, by=PeerId("x"), is_last=False).over
    below = decide(goal, Progress(), reports(0.1, 0.0999999), number=0, by=PeerId("x"), is_last=False)
    assert (below.over, below.words) == (None, "accuracy>=0.1 does not hold yet")


@pytest.mark.parametrize(
    ("words", "over"),
    [("accuracy>=0.8", "reached"), ("every accuracy>=0.8", None), ("every accuracy>=0.7", "reached"),
     ("own accuracy>=0.9", "reached"), ("own accuracy>=0.91", None)],
)  # fmt: skip
def test_whose_accuracy_counts(words: str, over: str | None) -> None:
    here = reports(0.7, 0.9)
    found = decide(Goal.parse(words), Progress(), here, number=0, by=PeerId("n1"), is_last=False)
    assert found.over == over


def test_the_own_accuracy_of_a_node_that_is_gone_reaches_nothing() -> None:
    found = decide(
        Goal.parse("own accuracy>=0.1"), Progress(), reports(0.9), number=0, by=PeerId("gone"), is_last=False
    )
    assert found.over is None


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
    number, found = judged(words, [(a, None) for a in accuracies])
    assert (number, found.over) == (ends, "reached")
    assert "no gain over" in found.words


def test_the_rule_looks_at_two_falls_and_two_rises() -> None:
    losses = [1, 0.8, 0.7, 0.72, 0.75]
    falls = [0.5, 0.6, 0.7, 0.69, 0.68]
    assert judged("mlfedavg", list(zip(falls, losses, strict=True))) == (
        4,
        judged("mlfedavg", list(zip(falls, losses, strict=True)))[1],
    )
    number, found = judged("mlfedavg", list(zip(falls, losses, strict=True)))
    assert (number, found.over) == (4, "reached")
    assert found.words == (
        "mean accuracy fell and mean loss rose for the second time running, to 0.6800 and 0.7500, in round 4"
    )
    for accuracies in ([0.5, 0.6, 0.7, 0.69, 0.69], [0.5, 0.6, 0.7, 0.71, 0.7]):
        assert judged("mlfedavg", list(zip(accuracies, losses, strict=True)))[1].over is None
    assert judged("mlfedavg 0.05", list(zip(falls, losses, strict=True)))[1].over is None
    assert judged("mlfedavg", [(a, None) for a in falls])[1].over is None  # no node tells a loss


def test_the_cumulative_rule_looks_at_means_of_all_rounds_from_the_eleventh_on() -> None:
    losses: list[float | None] = [1, 0.8, 0.7, 0.72, 0.75]
    rows = list(zip([0.5, 0.6, 0.7, 0.69, 0.68], losses, strict=True))
    found = judged("mlfedavg cumulative", rows)[1]
    assert [mean.loss for mean in found.progress.means] == pytest.approx([2.5 / 3, 0.805, 0.794])
    worse: Rows = [(0.9 - 0.01 * i, 1 + 0.1 * i) for i in range(12)]
    assert judged("mlfedavg cumulative", worse)[0] == 10  # the eleventh
    assert judged("mlfedavg", worse)[0] == 2


def test_a_weaker_condition_gives_the_goal_up_and_the_bound_does() -> None:
    rows: Rows = [(0.5, None)] * 9
    number, found = judged("accuracy>=0.9, no-gain 2", rows)
    assert (number, found.over) == (2, "given_up")
    number, found = judged("accuracy>=0.9", rows, last=4)
    assert (number, found.over, found.words) == (3, "given_up", "it was the last round that was asked for")
    assert judged("accuracy>=0.5, no-gain 1", rows)[1].over == "reached"


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
    found = decide(Goal.parse(words), Progress(), here, number=3, by=PeerId("n0"), is_last=False)
    assert (found.over, why in found.words) == (over, True)


def test_a_round_of_which_nobody_reported_changes_nothing_but_the_bound() -> None:
    before = Progress(3, 0.5, 1)
    found = decide(Goal.parse("no-gain 2"), before, {}, number=3, by=PeerId("n0"), is_last=False)
    assert (found.over, found.progress, found.score) == (None, before, None)
    assert decide(Goal.parse("no-gain 2"), before, {}, number=3, by=PeerId("n0"), is_last=True).over == "given_up"


UNIT = st.floats(0, 1)
REPORT = st.builds(Report, UNIT, st.none() | st.floats(0, 1e9), st.sampled_from([None, "stopped", "reached"]))


@given(st.lists(REPORT, max_size=12), UNIT.filter(bool), st.randoms(use_true_random=False))
def test_the_order_in_which_reports_came_decides_nothing(came: list[Report], least: float, rng: Random) -> None:
    goal = Goal((Reach(least), NoGain(1, 0.01)))
    here = [(PeerId(f"n{i}"), report) for i, report in enumerate(came)]
    mixed = rng.sample(here, len(here))
    one, other = (
        decide(goal, Progress(1, 0.5), dict(x), number=1, by=PeerId("n0"), is_last=False) for x in (here, mixed)
    )
    assert one == other
    if score := score_of(dict(here)):
        assert min(r.accuracy for r in came) <= score.accuracy <= max(r.accuracy for r in came)
