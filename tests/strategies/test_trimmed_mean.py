"""The coordinate-wise trimmed mean, by numbers that can be looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from flnet.strategies import median, trimmed_mean
from tests.strategies.robust import tables, w


def test_the_largest_and_the_smallest_are_left_out() -> None:
    assert w(trimmed_mean(0.2), [[1, 8], [2, -70], [3, 10], [4, 12], [900, 9]]) == [3, 9]


def test_the_part_is_rounded_down() -> None:
    assert w(trimmed_mean(0.2), [[1], [2], [3], [6]]) == [3]  # of four, a fifth is none
    assert w(trimmed_mean(0.49), [[1], [2], [3], [600]]) == [2.5]


@given(table=tables)
def test_with_nothing_left_out_it_is_the_mean_and_with_nearly_half_the_median(table: list[list[float]]) -> None:
    slack = 1e-9 * np.abs(table).max()
    np.testing.assert_allclose(w(trimmed_mean(0), table), np.mean(table, axis=0), rtol=1e-12, atol=slack)
    np.testing.assert_allclose(w(trimmed_mean(0.49999), table), w(median(), table), rtol=1e-12, atol=slack)


@pytest.mark.parametrize("part", [-0.1, 0.5, 1.0])
def test_a_part_that_leaves_nothing_is_refused(part: float) -> None:
    with pytest.raises(ValueError, match=r"at least 0 and below 0[.]5; got"):
        trimmed_mean(part)
