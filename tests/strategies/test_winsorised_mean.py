"""The winsorised mean, by numbers that can be looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from flnet.params import PeerId, Schema
from flnet.strategies import fed_avg, median, winsorised_mean
from flnet.strategies.base import RoundStart
from tests.helpers import update
from tests.strategies.robust import merged, tables, w


def test_the_largest_and_the_smallest_count_as_the_next_ones() -> None:
    assert w(winsorised_mean(0.2), [[1], [2], [3], [4], [900]]) == [(2 + 2 + 3 + 4 + 4) / 5]


def test_the_part_is_rounded_down_but_of_three_and_more_one_is_moved() -> None:
    assert w(winsorised_mean(0.2), [[1], [2], [3], [600]]) == [2.5]
    assert w(winsorised_mean(0.2), [[1], [2], [600]]) == [2]
    assert w(winsorised_mean(0.2), [[1], [600]]) == [300.5]
    assert w(winsorised_mean(0.3), [[1], [2], [3], [4], [5], [700], [800]]) == [(3 * 3 + 4 + 3 * 5) / 7]


def test_updates_count_by_their_examples() -> None:
    there = [update(name, examples=n, w=[x]) for name, n, x in (("a", 1, 0.0), ("b", 1, 1.0), ("c", 6, 2.0))]
    there.append(update("d", examples=2, w=[50.0]))
    assert merged(winsorised_mean(), there)["w"][0] == pytest.approx((1 + 1 + 6 * 2 + 2 * 2) / 10)
    start = RoundStart(Schema.of(there[0].params), there[0].params)
    weighed = winsorised_mean().merge(None, start, there).weighed
    assert {peer: one.weight for peer, one in weighed.items()} == {"a": 0.1, "b": 0.1, "c": 0.6, "d": 0.2}
    assert weighed.keys() == {PeerId(one) for one in "abcd"}


def test_what_only_one_changes_does_not_come_in_whatever_it_weighs() -> None:
    """A backdoor: numbers that nobody else needs."""
    honest = [update(f"p{at}", examples=10, w=[1.0 + at / 10, 0.0]) for at in range(4)]
    found = merged(winsorised_mean(), [*honest, update("q", examples=1000, w=[1.1, 9.0])])["w"]
    assert found[1] == 0
    assert found[0] == pytest.approx(1.1, abs=0.01)


@given(table=tables)
def test_with_nothing_moved_it_is_the_mean_and_with_nearly_half_the_median(table: list[list[float]]) -> None:
    slack = 1e-9 * np.abs(table).max()
    np.testing.assert_allclose(w(winsorised_mean(0), table), w(fed_avg(), table), rtol=1e-12, atol=slack)
    np.testing.assert_allclose(w(winsorised_mean(0.49999), table), w(median(), table), rtol=1e-12, atol=slack)


@pytest.mark.parametrize("part", [-0.1, 0.5, 1.0])
def test_a_part_that_moves_everything_is_refused(part: float) -> None:
    with pytest.raises(ValueError, match=r"at least 0 and below 0[.]5; got"):
        winsorised_mean(part)
