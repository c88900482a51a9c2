"""What stands where in a report's pictures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.experiments.pictures import (
    Bar,
    Curve,
    bars_picture,
    critical_difference_picture,
    curves_picture,
    levels,
    marks,
)
from flnet.experiments.shapes import INK, Area, Line, Picture, Words, width_of

finite = st.floats(-1e6, 1e6)


def words_of(picture: Picture) -> list[str]:
    """All text, in the order in which it is drawn."""
    return [shape.text for shape in picture.shapes if isinstance(shape, Words)]


def lines_of(picture: Picture, width: float) -> list[Line]:
    """Lines of this width."""
    return [shape for shape in picture.shapes if isinstance(shape, Line) and shape.width == width]


def is_within(picture: Picture) -> bool:
    """Whether every line and area ends on the paper."""
    places = [place for shape in picture.shapes if isinstance(shape, Line | Area) for place in shape.places]
    return all(-0.01 <= x <= picture.width + 0.01 and -0.01 <= y <= picture.height + 0.01 for x, y in places)


def test_the_critical_difference_joins_those_that_do_not_differ() -> None:
    picture = critical_difference_picture("F1", ["agg0", "agg1", "agg2"], (1.8128, 2.1536, 2.0335), 0.2477)
    assert "CD = 0.2477" in words_of(picture)
    assert "agg0 (1.813)" in words_of(picture)
    bars = [line.places for line in lines_of(picture, 4)]
    assert len(bars) == 2  # agg0 with agg2, agg2 with agg1
    axis = 760 - 2 * 150
    assert bars[0][1][0] - bars[0][0][0] == pytest.approx(axis / 2 * (2.0335 - 1.8128) + 8)
    assert is_within(picture)


def test_methods_that_differ_are_not_joined() -> None:
    assert not lines_of(critical_difference_picture("F1", ["a", "b"], (1.1, 1.9), 0.15), 4)


def test_a_critical_difference_beyond_the_axis_stays_on_the_paper() -> None:
    assert is_within(critical_difference_picture("F1", ["a", "b"], (1.5, 1.5), 40.0))


def test_curves_have_their_spread_and_their_last_value() -> None:
    curve = Curve("agg0", ((1, 0.5, 0.4, 0.7), (2, 0.6, 0.55, 0.65)))
    picture = curves_picture("Accuracy", [curve, Curve("never ran", ())])
    assert [text for text in words_of(picture) if "agg" in text] == ["agg0 (0.6000)"]
    (band,) = [shape for shape in picture.shapes if isinstance(shape, Area)]
    assert len(band.places) == 4
    (line,) = [line for line in lines_of(picture, 2) if line.colour != INK]
    assert line.places[0][1] > line.places[1][1]  # more is higher up
    assert is_within(picture)


def test_curves_without_points_are_a_picture_all_the_same() -> None:
    assert is_within(curves_picture("Accuracy", []))


def test_bars_stand_beside_what_was_published() -> None:
    picture = bars_picture("F1", ["scene", "yeast"], ["ours"], [[Bar(0.5, 0.1, published=0.5)], [None]])
    (bar,) = [shape for shape in picture.shapes if isinstance(shape, Area)]
    top = min(y for _, y in bar.places)
    (mark,) = [line for line in lines_of(picture, 2) if line.colour == INK]
    assert mark.places[0][1] == pytest.approx(top)
    assert "published" in words_of(picture)
    assert is_within(picture)


@given(finite, finite)
def test_an_axis_holds_its_values_in_few_steps(one: float, other: float) -> None:
    low, high = sorted((one, other))
    bottom, top, step = levels(low, high)
    slack = 1e-6 * step
    assert bottom <= low + slack
    assert top >= high - slack
    assert 1 <= round((top - bottom) / step) <= 8


@given(st.integers(0, 1000), st.integers(0, 100_000))
def test_few_rounds_are_marked(first: int, more: int) -> None:
    found = marks(first, first + more)
    assert 1 <= len(found) <= 8 or not more
    assert all(first <= round <= first + more for round in found)


def test_a_wider_text_is_taken_for_wider() -> None:
    assert width_of("agg0, agg1") > width_of("agg0")
