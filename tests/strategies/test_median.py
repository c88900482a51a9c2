"""The coordinate-wise median, by numbers that can be looked at."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from flnet.strategies import median
from flnet.strategies.median import middle
from tests.strategies.robust import tables, w


def test_each_number_is_the_one_in_the_middle() -> None:
    assert w(median(), [[1, 50], [2, 7], [900, -3]]) == [2, 7]


def test_of_an_even_count_it_is_the_mean_of_two() -> None:
    assert w(median(), [[1], [2], [4], [900]]) == [3]


@given(table=tables)
def test_it_is_the_median_of_numpy(table: list[list[float]]) -> None:
    np.testing.assert_allclose(middle(np.array(table)), np.median(table, axis=0), rtol=1e-15)
