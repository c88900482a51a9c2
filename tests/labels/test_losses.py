"""FedMT's losses: the oracles O11, gradients against differences, and what any model may come up with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.labels.losses import (
    Lesson,
    Loss,
    Mix,
    cross_entropy,
    loss_of_both,
    mixed,
    mixed_cross_entropy,
    projected,
    projected_loss,
    teaching,
)

F = np.array([[0.2, 0.5, 0.3]])
NESTED = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
OVERLAPPING = np.array([[0.9, 0.5, 0.0], [0.1, 0.5, 1.0]])
scores = arrays(np.float64, (4, 3), elements=st.floats(-1e30, 1e30) | st.floats(-50, 50))
labels_of_two = arrays(np.int64, 4, elements=st.integers(-3, 4))


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("matrix", "label", "loss", "gradient"),
    [
        (NESTED, 0, 0.3566749439, [-0.0857142857, -0.2142857143, 0.3]),
        (NESTED, 1, 1.2039728043, [0.2, 0.5, -0.7]),
        (OVERLAPPING, 0, 0.8439700703, [-0.2186046512, -0.0813953488, 0.3]),
        (OVERLAPPING, 1, 0.5621189182, [0.1649122807, 0.0614035088, -0.2263157895]),
    ],
)
def test_oracle_11(matrix: Any, label: int, loss: float, gradient: list[float]) -> None:
    result = projected_loss(np.log(F), matrix, ints(label))
    assert result.value == pytest.approx(loss, abs=1e-9)
    assert result.gradient[0] == pytest.approx(gradient, abs=1e-9)


def test_projected_scores_of_oracle_11() -> None:
    assert projected(F, NESTED)[0] == pytest.approx([0.7, 0.3], abs=1e-12)
    assert projected(F, OVERLAPPING)[0] == pytest.approx([0.43, 0.57], abs=1e-12)


def slope(loss: Callable[[Any], Loss], logits: Any) -> Any:
    """The gradient by differences."""
    result, width = np.zeros_like(logits), 1e-6
    for place in np.ndindex(*logits.shape):
        up, down = logits.copy(), logits.copy()
        up[place] += width
        down[place] -= width
        result[place] = (loss(up).value - loss(down).value) / (2 * width)
    return result


@pytest.mark.parametrize(
    "loss",
    [
        lambda z: projected_loss(z, OVERLAPPING, ints(0, 1, 1, 0)),
        lambda z: projected_loss(z, NESTED, ints(0, 1, -1, 7)),
        lambda z: cross_entropy(z, ints(0, 1, 2, -1)),
        lambda z: mixed_cross_entropy(z, ints(0, 1, 2, 2), ints(2, 1, 0, 1), 0.3),
        lambda z: loss_of_both(z, ints(0, -1, -1, 2), ints(-1, 1, 0, 1), OVERLAPPING),
    ],
)
def test_gradients_are_those_of_the_losses(loss: Callable[[Any], Loss]) -> None:
    logits = np.random.default_rng(4).normal(size=(4, 3)) * 3
    assert loss(logits).gradient == pytest.approx(slope(loss, logits), abs=1e-8)


def test_where_the_spaces_are_one_it_is_the_ordinary_loss() -> None:
    logits, labels = np.random.default_rng(5).normal(size=(6, 3)), ints(0, 1, 2, 2, -1, 3)
    ours, usual = projected_loss(logits, np.eye(3), labels), cross_entropy(logits, labels)
    assert ours.value == pytest.approx(usual.value, abs=1e-14)
    assert ours.gradient == pytest.approx(usual.gradient, abs=1e-14)
    assert ours.rows == usual.rows == 4


def test_one_coarse_class_teaches_nothing() -> None:
    result = projected_loss(np.log(F), np.ones((1, 3)), ints(0))
    assert result.value == pytest.approx(0, abs=1e-15)
    assert result.gradient == pytest.approx(np.zeros((1, 3)), abs=1e-15)


def test_rows_without_a_label_of_the_space_do_not_count() -> None:
    silent = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert teaching(ints(0, 1, 2, -1), silent).tolist() == [True, False, False, False]
    logits = np.log(np.repeat(F, 3, axis=0))
    some, one = projected_loss(logits, NESTED, ints(-1, 1, 2)), projected_loss(logits[:1], NESTED, ints(1))
    assert (some.value, some.rows) == (one.value, 1)
    assert some.gradient[[0, 2]].tolist() == [[0] * 3] * 2
    none = projected_loss(logits, NESTED, ints(-1, -1, -1))
    assert (none.value, none.rows, none.gradient.tolist()) == (0, 0, [[0] * 3] * 3)
    assert projected_loss(np.zeros((0, 3)), NESTED, ints()).value == 0


def test_a_node_with_both_kinds_of_labels_adds_both_means() -> None:
    logits = np.log(np.repeat(F, 3, axis=0))
    result = loss_of_both(logits, ints(1, -1, 2), ints(-1, 0, -1), NESTED)
    # -(log .5 + log .3) / 2 - log .7
    assert result.value == pytest.approx((0.6931471806 + 1.2039728043) / 2 + 0.3566749439, abs=1e-9)
    assert result.gradient[1] == pytest.approx([-0.0857142857, -0.2142857143, 0.3], abs=1e-9)
    assert result.gradient[0] == pytest.approx([0.1, -0.25, 0.15], abs=1e-12)  # (f - e_1) / 2
    assert result.rows == 3


def test_mixing_by_hand() -> None:
    rows = mixed(np.array([[0.0, 4.0]]), np.array([[1.0, 0.0]]), 0.25)
    assert rows.tolist() == [[0.75, 1.0]]
    result = mixed_cross_entropy(np.log(F), ints(0), ints(1), 0.25)
    assert result.value == pytest.approx(-0.25 * np.log(0.2) - 0.75 * np.log(0.5), abs=1e-12)
    assert result.gradient[0] == pytest.approx([0.2 - 0.25, 0.5 - 0.75, 0.3], abs=1e-12)


@given(scores, labels_of_two)
def test_any_scores_give_a_finite_loss_and_a_bounded_gradient(logits: Any, labels: Any) -> None:
    for matrix in (NESTED, OVERLAPPING):
        result = projected_loss(logits, matrix, labels)
        assert np.isfinite(result.value)
        assert result.value >= -1e-12
        assert np.abs(result.gradient).max() <= 1 + 1e-12
        assert result.gradient.sum(axis=1) == pytest.approx(0, abs=1e-9)


def test_a_row_that_the_model_is_sure_of_and_wrong_about_still_teaches() -> None:
    """As public code has it, log(max(M f, 1e-6)), it would not: f[2] is 4e-18, and the label says it is class 2."""
    result = projected_loss(np.array([[40.0, 0.0, 0.0]]), NESTED, ints(1))
    assert result.value == pytest.approx(40)
    assert result.gradient[0] == pytest.approx([1, 0, -1], abs=1e-12)


# What the rows of one training teach: batches of equal number, and both losses summed.


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
    result = lesson(mixed=0.5).loss_of_mixed(scores, mix)
    wanted = mixed_cross_entropy(scores, np.array([2, 1]), np.array([1, 2]), 0.3)
    assert result.value == pytest.approx(0.5 * wanted.value, abs=1e-12)
    np.testing.assert_allclose(result.gradient, 0.5 * wanted.gradient, atol=1e-12)
