"""The arithmetic of the measurements: ratios, verdicts, tables."""

from __future__ import annotations

import pytest

from benchmarks.bounds import BOUNDS
from benchmarks.report import Row, percentile
from tests.test_layout import ROOT


def test_sides_that_took_turns_are_compared_turn_by_turn() -> None:
    assert Row("a", "s", [2.0, 9.0], [1.0, 3.0], "floor").ratios == [2.0, 3.0]


def test_sides_of_unlike_length_are_compared_with_the_median() -> None:
    assert Row("a", "s", [2.0, 9.0], [1.0, 3.0, 100.0], "floor").ratios == [2 / 3, 3.0]


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row("a", "s", [2.0], [1.0], "floor", bound=2.0), "held"),
        (Row("a", "s", [2.1], [1.0], "floor", bound=2.0), "missed"),
        (Row("a", "MB", [79.0], bound=80.0), "held"),
        (Row("a", "MB", [81.0], bound=80.0), "missed"),
        (Row("a", "s", [], [1.0], "floor", bound=2.0), "no figure"),
        (Row("a", "s", [1.0], [], "floor", bound=2.0), "no figure"),
        (Row("a", "s", []), "no figure"),
        (Row("a", "s", [1.0]), ""),
    ],
)
def test_a_bound_is_held_missed_or_without_a_figure(row: Row, verdict: str) -> None:
    assert row.verdict == verdict
    assert row.fields()["verdict"] == verdict


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10), (0.0, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == value


def test_the_bounds_of_rounds_are_the_goals_that_the_document_states() -> None:
    text = " ".join((ROOT / "docs" / "benchmarks.md").read_text("utf-8").split())
    goals = "{}, {} and {}".format(*(BOUNDS[f"works.{name}"] for name in ("W1", "W2", "W3")))
    assert f"The goals are {goals}" in text
    assert f"the bounds are {goals} now" in text
