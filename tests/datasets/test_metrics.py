"""Figures by hand, from published oracles, and against scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.datasets.metrics import (
    Counts,
    argmax_accuracy,
    auc,
    balanced_accuracy,
    hamming_loss,
    multi_label_figures,
    ranking_figures,
    subset_accuracy,
)
from flnet.params.params import Array

TRUTH = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
GUESS = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0], [1, 0, 1]])
SCORES = np.array([[0.9, 0.2, 0.6], [0.4, 0.3, 0.2], [0.7, 0.8, 0.1], [0.6, 0.3, 0.9]])

tables = st.integers(1, 6).flatmap(
    lambda labels: st.integers(1, 30).flatmap(
        lambda rows: st.tuples(*(arrays(np.int8, (rows, labels), elements=st.integers(0, 1)) for _ in range(2)))
    )
)


def test_the_worked_example() -> None:
    counts = Counts.of(TRUTH, GUESS)
    assert subset_accuracy(TRUTH, GUESS) == 0.5
    # per label 2*2/(4+1), 2*1/(2+1), 2*2/4
    assert counts.f1_macro() == pytest.approx((0.8 + 2 / 3 + 1) / 3, abs=1e-12)
    assert counts.f1_macro() == pytest.approx(0.8222222222, abs=1e-10)
    assert hamming_loss(TRUTH, GUESS) == pytest.approx(2 / 12)
    # Row 2 has label 1 and scores label 0 highest; row 3 has labels 0 and 1, and label 1 is not the first.
    assert argmax_accuracy(TRUTH, SCORES) == 0.5


def test_counts_of_nodes_are_added_before_they_are_divided() -> None:
    zero = np.zeros(1, np.int64)
    one, other = (Counts(np.array([tp]), zero, np.array([fn]), zero) for tp, fn in ((8, 2), (1, 3)))
    assert (one + other).recall() == pytest.approx(9 / 14, abs=1e-12)
    assert (one.recall() + other.recall()) / 2 == pytest.approx(0.525)  # what must not be done


@pytest.fixture(scope="module")
def sk() -> Any:
    """Imported only where it is needed: it brings SciPy, which takes seconds."""
    return pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")


@given(pair=tables)
def test_multi_label_figures_are_scikit_learns(sk: Any, pair: tuple[Array, Array]) -> None:
    truth, guess = pair
    counts = Counts.of(truth, guess)
    assert subset_accuracy(truth, guess) == pytest.approx(
        np.mean([(a == b).all() for a, b in zip(*pair, strict=True)])
    )
    assert counts.f1_micro() == pytest.approx(_f1(sk, truth, guess, "micro"))
    assert hamming_loss(truth, guess) == pytest.approx((truth != guess).mean())
    if truth.shape[1] > 1:  # one column means two classes to scikit-learn
        assert counts.f1_macro() == pytest.approx(_f1(sk, truth, guess, "macro"))
        assert subset_accuracy(truth, guess) == pytest.approx(sk.accuracy_score(truth, guess))
        assert hamming_loss(truth, guess) == pytest.approx(sk.hamming_loss(truth, guess))


def _f1(sk: Any, truth: Array, guess: Array, average: str) -> float:
    if truth.shape[1] == 1:
        return float(sk.f1_score(truth[:, 0], guess[:, 0], zero_division=0))
    return float(sk.f1_score(truth, guess, average=average, zero_division=0))


@given(rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=2, max_size=40))
def test_auc_is_scikit_learns_ties_included(sk: Any, rows: list[tuple[int, int]]) -> None:
    truth, scores = np.array(rows).T
    if len(set(truth.tolist())) == 1:
        assert math.isnan(auc(truth, scores))
    else:
        assert auc(truth, scores) == pytest.approx(sk.roc_auc_score(truth, scores))


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true", "ignore:A single label was found")
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_balanced_accuracy_is_scikit_learns(sk: Any, rows: list[tuple[int, int]]) -> None:
    truth, guess = np.array(rows).T
    assert balanced_accuracy(truth, guess) == pytest.approx(sk.balanced_accuracy_score(truth, guess))


@given(
    rows=st.integers(1, 5).flatmap(
        lambda labels: st.lists(
            st.tuples(*(st.tuples(st.integers(0, 1), st.integers(0, 3)) for _ in range(labels))),
            min_size=1,
            max_size=15,
        )
    )
)
def test_ranks_are_scikit_learns_ties_included(sk: Any, rows: list[Any]) -> None:
    table = np.array(rows, np.int64)
    truth, scores = table[:, :, 0], table[:, :, 1] / 4
    figures = ranking_figures(truth, scores)
    if truth.shape[1] > 1:  # scikit-learn takes one label for no ranking
        assert figures["average_precision"] == pytest.approx(
            sk.label_ranking_average_precision_score(truth, scores)
        )
        assert figures["ranking_loss"] == pytest.approx(sk.label_ranking_loss(truth, scores))
        assert figures["coverage"] == pytest.approx(sk.coverage_error(truth, scores))
    wrong = [not row[int(np.argmax(values))] for row, values in zip(truth, scores, strict=True)]
    assert figures["one_error"] == sum(wrong) / len(wrong)


def test_ranks_of_a_row_that_can_be_checked_by_hand() -> None:
    figures = ranking_figures(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.8, 0.3, 0.1]]))
    assert figures == {"average_precision": (1 + 2 / 3) / 2, "ranking_loss": 0.25, "coverage": 3, "one_error": 0}


def test_what_is_undefined_counts_zero() -> None:
    nothing = np.zeros((3, 2), np.int8)
    assert Counts.of(nothing, nothing).f1_macro() == 0
    assert Counts.of(nothing, nothing).f1_micro() == 0
    assert Counts.of(nothing, nothing).recall() == 0
    figures = multi_label_figures(nothing[:0], np.zeros((0, 2)))
    assert set(figures.values()) == {0.0}


def test_a_score_at_the_threshold_is_a_guess() -> None:
    figures = multi_label_figures(np.array([[1, 0]]), np.array([[0.5, 0.49]]))
    assert figures["subset_accuracy"] == figures["argmax_accuracy"] == 1.0
    assert figures["f1_macro"] == 0.5  # the label that never occurs counts 0
    assert figures["f1_micro"] == 1.0
