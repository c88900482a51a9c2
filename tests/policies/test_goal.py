"""Goals of series: what is read of them, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage
from flnet.policies.goal import Falling, Goal, NoGain, Reach, Within


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
