"""The geometric median: known points, and no better point beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from flnet.strategies import geometric_median
from flnet.strategies.geometric_median import median_weights
from tests.strategies.robust import w


def test_three_points_of_a_triangle_meet_in_their_fermat_point() -> None:
    found = w(geometric_median(), [[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]])
    assert found == pytest.approx([0.5, math.sqrt(3) / 6], abs=1e-6)


def test_a_majority_in_one_place_holds_it() -> None:
    assert w(geometric_median(), [[2, 2], [2, 2], [2, 2], [900, -900]]) == pytest.approx([2, 2], abs=1)


def test_no_point_near_it_has_a_smaller_sum_of_distances() -> None:
    chance = np.random.default_rng(5)
    rows = chance.normal(size=(9, 4))
    rows[0] *= 100
    found = np.array(w(geometric_median(), rows.tolist()))

    def distances(point: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(rows - point, axis=1).sum())

    assert all(distances(found) <= distances(found + step) + 1e-4 for step in chance.normal(size=(200, 4)) * 0.05)
    assert distances(found) < distances(np.mean(rows, axis=0))


def test_points_without_end_get_no_weight() -> None:
    far = math.inf
    squares = np.array([[0, 1, 1, far], [1, 0, 1, far], [1, 1, 0, far], [far, far, far, 0]])
    assert median_weights(squares) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert median_weights(np.array([[0, far], [far, 0]])) == [0.5, 0.5]
