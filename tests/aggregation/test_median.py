"""The coordinate-wise median, by numbers that can be looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from flnet.aggregation.median import geometric_median, median, median_weights, middle
from tests.aggregation.robust import tables, w


def test_each_number_is_the_one_in_the_middle() -> None:
    assert w(median(), [[1, 50], [2, 7], [900, -3]]) == [2, 7]


def test_of_an_even_count_it_is_the_mean_of_two() -> None:
    assert w(median(), [[1], [2], [4], [900]]) == [3]


@given(table=tables)
def test_it_is_the_median_of_numpy(table: list[list[float]]) -> None:
    np.testing.assert_allclose(middle(np.array(table)), np.median(table, axis=0), rtol=1e-15)


# The geometric median: known points, and no better point beside it.


def test_three_points_of_a_triangle_meet_in_their_fermat_point() -> None:
    result = w(geometric_median(), [[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]])
    assert result == pytest.approx([0.5, math.sqrt(3) / 6], abs=1e-6)


def test_a_majority_in_one_place_holds_it() -> None:
    assert w(geometric_median(), [[2, 2], [2, 2], [2, 2], [900, -900]]) == pytest.approx([2, 2], abs=1)


def test_no_point_near_it_has_a_smaller_sum_of_distances() -> None:
    chance = np.random.default_rng(5)
    rows = chance.normal(size=(9, 4))
    rows[0] *= 100
    result = np.array(w(geometric_median(), rows.tolist()))

    def distances(point: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(rows - point, axis=1).sum())

    assert all(
        distances(result) <= distances(result + step) + 1e-4 for step in chance.normal(size=(200, 4)) * 0.05
    )
    assert distances(result) < distances(np.mean(rows, axis=0))


def test_points_without_end_get_no_weight() -> None:
    far = math.inf
    squares = np.array([[0, 1, 1, far], [1, 0, 1, far], [1, 1, 0, far], [far, far, far, 0]])
    assert median_weights(squares) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert median_weights(np.array([[0, far], [far, 0]])) == [0.5, 0.5]
