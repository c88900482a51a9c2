"""The compact form beside numbers worked by hand and beside the recursive one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from flnet.lbfgs import Pairs, product, solved

Vector = NDArray[np.float64]
HESSIAN = np.array([[2.0, 1, 0], [1, 3, 0], [0, 0, 1]])
S1, S2 = np.array([1.0, 0, 0]), np.array([1.0, 1, 0])


def times(steps: Sequence[Vector], changes: Sequence[Vector], v: Vector) -> Vector:
    """B v of these pairs."""
    table = Pairs(
        [[float(s @ t) for t in steps] for s in steps],
        [[float(s @ y) for y in changes] for s in steps],
        [float(y @ y) for y in changes],
    )
    found = product(table, [float(s @ v) for s in steps], [float(y @ v) for y in changes])
    total = found.of_v * v
    for s, y, a, b in zip(steps, changes, found.of_steps, found.of_changes, strict=True):
        total = total + a * s + b * y
    return total


def recursive(steps: Sequence[Vector], changes: Sequence[Vector]) -> Vector:
    """B by the usual update, from the newest pair's curvature times the identity, the oldest pair first."""
    b: Vector = np.eye(len(steps[0])) * (changes[-1] @ steps[-1]) / (steps[-1] @ steps[-1])
    for s, y in zip(steps, changes, strict=True):
        bs = b @ s
        b = b - np.outer(bs, bs) / (s @ bs) + np.outer(y, y) / (y @ s)
    return b


def test_o8_of_one_pair() -> None:
    assert times([S1], [HESSIAN @ S1], np.array([0.0, 1, 2])) == pytest.approx([1, 2.5, 4], abs=1e-12)


def test_o8_of_two_pairs() -> None:
    steps, changes = [S1, S2], [HESSIAN @ S1, HESSIAN @ S2]
    found = times(steps, changes, np.array([0.0, 1, 2]))
    assert found == pytest.approx([0.839285714, 3.160714286, 7], abs=1e-9)
    assert times(steps, changes, S2) == pytest.approx([3, 4, 0], abs=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 4), st.sampled_from([1e-3, 1.0, 1e4]))
def test_it_is_the_recursive_form(seed: int, count: int, scale: float) -> None:
    chance = np.random.default_rng(seed)
    root = chance.normal(size=(20, 20))
    hessian = root @ root.T + 20 * np.eye(20)
    steps = [chance.normal(size=20) * scale * 10.0**at for at in range(count)]
    changes = [hessian @ s for s in steps]
    v = chance.normal(size=20)
    expected = recursive(steps, changes) @ v
    assert np.abs(times(steps, changes, v) - expected).max() <= 1e-10 * np.abs(expected).max()
    newest = times(steps, changes, steps[-1])
    assert np.abs(newest - changes[-1]).max() <= 1e-10 * np.abs(changes[-1]).max()


def test_a_pair_of_negative_curvature_is_left_out() -> None:
    """Unguarded, it would make B (0, 1) = (.10, -.52) of these two, which no minimum has."""
    steps = [np.array([1.0, 0]), np.array([1, 0.001])]
    changes = [np.array([0.5, 0.1]), np.array([-0.5, 0.1])]
    v = np.array([0.0, 1])
    assert times(steps, changes, v).tolist() == times(steps[:1], changes[:1], v).tolist()
    unguarded = recursive(steps, changes) @ v
    assert unguarded == pytest.approx([0.1005197, -0.5197041], abs=1e-7)


@pytest.mark.parametrize(
    ("s", "y"),
    [
        ([1, 0], [-1, 0]),
        ([1, 0], [0, 1]),
        ([0, 0], [1, 0]),
        ([1, 0], [0, 0]),
        ([1, 0], [np.inf, 0]),
        ([1e200, 0], [1, 0]),
    ],
)
def test_without_a_usable_pair_there_is_no_curvature(s: list[float], y: list[float]) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        table = Pairs([[float(np.dot(s, s))]], [[float(np.dot(s, y))]], [float(np.dot(y, y))])
    assert table.usable == []
    assert product(table, [1.0], [1.0]) == (0.0, [0.0], [0.0])


def test_a_pair_that_came_twice_is_as_one() -> None:
    found = times([S1, S1], [HESSIAN @ S1, HESSIAN @ S1], np.array([0.0, 1, 2]))
    assert found == pytest.approx([1, 2.5, 4], abs=1e-12)


def test_no_pair_at_all() -> None:
    assert product(Pairs([], [], []), [], []) == (0.0, [], [])


def test_a_system_is_solved_by_its_largest_pivots() -> None:
    assert solved([[0, 2], [4, 1]], [6, 7]) == [1.0, 3.0]
    assert solved([[1, 2], [2, 4]], [1, 2]) is None
    assert solved([], []) == []
