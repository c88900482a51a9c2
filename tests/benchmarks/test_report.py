"""The arithmetic of the measurements: ratios, verdicts, tables."""

from __future__ import annotations

import pytest

from benchmarks.report import Row, columns, percentile, short, spark, table


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


def test_a_row_shows_medians_and_their_spread() -> None:
    cells = Row("a", "s", [1.0, 2.0, 4.0], [1.0, 1.0, 1.0], "floor", 3.0, "words").cells()
    assert cells == ("a", "2 s (1 - 4)", "1 s (1 - 1)", "floor", "2 (1 - 4)", "3", "held", "words")


def test_a_table_is_as_wide_as_its_widest_cell() -> None:
    assert columns([("a", "bbbb"), ("cc", "d")]) == "| a   | bbbb |\n| --- | ---- |\n| cc  | d    |"
    assert len(table([Row("a", "s", [1.0])]).splitlines()) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.0, "1"), (0.12345, "0.123"), (12.34, "12.3"), (1234.5, "1,234"), (1e-6, "1.0e-06")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert short(value) == text


def test_a_sparkline_goes_from_the_lowest_bar_to_the_highest() -> None:
    assert spark([0.0, 0.5, 1.0, 7.0, -1.0], 0.0, 1.0) == "▁▅██▁"
    assert spark([1.0], 1.0, 1.0) == "▁"


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10), (0.0, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == value
