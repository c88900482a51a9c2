"""How alike groupings are: the oracle O12, all pairs counted one by one, the best match against all matches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.clusters.comparing import (
    MOST_GROUPS,
    aligned,
    aligned_jaccard,
    best_match,
    pair_jaccard,
    shared_rows,
)

two_groupings = st.integers(0, 9).flatmap(
    lambda n: st.tuples(*[arrays(np.int64, n, elements=st.integers(0, 4)) for _ in range(2)])
)


def g(digits: str) -> Any:
    return np.array([int(digit) for digit in digits], np.int64)


def test_oracle_12() -> None:
    assert pair_jaccard(g("000112"), g("110002")) == pytest.approx(1 / 3, abs=1e-12)
    assert pair_jaccard(g("0011"), g("5533")) == 1
    assert pair_jaccard(g("0123"), g("3210")) == 1  # no two rows are together


def test_clusters_of_one_number_are_compared_until_they_are_renumbered() -> None:
    one, other = g("000112"), g("110002")
    # 0: {0,1,2} and {2,3,4}: 1/5; 1: {3,4} and {0,1}: 0; 2: 1
    assert aligned_jaccard(one, other) == pytest.approx((1 / 5 + 0 + 1) / 3)
    fitted = aligned(one, other)
    assert fitted.tolist() == [0, 0, 1, 1, 1, 2]
    assert aligned_jaccard(one, fitted) == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert aligned_jaccard(g("0011"), aligned(g("0011"), g("5533"))) == 1
    assert aligned_jaccard(g(""), g("")) == 1
    assert aligned(g("00"), g("01")).tolist() in ([0, 1], [1, 0])


@settings(deadline=None)
@given(two_groupings)
def test_pairs_are_those_counted_one_by_one(both: tuple[Any, Any]) -> None:
    one, other = both
    pairs = [(one[i] == one[j], other[i] == other[j]) for i, j in itertools.combinations(range(len(one)), 2)]
    together, either = sum(a and b for a, b in pairs), sum(a or b for a, b in pairs)
    assert pair_jaccard(one, other) == pytest.approx(together / either if either else 1)


@settings(deadline=None)
@given(two_groupings, st.permutations(range(5)))
def test_names_of_clusters_do_not_matter(both: tuple[Any, Any], names: list[int]) -> None:
    one, other = both
    renamed = np.array(names)[other] if len(other) else other
    assert pair_jaccard(one, renamed) == pair_jaccard(one, other)
    assert pair_jaccard(one, other) == pair_jaccard(other, one)
    best = [aligned_jaccard(one, one[...]), aligned_jaccard(other, aligned(other, renamed))]
    assert best == [1, 1]


@settings(deadline=None)
@given(st.integers(1, 5).flatmap(lambda k: arrays(np.int64, (k, k), elements=st.integers(0, 20))))
def test_the_best_match_is_the_best_of_all(gains: Any) -> None:
    rows = range(len(gains))
    found = best_match(gains)
    assert sorted(found.tolist()) == list(rows)
    reached = sum(gains[row, found[row]] for row in rows)
    assert reached == max(sum(gains[row, to[row]] for row in rows) for to in itertools.permutations(rows))


@pytest.mark.parametrize(
    "other", [g("00"), g("0001"), np.array([-1, 0, 0]), np.zeros((3, 1), np.int64), np.array([0, 0, MOST_GROUPS])]
)
def test_what_is_no_grouping_of_the_same_rows_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match=r"shapes=|groups>"):
        shared_rows(g("000"), other)
