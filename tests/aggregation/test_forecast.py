"""Distances to what was predicted: the numbers of the specification, and the same from whole matrices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from flnet.aggregation.forecast import (
    FARTHEST,
    MOST_PAIRS,
    Known,
    Moves,
    Pairs,
    Seen,
    moved,
    pairs_kept,
    product,
    seen,
    solved,
)
from flnet.params.arithmetic import BLOCK
from flnet.params.params import Array, ParamSpec, PeerId, Schema
from flnet.params.quantization import StoredVector
from flnet.protocol.updates import Update
from tests.helpers import params, update

B = [np.array(each) for each in ([0.0, 0], [1.0, 0], [1.5, 0.5])]


def walked(bases: list[Array]) -> Moves:
    """From the first to the last of these."""
    moves, schema = Moves(), Schema.of(params("float64", w=bases[0]))
    for last, base in itertools.pairwise(bases):
        moves = moved(moves, last, base, schema)
    return moves


def looked_at(bases: list[Array], known: dict[PeerId, Known], there: list[Update]) -> Seen:
    return seen(walked(bases), bases[-1], known, there, Schema.of(there[0].params))


def test_o9_distances() -> None:
    known = {
        PeerId(f"p{at}"): Known(StoredVector(np.array(g)), 1)
        for at, g in enumerate([[-0.5, -0.4], [-0.6, -0.5], [-0.4, -0.6]])
    }
    changes = [[-0.2, -0.1], [-0.3, -0.2], [2.0, 1.0]]
    updates = [update(f"p{at}", w=(B[2] - g)) for at, g in enumerate(changes)]
    result = looked_at(B, known, updates)
    assert list(result.distances.values()) == pytest.approx([0.3041381265, 0.3041381265, 2.7536339626], abs=1e-9)
    for at, value in enumerate(result.changes.values()):
        assert value.numbers == pytest.approx(changes[at], abs=1e-15)


def test_o9_without_curvature() -> None:
    """Where the gradient fell along the last step, what is expected is the last change itself."""
    bases = [np.array([0.0, 0]), np.array([1.0, 0]), np.array([2.5, -0.2])]  # the second change is (-.5, .2)
    known = {PeerId("p"): Known(StoredVector(np.array([-0.5, -0.4])), 1)}
    updates = [update("p", w=(bases[-1] - [-0.2, -0.1]))]
    result = looked_at(bases, known, updates)
    assert result.distances[PeerId("p")] == pytest.approx(0.4242640687, abs=1e-9)


def test_of_a_quadratic_the_forecast_is_far_better_than_the_last_change() -> None:
    """Gradient H (w - a): what one step changes follows from the curvature that the bases tell."""
    hessian, a = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -2])
    bases = [np.array([5.0, 5])]
    for _ in range(5):
        bases.append(bases[-1] - 0.2 * hessian @ (bases[-1] - a))
    mine = [0.2 * hessian @ (base - [3, 3]) for base in bases]  # another minimum, the same curvature
    for ago in (1, 2):
        known = {PeerId("p"): Known(StoredVector(mine[-1 - ago]), ago)}
        updates = [update("p", w=(bases[-1] - mine[-1]))]
        error = looked_at(bases, known, updates).distances[PeerId("p")]
        assert error < 0.2 * float(np.linalg.norm(mine[-1] - mine[-1 - ago]))


def test_over_many_numbers_products_are_those_of_numpy() -> None:
    bases = list(np.random.default_rng(1).normal(size=(4, 300_001)))
    moves = np.diff(np.stack(bases), axis=0)
    np.testing.assert_allclose(walked(bases).products, moves @ moves.T, rtol=1e-11, atol=1e-7)


def test_arrays_lie_one_after_another_by_name() -> None:
    base = params("float64", b=[1, 2], a=[[3], [4]], n=np.array([7]))
    schema = Schema.of(base)
    here = update("p", b=[0, 0], a=[[0], [0]], n=np.array([9]))
    result = seen(Moves(), np.array([3.0, 4, 1, 2]), {}, [here], schema)
    assert result.changes[PeerId("p")].numbers.tolist() == [3, 4, 1, 2]
    assert result.distances == {}


@pytest.mark.parametrize("sizes", [(BLOCK - 1, 2, BLOCK), (5, 2 * BLOCK), (BLOCK, BLOCK)])
def test_blocks_run_on_from_array_to_array(sizes: tuple[int, ...]) -> None:
    base = params("float64", **{f"w{at}": np.zeros(size) for at, size in enumerate(sizes)})
    arrays: dict[str, Any] = {
        name: np.random.default_rng(len(each)).normal(size=each.shape) for name, each in base.items()
    }
    flat = np.concatenate(list(arrays.values()))
    result = seen(Moves(), np.zeros(flat.size), {}, [update("p", **arrays)], Schema.of(base))
    np.testing.assert_array_equal(result.changes[PeerId("p")].numbers, -flat)


def test_only_the_newest_moves_are_looked_at() -> None:
    bases = list(np.random.default_rng(2).normal(size=(20, 3)))
    result = walked(bases)
    assert len(result.kept) == len(result.products) == MOST_PAIRS + 1
    moves = np.diff(np.stack(bases), axis=0)[-MOST_PAIRS - 1 :]
    np.testing.assert_allclose(result.products, moves @ moves.T, rtol=1e-12)
    assert result.last(2).products == [[*row[-2:]] for row in result.products[-2:]]


def test_what_is_too_far_to_be_computed_is_very_far() -> None:
    known = {PeerId("p"): Known(StoredVector(np.zeros(1)), 1)}
    updates = [update("p", w=[1e300])]
    result = looked_at([np.zeros(1), np.zeros(1)], known, updates)
    assert result.distances[PeerId("p")] == FARTHEST


@pytest.mark.parametrize(
    ("numbers", "pairs"), [(10, MOST_PAIRS), (10_000_000, 5), (30_000_000, 1), (40_000_000, 0), (10**9, 0)]
)
def test_of_larger_models_fewer_pairs_are_kept(numbers: int, pairs: int) -> None:
    schema = Schema({"w": ParamSpec((numbers,), "float32"), "n": ParamSpec((10**9,), "int64", "max")})
    assert pairs_kept(schema) == pairs


# The compact form beside numbers worked by hand and beside the recursive one.


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
    result = product(table, [float(s @ v) for s in steps], [float(y @ v) for y in changes])
    total = result.of_v * v
    for s, y, a, b in zip(steps, changes, result.of_steps, result.of_changes, strict=True):
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
    result = times(steps, changes, np.array([0.0, 1, 2]))
    assert result == pytest.approx([0.839285714, 3.160714286, 7], abs=1e-9)
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


def test_a_pair_that_came_twice_is_as_one_and_none_at_all_as_nothing() -> None:
    assert product(Pairs([], [], []), [], []) == (0.0, [], [])
    result = times([S1, S1], [HESSIAN @ S1, HESSIAN @ S1], np.array([0.0, 1, 2]))
    assert result == pytest.approx([1, 2.5, 4], abs=1e-12)


def test_a_system_is_solved_by_its_largest_pivots() -> None:
    assert solved([[0, 2], [4, 1]], [6, 7]) == [1.0, 3.0]
    assert solved([[1, 2], [2, 4]], [1, 2]) is None
    assert solved([], []) == []
