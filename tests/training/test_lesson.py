"""What the rows of one training teach: batches of equal number, and both losses summed."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.labels import cross_entropy, mixed_cross_entropy, projected_loss
from flnet.training.lesson import Lesson, Mix

MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
LABELS, COARSE = np.array([0, -1, -1, 2, -1]), np.array([-1, 1, -1, 0, 2])


def lesson(steps: int = 4, fixed: float = 0.0, mixed: float = 0.0) -> Lesson:
    return Lesson(LABELS, COARSE, MATRIX, steps, np.array([-1, 2, 0, 1, -1]), fixed, mixed)


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


def test_rows_that_are_guessed_are_mixed_with_one_another() -> None:
    mixes = [lesson().mix(np.array([3, 0, 1]), np.random.default_rng(seed)) for seed in range(20)]
    assert {tuple(mix.first) for mix in mixes} == {(3, 1)}  # nothing is guessed of row 0
    assert {tuple(mix.second) for mix in mixes} == {(3, 1), (1, 3)}
    assert all(0 <= mix.share <= 1 for mix in mixes)
    assert min(mix.share for mix in mixes) < 0.25 < 0.75 < max(mix.share for mix in mixes)


def test_one_row_that_is_guessed_has_no_partner() -> None:
    mix = lesson(mixed=1.0).mix(np.array([0, 3]), np.random.default_rng(0))
    assert (len(mix.first), len(mix.second)) == (0, 0)
    assert lesson(mixed=1.0).loss_of_mixed(np.zeros((0, 3)), mix).value == 0


def test_mixed_rows_are_held_to_both_guesses_with_their_weight() -> None:
    mix, scores = Mix(np.array([1, 3]), np.array([3, 1]), 0.3), np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 0.5]])
    found = lesson(mixed=0.5).loss_of_mixed(scores, mix)
    wanted = mixed_cross_entropy(scores, np.array([2, 1]), np.array([1, 2]), 0.3)
    assert found.value == pytest.approx(0.5 * wanted.value, abs=1e-12)
    np.testing.assert_allclose(found.gradient, 0.5 * wanted.gradient, atol=1e-12)
