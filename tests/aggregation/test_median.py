"""The coordinate-wise median, by numbers that can be looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from flnet.aggregation.median import geometric_median, median, median_weights
from flnet.params.arithmetic import middle
from tests.aggregation.robust import merged, tables, w
from tests.helpers import update


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
    assert w(geometric_median(), [[2, 2], [2, 2], [2, 2], [900, -900]]) == [2, 2]


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
    products = np.array([[1, -0.5, -0.5, far], [-0.5, 1, -0.5, far], [-0.5, -0.5, 1, far], [far, far, far, far]])
    assert median_weights(products) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert median_weights(np.full((2, 2), far)) == [0.5, 0.5]
    huge = float(np.finfo(np.float64).max)
    rows = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [huge, -huge]]
    wide = [update(f"p{place}", w=np.array(row)) for place, row in enumerate(rows)]
    assert merged(geometric_median(), wide)["w"].tolist() == pytest.approx([0, 0], abs=1e-9)


@pytest.mark.parametrize(("count", "hostile"), [(7, 3), (5, 2), (9, 4), (25, 12)])
def test_hostile_points_move_it_no_further_than_the_exact_median(count: int, hostile: int) -> None:
    """Whatever fewer than half of them hold, the result is the median that a search over all numbers finds."""
    chance = np.random.default_rng(count)
    rows = chance.normal(size=(count, 12))
    rows[-hostile:] += 1e6 * chance.normal(size=12)
    updates = [update(f"p{place:03}", w=row) for place, row in enumerate(rows)]
    result = merged(geometric_median(), updates)["w"]
    spread = float(np.linalg.norm(rows[:-hostile] - rows[:-hostile].mean(axis=0), axis=1).mean())
    assert np.linalg.norm(result - exact_median(rows)) < 1e-6 * spread


def exact_median(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The geometric median by damped Newton steps, which share nothing with the algorithm under test."""

    def cost(at: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(rows - at, axis=1).sum())

    point = np.median(rows, axis=0)
    for _ in range(200):
        apart = np.linalg.norm(rows - point, axis=1)
        units = (rows - point) / apart[:, None]
        curvature = sum((np.eye(rows.shape[1]) - np.outer(u, u)) / d for u, d in zip(units, apart, strict=True))
        step, part = np.linalg.solve(curvature, units.sum(axis=0)), 1.0
        while cost(point + part * step) > cost(point) and part > 1e-12:
            part /= 2
        point = point + part * step
        if part * float(np.linalg.norm(step)) < 1e-12:
            break
    return point


def test_a_point_that_the_others_draw_evenly_is_the_median_itself() -> None:
    """An iterate meets it; without the step of Vardi and Zhang the distance 0 would have no weight at all."""
    around = [[4.0, 0.0], [-4.0, 0.0], [0.0, 4.0], [0.0, -4.0]]
    assert w(geometric_median(), [[0.0, 0.0], *around]) == [0, 0]
    assert w(geometric_median(), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) == pytest.approx([0.21132487] * 2, abs=1e-6)


def test_two_in_one_place_hold_it_against_two_others() -> None:
    """The pull of the others, of length sqrt(2), is less than two."""
    rows = [[1.0, 1.0], [1.0, 1.0], [9.0, 1.0], [1.0, 9.0]]
    assert w(geometric_median(), rows) == pytest.approx([1, 1], abs=1e-6)
