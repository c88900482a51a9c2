"""The coordinate-wise trimmed mean, by numbers that can be looked at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.aggregation.median import median
from flnet.aggregation.trimmed_mean import bounded_mean, trimmed_mean, winsorised_mean
from flnet.params.params import PeerId, Schema
from tests.aggregation.robust import merged, tables, w
from tests.helpers import params, update

Rule = Callable[[float], AggregationRule]
BOTH = pytest.mark.parametrize("rule", [trimmed_mean, winsorised_mean])


def test_the_largest_and_the_smallest_are_left_out() -> None:
    assert w(trimmed_mean(0.2), [[1, 8], [2, -70], [3, 10], [4, 12], [900, 9]]) == [3, 9]


def test_the_part_is_rounded_down() -> None:
    # Of nine, a fifth is one.
    assert w(trimmed_mean(0.2), [[1], [2], [3], [6], [7], [8], [9], [11], [600]]) == [46 / 7]
    assert w(trimmed_mean(0.49), [[1], [2], [3], [600]]) == [2.5]


@BOTH
@given(table=tables)
def test_with_no_part_it_is_the_mean_and_with_nearly_half_the_median(rule: Rule, table: list[list[float]]) -> None:
    slack = 1e-9 * np.abs(table).max()
    np.testing.assert_allclose(w(rule(0), table), np.mean(table, axis=0), rtol=1e-12, atol=slack)
    np.testing.assert_allclose(w(rule(0.49999), table), w(median(), table), rtol=1e-12, atol=slack)


# The winsorised mean, by numbers that can be looked at.


def test_the_largest_and_the_smallest_count_as_the_next_ones() -> None:
    assert w(winsorised_mean(0.2), [[1], [2], [3], [4], [900]]) == [(2 + 2 + 3 + 4 + 4) / 5]


def test_the_part_is_rounded_down_but_of_three_and_more_one_is_moved() -> None:
    assert w(winsorised_mean(0.2), [[1], [2], [3], [600]]) == [2.5]
    assert w(winsorised_mean(0.2), [[1], [2], [600]]) == [2]
    assert w(winsorised_mean(0.2), [[1], [600]]) == [300.5]
    assert w(winsorised_mean(0.3), [[1], [2], [3], [4], [5], [700], [800]]) == [(3 * 3 + 4 + 3 * 5) / 7]


def test_updates_count_by_their_examples() -> None:
    updates = [update(name, examples=n, w=[x]) for name, n, x in (("a", 1, 0.0), ("b", 1, 1.0), ("c", 6, 2.0))]
    updates.append(update("d", examples=2, w=[50.0]))
    assert merged(winsorised_mean(), updates)["w"][0] == pytest.approx((1 + 1 + 6 * 2 + 2 * 2) / 10)
    start = RoundStart(Schema.of(updates[0].params), updates[0].params)
    weighed = winsorised_mean().merge(None, start, updates).weighed
    assert {peer: each.weight for peer, each in weighed.items()} == {"a": 0.1, "b": 0.1, "c": 0.6, "d": 0.2}
    assert weighed.keys() == {PeerId(each) for each in "abcd"}


def test_what_only_one_changes_does_not_come_in_whatever_it_weighs() -> None:
    """A backdoor: numbers that nobody else needs."""
    honest = [update(f"p{at}", examples=10, w=[1.0 + at / 10, 0.0]) for at in range(4)]
    result = merged(winsorised_mean(), [*honest, update("q", examples=1000, w=[1.1, 9.0])])["w"]
    assert result[1] == 0
    assert result[0] == pytest.approx(1.1, abs=0.01)


@BOTH
@pytest.mark.parametrize("part", [-0.1, 0.5, 1.0])
def test_a_part_that_leaves_nothing_is_refused(rule: Rule, part: float) -> None:
    with pytest.raises(ValueError, match=r"at least 0 and below 0[.]5; got"):
        rule(part)


# Means within the range of the others: who counts for it, and what may be asked of numbers.


def test_a_set_without_weight_neither_counts_nor_bounds_others() -> None:
    sets = [params(w=[value], n=np.array(count)) for value, count in ((0.0, 1), (1.0, 2), (2.0, 3), (-5.0, 9))]
    specs = Schema.of(sets[0]).specs
    result = bounded_mean(list(zip(sets, (1.0, 1.0, 1.0, 0.0), strict=True)), specs)
    assert (result["w"].tolist(), result["n"].tolist()) == ([1.0], 9)
    assert bounded_mean([(each, 0.0) for each in sets[:2]], specs)["w"].tolist() == [0.5]


def test_equal_numbers_come_back_to_the_last_bit_whatever_their_weights() -> None:
    sets = [params(w=[0.1, -7.3e30])] * 5
    specs = Schema.of(sets[0]).specs
    result = bounded_mean([(each, 1 / (row + 3)) for row, each in enumerate(sets)], specs)
    assert result.digest == sets[0].digest
