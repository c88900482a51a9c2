"""The estimated correspondence: the oracle O11, what is printed and fails, its uncertainty, the warm-up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.algorithms.fed_mt.estimation import Estimate, Guesses, WarmUp, count_pairs, guesses, leaning
from flnet.labels.losses import projected_loss

CLASSES, CONFIDENCE = [0, 0, 0, 1, 1, 2], [0.99, 0.97, 0.6, 0.98, 0.96, 0.4]
LABELS = np.array([0, 0, 1, 0, 1, 1])
COUNTS = np.array([[2, 1, 0], [0, 1, 0]])


def probabilities(classes: list[int], confidence: list[float], k: int = 3) -> Any:
    """Rows whose highest probability is at the class, and the rest spread evenly."""
    result = np.repeat((1 - np.array(confidence))[:, None] / (k - 1), k, axis=1)
    result[np.arange(len(classes)), classes] = confidence
    return result


def test_oracle_11() -> None:
    guessed = guesses(probabilities(CLASSES, CONFIDENCE), threshold=0.95)
    assert guessed.classes.tolist() == CLASSES
    assert guessed.share == pytest.approx(4 / 6)
    counts = count_pairs(LABELS, guessed, (2, 3))
    assert counts.tolist() == COUNTS.tolist()
    little = [[0.995049505, 0.5, 0.5], [0.004950495, 0.5, 0.5]]
    assert Estimate(counts, 0.01).matrix == pytest.approx(np.array(little), abs=1e-9)
    assert Estimate(counts, 1).matrix == pytest.approx(np.array([[0.75, 0.5, 0.5], [0.25, 0.5, 0.5]]), abs=1e-12)


def test_a_guess_is_confident_above_the_threshold_and_not_at_it() -> None:
    assert guesses(np.array([[0.75, 0.25]]), 0.75).sure.tolist() == [False]
    assert guesses(np.array([[0.5, 0.5]]), 0.4).classes.tolist() == [0]  # of equal ones the first


def test_no_rows_and_labels_that_are_none() -> None:
    nothing = guesses(np.zeros((0, 3)))
    assert (nothing.share, count_pairs(LABELS[:0], nothing, (2, 3)).sum()) == (0, 0)
    sure = Guesses(np.array([0, 1, 2]), np.array([True, True, True]))
    assert count_pairs(np.array([-1, 2, 1]), sure, (2, 3)).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_as_printed_an_unseen_column_is_no_number_and_smoothing_repairs_it() -> None:
    with np.errstate(invalid="ignore"):
        printed = COUNTS / COUNTS.sum(axis=0)
    assert np.isnan(printed[:, 2]).all()  # 0/0: class 2 was never guessed
    z = np.zeros((1, 3))
    with np.errstate(invalid="ignore"):
        assert np.isnan(projected_loss(z, printed, np.array([0])).value)
    # with the column filled, a pair that never came still has weight 0: the label is impossible for class 0
    without_zeros = Estimate(COUNTS)
    assert (without_zeros.matrix > 0).all()
    sure_of_class_0 = np.array([[90.0, 0.0, 0.0]])
    label = np.array([1])
    assert projected_loss(sure_of_class_0, without_zeros.matrix, label).value == pytest.approx(5.308267, abs=1e-6)
    with pytest.raises(ValueError, match="smoothing=0 <= 0"):
        Estimate(COUNTS, 0)


def test_the_deviation_by_hand() -> None:
    # Column 0 is Beta(2.01, .01): mean m = 2.01/2.02, variance m (1 - m) / 3.02. Column 2 is Beta(.01, .01).
    result = Estimate(COUNTS).deviation
    assert result[0, 0] ** 2 == pytest.approx(2.01 * 0.01 / (2.02**2 * 3.02), abs=1e-12)
    assert result[0, 2] == pytest.approx(np.sqrt(0.25 / 1.02), abs=1e-12)
    assert Estimate(COUNTS * 100).deviation[0, 1] < result[0, 1] / 5
    assert Estimate(COUNTS).seen.tolist() == [2, 2, 0]


def test_the_deviation_is_that_of_the_distribution() -> None:
    drawn = np.random.default_rng(0).dirichlet([3.5, 1.5, 0.5], 200_000)
    result = Estimate(np.array([[3], [1], [0]]), 0.5)
    assert result.matrix[:, 0] == pytest.approx(drawn.mean(axis=0), abs=3e-3)
    assert result.deviation[:, 0] == pytest.approx(drawn.std(axis=0), abs=3e-3)


def test_what_nobody_is_sure_of_is_taken_from_what_guesses_lean_to() -> None:
    message = np.array([[0.6, 0.1, 0.3], [0.5, 0.1, 0.4], [0.2, 0.1, 0.7]])
    prior = leaning(np.array([0, 0, 1]), message, 2, smoothing=0.1)
    # class 2 has .3 + .4 of label 0 and .7 of label 1: one half each. Class 0 has 1.1 and .2.
    assert prior[:, 2] == pytest.approx([0.6 / 1.2, 0.6 / 1.2])
    assert prior[:, 0] == pytest.approx([(1.1 / 1.3 + 0.1) / 1.2, (0.2 / 1.3 + 0.1) / 1.2])
    assert leaning(np.array([0, 0, 1]), message * [1, 1, 1e-30], 2, 0.1) == pytest.approx(prior)
    assert leaning(np.array([0, 0, 1]), message * [1, 1, 0], 2, 0.1)[:, 2] == pytest.approx([0.5, 0.5])
    assert prior.sum(axis=0) == pytest.approx(1)
    assert leaning(np.array([-1, 7, 0]), message, 2, 0.1).sum() == pytest.approx(3)
    result = Estimate(np.array([[3, 0, 0], [0, 0, 0]]), 0.5, prior)
    assert result.matrix[:, 2] == pytest.approx(prior[:, 2])  # unseen
    assert result.matrix[:, 0] == pytest.approx((np.array([3, 0]) + prior[:, 0]) / 4)
    assert result.deviation[0, 2] == pytest.approx(np.sqrt(0.25 / 2))
    even = np.full((2, 3), 0.5)
    assert Estimate(COUNTS, 0.3, even).matrix == pytest.approx(Estimate(COUNTS, 0.3).matrix, abs=1e-15)


def test_an_unseen_column_of_equal_numbers_is_a_trap_and_leaning_opens_it() -> None:
    """A row of class 2, whose label fits class 0 and 2: does learning from it speak for class 2?"""
    counts = np.array([[9, 0, 0], [0, 9, 0]])
    unsure = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    z, label = np.log([[0.5, 0.1, 0.4]]), np.array([0])
    trapped = projected_loss(z, Estimate(counts).matrix, label).gradient[0, 2]
    freed = projected_loss(z, Estimate(counts, prior=leaning(np.array([0, 1]), unsure, 2)).matrix, label)
    assert trapped > 0.1  # descent makes the class less probable
    assert freed.gradient[0, 2] < -0.03


def test_the_page_gets_plain_data() -> None:
    view = Estimate(COUNTS, 1).view()
    assert json.loads(json.dumps(view))["matrix"] == [[0.75, 0.5, 0.5], [0.25, 0.5, 0.5]]
    assert view["seen"] == [2, 2, 0]


@given(arrays(np.int64, (3, 4), elements=st.integers(0, 10**9)), st.floats(1e-6, 1e3))
def test_columns_of_any_counts_are_distributions(counts: Any, smoothing: float) -> None:
    result = Estimate(counts, smoothing)
    assert result.matrix.sum(axis=0) == pytest.approx(1, abs=1e-12)
    assert (result.matrix > 0).all()
    assert (result.deviation <= 0.5).all()


@pytest.mark.parametrize(
    ("rounds", "shares", "over"),
    [(4, [0.9], False), (5, [0.1, 0.5], True), (5, [0.49, 0.2], False), (60, [], False), (60, [0.4], False)],
)
def test_warm_up_ends_when_one_node_is_taught_well_enough(rounds: int, shares: list[float], over: bool) -> None:
    assert WarmUp().is_over(rounds, shares) is over
    assert WarmUp(least=0, share=0).is_over(rounds, shares)
