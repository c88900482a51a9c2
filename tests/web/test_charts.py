"""."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.web.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MAX_LINES,
    MAX_ROUNDS,
    RIGHT,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    TOP,
    WIDTH,
    ChartSeries,
    accuracy_chart,
    figure_chart,
    points_of,
    spark_path,
)

POINTS = st.dictionaries(st.integers(0, 10**6), st.floats(0, 1), min_size=1, max_size=150)


def test_a_chart_puts_rounds_and_accuracies_where_they_belong() -> None:
    chart = accuracy_chart([ChartSeries("a", ((0, 0.5), (1, 0.75), (2, 1.0)))])
    assert chart is not None
    (line,) = chart.lines
    # 640 wide with 60 and 12 at the sides: 60, 344, 628; 240 high with 12 and 30: from 210 (50 %) up to 12 (100 %)
    assert line.path == "M60 210L344 111L628 12"
    assert line.dots == (("60", "210"), ("344", "111"), ("628", "12"))
    assert (line.name, line.last) == ("a", "100.00 %")
    assert [(tick.at, tick.label) for tick in chart.rounds] == [("60", "0"), ("344", "1"), ("628", "2")]
    assert [tick.label for tick in chart.levels] == ["50 %", "60 %", "70 %", "80 %", "90 %", "100 %"]
    assert [chart.levels[0].at, chart.levels[-1].at] == ["210", "12"]


@pytest.mark.parametrize("value", [0.0, 0.333, 0.5, 0.999, 1.0])
def test_a_single_round_is_a_dot_in_the_middle(value: float) -> None:
    chart = accuracy_chart([ChartSeries("a", ((7, value),))])
    assert chart is not None
    assert chart.lines[0].dots[0][0] == "344"
    assert [tick.label for tick in chart.rounds] == ["7"]


def test_a_new_numbering_takes_no_room_on_the_axis() -> None:
    begun = 10**9
    points = tuple((round, 0.5) for round in (3, 4, 5, begun, begun + 1))
    chart = accuracy_chart([ChartSeries("a", points)])
    assert chart is not None
    assert [x for x, _ in chart.lines[0].dots] == ["60", "202", "344", "486", "628"]
    assert [(tick.at, tick.label) for tick in chart.rounds] == [
        ("60", "3"),
        ("486", "1000000000"),
        ("610", "1000000001"),  # so that it is not cut at the edge
    ]
    assert re.findall(r"[ML]([\d.]+)", spark_path(points)) == ["3", "31.5", "60", "88.5", "117"]


def test_numbers_that_stand_too_close_are_left_out() -> None:
    points = tuple((round, 0.5) for round in (7, *range(10**9, 10**9 + 99)))
    chart = accuracy_chart([ChartSeries("a", points)])
    assert chart is not None
    assert [tick.label for tick in chart.rounds] == ["1000000000", "1000000098"]


def test_rounds_that_were_missed_leave_their_gap() -> None:
    chart = accuracy_chart([ChartSeries("a", ((0, 0.5), (250, 0.5), (1000, 0.5)))])
    assert chart is not None
    assert [x for x, _ in chart.lines[0].dots] == ["60", "202", "628"]


def test_without_points_there_is_no_chart() -> None:
    assert accuracy_chart([]) is None
    assert accuracy_chart([ChartSeries("a", ())]) is None


@example([dict.fromkeys(range(0, 9009, 1001), 0.5)])
@given(st.lists(POINTS, min_size=1, max_size=12))
def test_every_line_lies_inside_the_axes(found: list[dict[int, float]]) -> None:
    chart = accuracy_chart([ChartSeries("n", tuple(sorted(points.items()))) for points in found])
    assert chart is not None
    assert len(chart.lines) <= MAX_LINES
    for line in chart.lines:
        assert len(line.dots) <= MAX_ROUNDS
        for x, y in line.dots:
            assert LEFT <= float(x) <= WIDTH - RIGHT
            assert TOP - 0.1 <= float(y) <= HEIGHT - BOTTOM + 0.1
    assert 1 <= len(chart.rounds) <= 8
    assert 2 <= len(chart.levels) <= 7
    places = [float(tick.at) for tick in chart.levels]
    assert places == sorted(places, reverse=True)


@given(POINTS)
def test_a_small_line_lies_inside_its_picture(points: dict[int, float]) -> None:
    path = spark_path(sorted(points.items()))
    assert (path == "") == (len(points) < 2)
    for x, y in re.findall(r"([\d.]+) ([\d.]+)", path):
        assert 0 < float(x) < SPARK_WIDTH
        assert 0 < float(y) < SPARK_HEIGHT


def test_the_points_of_a_history_are_those_that_were_measured() -> None:
    history: list[dict[str, Any]] = [
        {"round": 2, "post": 0.5},
        {"round": 0, "post": None},
        {"round": 1, "post": 0.25},
        {"round": 3},
    ]
    assert points_of(history, "post") == ((1, 0.25), (2, 0.5))
    assert points_of([{"round": 0, "post": 7}], "post") == ()


def test_a_chart_of_figures_begins_with_zero_and_has_round_marks() -> None:
    chart = figure_chart(
        [ChartSeries("a", ((0, 0.5), (1, 1.75))), ChartSeries("b", ((0, 0.0), (1, 0.0)))], "{:g} s".format
    )
    assert chart is not None
    # up to 2 s in steps of 0.5: 1.75 s is 198 * 0.25 / 2 = 24.75 below the top at 12
    assert [(tick.at, tick.label) for tick in chart.levels][::2] == [("210", "0 s"), ("111", "1 s"), ("12", "2 s")]
    assert [(line.name, line.last) for line in chart.lines] == [("a", "1.75 s"), ("b", "0 s")]
    assert chart.lines[0].path == "M60 160.5L628 36.8"


def test_figures_that_are_all_zero_or_missing_make_no_chart() -> None:
    assert figure_chart([], str) is None
    assert figure_chart([ChartSeries("a", ((0, 0.0), (1, 0.0)))], str) is None


@given(
    st.lists(st.dictionaries(st.integers(0, 10**6), st.floats(1e-6, 1e15), min_size=1), min_size=1, max_size=12)
)
def test_every_line_of_figures_lies_inside_the_axes(found: list[dict[int, float]]) -> None:
    chart = figure_chart([ChartSeries("n", tuple(sorted(points.items()))) for points in found], str)
    assert chart is not None
    assert all(TOP - 0.1 <= float(y) <= HEIGHT - BOTTOM + 0.1 for line in chart.lines for _, y in line.dots)
    assert 2 <= len(chart.levels) <= 6
    assert (chart.levels[0].at, chart.levels[-1].at) == (str(HEIGHT - BOTTOM), str(TOP))


def test_the_points_of_a_part_are_those_that_are_figures() -> None:
    parts: list[Any] = [
        {"train": 1},
        {},
        None,
        {"train": -1},
        {"train": "1"},
        {"train": float("nan")},
        {"train": 0.5},
    ]
    history = [{"round": number, "seconds": part} for number, part in enumerate(parts)]
    assert points_of([*history, {"round": 9}], "seconds", "train") == ((0, 1.0), (6, 0.5))
