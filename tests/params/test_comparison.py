"""The distance between two models: worked numbers, and what must hold for any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flnet.params.comparison import compare
from flnet.params.params import Array

ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=6), elements=st.floats(-1e3, 1e3, width=32))


def test_worked_numbers() -> None:
    one: dict[str, Array] = {"w": np.array([[3.0, 4.0]], np.float32), "b": np.array([1], np.int64)}
    other: dict[str, Array] = {"w": np.array([[4.0, 3.0]], np.float32), "b": np.array([-1], np.int64)}
    result = compare(one, other)
    b, w = result.arrays
    assert (b.name, b.numbers, b.mean, b.largest, b.cosine) == ("b", 1, 2.0, 2.0, -1.0)
    assert (w.name, w.numbers, w.mean, w.largest) == ("w", 2, 1.0, 1.0)
    assert w.cosine == pytest.approx(24 / 25)
    assert (result.total.numbers, result.total.largest) == (3, 2.0)
    assert result.total.mean == pytest.approx(4 / 3)
    assert result.total.cosine == pytest.approx(23 / 26)
    assert result.unlike == ()


def test_arrays_that_only_one_has_or_in_another_shape_are_named_and_not_compared() -> None:
    one: dict[str, Array] = {"a": np.zeros(2), "b": np.zeros((2, 3)), "c": np.ones(1)}
    other: dict[str, Array] = {"b": np.zeros((3, 2)), "c": np.ones(1), "d": np.zeros(1)}
    result = compare(one, other)
    assert [difference.name for difference in result.arrays] == ["c"]
    assert result.unlike == ("a", "b", "d")


def test_zeros_and_nothing_have_no_angle() -> None:
    result = compare({"z": np.zeros(3), "e": np.zeros(0)}, {"z": np.ones(3), "e": np.zeros(0)})
    assert [(each.name, each.mean, each.cosine) for each in result.arrays] == [("e", 0.0, None), ("z", 1.0, None)]
    assert compare({}, {}).total.numbers == 0


def test_numbers_too_large_to_be_summed_give_no_figure_instead_of_infinity() -> None:
    result = compare({"x": np.array([1e308, -1e308])}, {"x": np.array([-1e308, 1e308])})
    assert (result.total.mean, result.total.largest, result.total.cosine) == (None, None, None)


def test_an_array_longer_than_a_block_is_compared_to_its_end() -> None:
    one, other = np.ones(300_000, np.float32), np.ones(300_000, np.float32)
    other[-1] = 4.0
    result = compare({"x": one}, {"x": other}).total
    assert (result.numbers, result.largest) == (300_000, 3.0)
    assert result.mean == pytest.approx(3 / 300_000)


@given(ARRAYS)
def test_a_model_is_no_distance_from_itself(array: Array) -> None:
    result = compare({"x": array}, {"x": array}).total
    assert (result.mean, result.largest) == (0.0, 0.0)
    assert result.cosine is None or result.cosine == pytest.approx(1.0)


@given(ARRAYS, st.floats(0.5, 8, width=32))
def test_a_model_has_the_same_direction_as_its_multiple_and_the_opposite_of_its_negative(
    array: Array, factor: float
) -> None:
    for times, expected in ((factor, 1.0), (-factor, -1.0)):
        result = compare({"x": array.astype(np.float64)}, {"x": array.astype(np.float64) * times}).total
        assert result.cosine is None or result.cosine == pytest.approx(expected)
