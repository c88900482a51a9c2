"""What the rows of one training teach: batches of equal number, and both losses summed."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.labels import cross_entropy, projected_loss
from flnet.training.lesson import Lesson

MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
LABELS, COARSE = np.array([0, -1, -1, 2, -1]), np.array([-1, 1, -1, 0, 2])


def lesson(steps: int = 4, fixed: float = 0.0) -> Lesson:
    return Lesson(LABELS, COARSE, MATRIX, steps, np.array([-1, 2, 0, 1, -1]), fixed)


def test_rows_that_teach_nothing_are_in_no_batch() -> None:
    assert lesson().rows.tolist() == [0, 1, 3]  # row 2 has no label, row 4 one that says nothing
    assert set(np.concatenate(lesson().batches(2, 0)).tolist()) == {0, 1, 3}


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_there_are_as_many_batches_as_steps(size: int) -> None:
    batches = lesson(steps=9).batches(size, seed=1)
    assert [len(batch) for batch in batches] == [min(size, 3)] * 9
    assert [b.tolist() for b in batches] == [b.tolist() for b in lesson(steps=9).batches(size, seed=1)]


def test_without_a_row_that_teaches_there_is_no_batch() -> None:
    nothing = np.full(5, -1)
    assert Lesson(nothing, nothing, MATRIX, 4, nothing).batches(2, 0) == []


def test_both_losses_are_summed() -> None:
    scores, rows = np.random.default_rng(0).normal(size=(3, 3)), np.array([0, 1, 3])
    loss = lesson().loss(scores, rows)
    expected = cross_entropy(scores, LABELS[rows]) + projected_loss(scores, MATRIX, COARSE[rows])
    assert loss.value == expected.value
    np.testing.assert_array_equal(loss.gradient, expected.gradient)


def test_changed_rows_are_held_to_the_guesses_with_their_weight() -> None:
    scores, rows = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]), np.array([1, 0])
    assert lesson(fixed=0.5).loss_of_changed(scores, rows).value == pytest.approx(0.5 * np.log(3))
