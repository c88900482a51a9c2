"""How good a grouping is, and how many groups: figures by hand, and against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.clusters.judging import bend, elbow, explained, inertia, silhouette, silhouette_of, tried
from flnet.clusters.learning import assign
from tests.clusters.rows import FIRST, START, heaps

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


def test_the_elbow_bends_at_the_number_of_heaps() -> None:
    rows, _ = heaps(2, spread=0.5)
    numbers = range(1, 8)
    curve = elbow(rows, numbers, np.random.default_rng(0))
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == pytest.approx(rows.var(axis=0).sum())
    assert bend(numbers, curve) == 3
    _, nearest = assign(rows, rows)
    assert nearest.max() == 0


def test_a_curve_without_a_bend() -> None:
    assert bend([2, 3], [1.0, 0.5]) == 2
    assert bend([2, 3, 4], [1.0, 1.0, 1.0]) == 2
    assert bend([1, 2, 3, 4], [10, 2, 1, 0]) == 2


def test_numbers_of_clusters_are_tried_side_by_side() -> None:
    rows, _ = heaps(2, spread=0.5)
    found = tried(rows, range(1, 8), np.random.default_rng(0), most=100)
    inertias = [one.inertia for one in found]
    assert inertias == sorted(inertias, reverse=True)
    assert bend(range(1, 8), inertias) == 3
    assert found[0].silhouette is None  # nothing lies beside one cluster
    assert max(found[1:], key=lambda one: one.silhouette or 0).k == 3
    assert found == tried(rows, range(1, 8), np.random.default_rng(0), most=100)


def test_centroids_of_which_one_has_all_rows_have_no_silhouette() -> None:
    rows = np.array([[0.0], [1]])
    assert silhouette_of(rows, np.array([[0.0], [9]]), CHANCE) is None
    assert silhouette_of(rows, np.array([[0.0], [1]]), CHANCE) == 0  # each row alone
