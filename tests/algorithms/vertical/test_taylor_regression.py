"""The arithmetic of the Taylor loss: the oracle O14, what fails as printed, batches and columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.algorithms.vertical.taylor_regression import (
    check_standardised,
    exact_gradient,
    exact_loss,
    fixed_batches,
    signed_labels,
    slices,
    standardise,
    step,
    taylor_gradient,
    taylor_loss,
    train,
)
from flnet.errors import TrainerError
from tests.algorithms.vertical.people import THETA, X_A, X_B, Y, breast_cancer, plan_of

ROWS = np.hstack([X_A, X_B])


def test_oracle_14() -> None:
    mask = np.array([1.0, 1, 0])
    assert taylor_gradient(ROWS, Y, THETA, mask) == pytest.approx([-0.25, -0.2, 0.35], abs=1e-9)
    assert taylor_gradient(ROWS, Y, THETA, mask) * 2 / 3 == pytest.approx(
        [-0.1666666667, -0.1333333333, 0.2333333333], abs=1e-9
    )
    taylor = taylor_gradient(ROWS, Y, THETA)
    assert taylor == pytest.approx([0.025, -0.325, 0.2333333333], abs=1e-9)
    assert exact_gradient(ROWS, Y, THETA) == pytest.approx([0.0248141723, -0.3252516189, 0.2324584401], abs=1e-9)
    assert taylor_loss(ROWS, Y, THETA) == pytest.approx(0.8202305139, abs=1e-9)
    assert exact_loss(ROWS, Y, THETA) == pytest.approx(0.8201725592, abs=1e-9)
    assert step(THETA, taylor, 0.1, 0.01) == pytest.approx([0.0974, -0.1673, 0.2763666667], abs=1e-9)


@given(arrays(np.float64, 3, elements=st.floats(-1, 1)))
def test_the_gradient_is_the_slope_of_the_loss(theta: Any) -> None:
    mask, width = np.array([1.0, 0, 1]), 1e-4
    slopes = [
        (taylor_loss(ROWS, Y, theta + width * axis, mask) - taylor_loss(ROWS, Y, theta - width * axis, mask))
        / (2 * width)
        for axis in np.eye(3)
    ]
    assert taylor_gradient(ROWS, Y, theta, mask) == pytest.approx(slopes, abs=1e-8)


def test_the_ridge_as_printed_makes_weights_larger_and_accuracy_smaller() -> None:
    people, theta = breast_cancer(), np.zeros(31)
    plan = plan_of(people)
    rows, labels = people.all[: people.train], people.labels[: people.train]
    for _ in range(20):
        for part in slices(plan.batches):
            theta = theta - 0.05 * taylor_gradient(rows[part], labels[part], theta) + 0.01 * theta
    ours = train(rows, labels, plan.batches, np.zeros(31))
    assert np.linalg.norm(theta) > 1.5 * np.linalg.norm(ours)
    assert people.accuracy(ours) >= max(0.94, people.accuracy(theta))


def test_columns_that_are_not_standardised_diverge_where_the_exact_gradient_does_not() -> None:
    people = breast_cancer()
    rows, labels = 30 * people.all[: people.train], people.labels[: people.train]
    theta, exact = np.zeros(31), np.zeros(31)
    for _ in range(50):
        theta = step(theta, taylor_gradient(rows, labels, theta), 0.05, 0.01)
        exact = step(exact, exact_gradient(rows, labels, exact), 0.05, 0.01)
    assert np.linalg.norm(theta) > 1e80
    assert np.linalg.norm(exact) < 100


@given(st.integers(1, 500), st.integers(1, 64))
def test_batches_have_the_rows_that_were_asked_for(rows: int, size: int) -> None:
    batches = fixed_batches(rows, size)
    assert sum(batches) == rows
    assert min(batches) >= min(size, rows)
    assert max(batches) - min(batches) <= 1
    assert [part.stop for part in slices(batches)] == np.cumsum(batches).tolist()
    assert len(batches) == max(1, rows // size)


def test_batches_without_enough_rows_that_count_are_skipped() -> None:
    mask = np.array([0.0, 0, 1])
    skipped = train(ROWS, Y, (2, 1), THETA, epochs=1, mask=mask)
    assert skipped == pytest.approx(train(ROWS[2:], Y[2:], (1,), THETA, epochs=1))
    assert train(ROWS, Y, (2, 1), THETA, mask=mask, fewest=2).tolist() == THETA.tolist()


def test_columns_are_standardised() -> None:
    rows = np.array([[1.0, 5], [3, 5], [11, 5]])
    scaled, mean, deviation = standardise(rows)
    assert mean.tolist() == [5, 5]
    assert scaled * deviation + mean == pytest.approx(rows)
    assert scaled[:, 1].tolist() == [0, 0, 0]
    assert standardise(rows, at_most=0.5)[0].max() == 0.5
    check_standardised(scaled)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[0.0, 100], [1, 101]], "column 1 has the mean 100 and the standard deviation 0.5"),
        ([[30.0], [-30]], "column 0 has the mean 0 and the standard deviation 30"),
        ([[math.nan], [0]], "not a finite number"),
    ],
)
def test_other_columns_are_refused(rows: list[list[float]], words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        check_standardised(np.array(rows))


def test_labels_are_signed() -> None:
    assert signed_labels(np.array([0, 1, 1])).tolist() == [-1, 1, 1]
    assert signed_labels(np.array([-1.0, 1])).tolist() == [-1, 1]
    assert signed_labels(np.array([True, False])).tolist() == [1, -1]
    for wrong in ([1, 2], [0, 1, -1], [0.5]):
        with pytest.raises(TrainerError, match="expected 0 and 1"):
            signed_labels(np.array(wrong))
