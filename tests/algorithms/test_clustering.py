"""How good a grouping is, and how many groups: figures by hand, and against scikit-learn's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.algorithms.clustering import (
    MOST_GROUPS,
    MOST_TRIED,
    aligned,
    aligned_jaccard,
    bend,
    best_match,
    explained,
    group_findings,
    inertia,
    pair_jaccard,
    shared_rows,
    silhouette,
    silhouette_of,
    tried,
)
from flnet.trainer import fields_of
from tests.algorithms.rows import FIRST, START, heaps

CHANCE = np.random.default_rng(0)


def test_inertia_and_what_is_explained_by_hand() -> None:
    assert inertia(FIRST, START) == pytest.approx(1 / 3)  # 0, 1 and 0
    line, ends = np.array([[0.0], [2], [8], [10]]), np.array([[1.0], [9.0]])
    assert inertia(line, ends) == 1
    assert explained(line, ends) == pytest.approx(1 - 1 / 17)  # around 5: 25, 9, 9, 25
    assert explained(line, np.array([[100.0]])) == 0
    assert (inertia(line[:0], ends), explained(line[:0], ends)) == (0, 0)
    assert [explained(np.ones((3, 1)), np.array([[centre]])) for centre in (1.0, 2.0)] == [1, 0]


def test_silhouette_by_hand() -> None:
    # Rows 0, 2 | 10: of 0 a = 2, b = 10; of 2 a = 2, b = 8; 10 is alone, which gives 0.
    rows, groups = np.array([[0.0], [2], [10]]), np.array([4, 4, 7])
    assert silhouette(rows, groups, CHANCE) == pytest.approx((0.8 + 0.75 + 0) / 3)
    assert silhouette(rows, np.zeros(3, np.int64), CHANCE) == 0
    assert silhouette(rows[:0], groups[:0], CHANCE) == 0
    assert silhouette(np.zeros((4, 1)), np.array([0, 0, 1, 1]), CHANCE) == 0


def test_silhouette_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rows, groups = heaps(5, rows=60, spread=3, columns=4)
    assert silhouette(rows, groups, CHANCE) == pytest.approx(metrics.silhouette_score(rows, groups), abs=1e-12)


def test_of_many_rows_some_are_compared() -> None:
    rows, groups = heaps(6, rows=600)
    some = silhouette(rows, groups, np.random.default_rng(1), most=200)
    assert some == pytest.approx(silhouette(rows, groups, CHANCE), abs=0.03)
    assert some == silhouette(rows, groups, np.random.default_rng(1), most=200)


def test_a_curve_without_a_bend() -> None:
    assert bend([2, 3], [1.0, 0.5]) == 2
    assert bend([2, 3, 4], [1.0, 1.0, 1.0]) == 2
    assert bend([1, 2, 3, 4], [10, 2, 1, 0]) == 2


def test_numbers_of_clusters_are_tried_side_by_side() -> None:
    rows, _ = heaps(2, spread=0.5)
    result = tried(rows, range(1, 8), np.random.default_rng(0), most=100)
    inertias = [each.inertia for each in result]
    assert inertias == sorted(inertias, reverse=True)
    assert inertias[0] == pytest.approx(rows.var(axis=0).sum())
    assert bend(range(1, 8), inertias) == 3
    assert result[0].silhouette is None  # nothing lies beside one cluster
    assert max(result[1:], key=lambda one: one.silhouette or 0).k == 3
    assert result == tried(rows, range(1, 8), np.random.default_rng(0), most=100)


def test_centroids_of_which_one_has_all_rows_have_no_silhouette() -> None:
    rows = np.array([[0.0], [1]])
    assert silhouette_of(rows, np.array([[0.0], [9]]), CHANCE) is None
    assert silhouette_of(rows, np.array([[0.0], [1]]), CHANCE) == 0  # each row alone


# How alike groupings are: the oracle O12, all pairs counted one by one, the best match against all matches.


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


@given(two_groupings)
def test_pairs_are_those_counted_one_by_one(both: tuple[Any, Any]) -> None:
    one, other = both
    pairs = [(one[i] == one[j], other[i] == other[j]) for i, j in itertools.combinations(range(len(one)), 2)]
    together, either = sum(a and b for a, b in pairs), sum(a or b for a, b in pairs)
    assert pair_jaccard(one, other) == pytest.approx(together / either if either else 1)


@given(two_groupings, st.permutations(range(5)))
def test_names_of_clusters_do_not_matter(both: tuple[Any, Any], names: list[int]) -> None:
    one, other = both
    renamed = np.array(names)[other] if len(other) else other
    assert pair_jaccard(one, renamed) == pair_jaccard(one, other)
    assert pair_jaccard(one, other) == pair_jaccard(other, one)
    best = [aligned_jaccard(one, one[...]), aligned_jaccard(other, aligned(other, renamed))]
    assert best == [1, 1]


@given(st.integers(1, 5).flatmap(lambda k: arrays(np.int64, (k, k), elements=st.integers(0, 20))))
def test_the_best_match_is_the_best_of_all(gains: Any) -> None:
    rows = range(len(gains))
    result = best_match(gains)
    assert sorted(result.tolist()) == list(rows)
    reached = sum(gains[row, result[row]] for row in rows)
    assert reached == max(sum(gains[row, to[row]] for row in rows) for to in itertools.permutations(rows))


@pytest.mark.parametrize(
    "other", [g("00"), g("0001"), np.array([-1, 0, 0]), np.zeros((3, 1), np.int64), np.array([0, 0, MOST_GROUPS])]
)
def test_what_is_no_grouping_of_the_same_rows_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match=r"shapes=|groups>"):
        shared_rows(g("000"), other)


# What own rows say of numbers of groups: bounded, the same each time, and honest where there is little to say.


def test_three_heaps_are_found() -> None:
    rows, _ = heaps(2, rows=300, spread=0.5)
    result = group_findings(rows, rows[:2])
    assert result is not None
    assert (result.rows, result.judged, result.compared, result.bend) == (300, 300, 300, 3)
    assert [each.k for each in result.tried] == list(range(1, MOST_TRIED + 1))
    assert result.tried[0].silhouette is None
    assert result.common.k == 2
    assert result.common.inertia > result.tried[2].inertia
    assert result == group_findings(rows, rows[:2])
    fields = fields_of(result, "X")
    assert fields is not None
    assert fields["tried"][0] == {"k": 1, "inertia": float(f"{result.tried[0].inertia:.6g}"), "silhouette": None}


def test_of_many_or_wide_rows_only_some_are_looked_at() -> None:
    chance = np.random.default_rng(0)
    long, wide = chance.normal(size=(2100, 1)), chance.normal(size=(260, 1000))
    judged = [group_findings(rows, rows[:1]) for rows in (long, wide)]
    assert [(each.rows, each.judged, each.compared) for each in judged if each] == [
        (2100, 2000, 500),
        (260, 200, 200),
    ]


def test_fewer_rows_than_groups() -> None:
    rows = np.array([[0.0], [1.0], [5.0]])
    result = group_findings(rows, np.array([[0.0], [9.0]]))
    assert result is not None
    assert [each.k for each in result.tried] == [1, 2, 3]
    assert group_findings(rows[:1], rows[:1]) is None
