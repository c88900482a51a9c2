"""Distances to what was predicted: the numbers of the specification, and the same from whole matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from flnet.coarse import Kept
from flnet.params import Array, ParamSpec, PeerId, Schema, Update
from flnet.strategies.forecast import FARTHEST, MOST_PAIRS, Known, Moves, Seen, moved, pairs_kept, seen
from flnet.vectors import BLOCK
from tests.helpers import params, update

B = [np.array(one) for one in ([0.0, 0], [1.0, 0], [1.5, 0.5])]


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
        PeerId(f"p{at}"): Known(Kept(np.array(g)), 1)
        for at, g in enumerate([[-0.5, -0.4], [-0.6, -0.5], [-0.4, -0.6]])
    }
    changes = [[-0.2, -0.1], [-0.3, -0.2], [2.0, 1.0]]
    there = [update(f"p{at}", w=(B[2] - g)) for at, g in enumerate(changes)]
    found = looked_at(B, known, there)
    assert list(found.distances.values()) == pytest.approx([0.3041381265, 0.3041381265, 2.7536339626], abs=1e-9)
    for at, one in enumerate(found.changes.values()):
        assert one.numbers == pytest.approx(changes[at], abs=1e-15)


def test_o9_without_curvature() -> None:
    """Where the gradient fell along the last step, what is expected is the last change itself."""
    bases = [np.array([0.0, 0]), np.array([1.0, 0]), np.array([2.5, -0.2])]  # the second change is (-.5, .2)
    known = {PeerId("p"): Known(Kept(np.array([-0.5, -0.4])), 1)}
    there = [update("p", w=(bases[-1] - [-0.2, -0.1]))]
    found = looked_at(bases, known, there)
    assert found.distances[PeerId("p")] == pytest.approx(0.4242640687, abs=1e-9)


def test_of_a_quadratic_the_forecast_is_far_better_than_the_last_change() -> None:
    """Gradient H (w - a): what one step changes follows from the curvature that the bases tell."""
    hessian, a = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -2])
    bases = [np.array([5.0, 5])]
    for _ in range(5):
        bases.append(bases[-1] - 0.2 * hessian @ (bases[-1] - a))
    mine = [0.2 * hessian @ (base - [3, 3]) for base in bases]  # another minimum, the same curvature
    for ago in (1, 2):
        known = {PeerId("p"): Known(Kept(mine[-1 - ago]), ago)}
        there = [update("p", w=(bases[-1] - mine[-1]))]
        error = looked_at(bases, known, there).distances[PeerId("p")]
        assert error < 0.2 * float(np.linalg.norm(mine[-1] - mine[-1 - ago]))


def test_over_many_numbers_products_are_those_of_numpy() -> None:
    bases = list(np.random.default_rng(1).normal(size=(4, 300_001)))
    moves = np.diff(np.stack(bases), axis=0)
    np.testing.assert_allclose(walked(bases).products, moves @ moves.T, rtol=1e-11, atol=1e-7)


def test_arrays_lie_one_after_another_by_name() -> None:
    base = params("float64", b=[1, 2], a=[[3], [4]], n=np.array([7]))
    schema = Schema.of(base)
    here = update("p", b=[0, 0], a=[[0], [0]], n=np.array([9]))
    found = seen(Moves(), np.array([3.0, 4, 1, 2]), {}, [here], schema)
    assert found.changes[PeerId("p")].numbers.tolist() == [3, 4, 1, 2]
    assert found.distances == {}


@pytest.mark.parametrize("sizes", [(BLOCK - 1, 2, BLOCK), (5, 2 * BLOCK), (BLOCK, BLOCK)])
def test_blocks_run_on_from_array_to_array(sizes: tuple[int, ...]) -> None:
    base = params("float64", **{f"w{at}": np.zeros(size) for at, size in enumerate(sizes)})
    arrays: dict[str, Any] = {
        name: np.random.default_rng(len(one)).normal(size=one.shape) for name, one in base.items()
    }
    flat = np.concatenate(list(arrays.values()))
    found = seen(Moves(), np.zeros(flat.size), {}, [update("p", **arrays)], Schema.of(base))
    np.testing.assert_array_equal(found.changes[PeerId("p")].numbers, -flat)


def test_only_the_newest_moves_are_looked_at() -> None:
    bases = list(np.random.default_rng(2).normal(size=(20, 3)))
    found = walked(bases)
    assert len(found.kept) == len(found.products) == MOST_PAIRS + 1
    moves = np.diff(np.stack(bases), axis=0)[-MOST_PAIRS - 1 :]
    np.testing.assert_allclose(found.products, moves @ moves.T, rtol=1e-12)
    assert found.last(2).products == [[*row[-2:]] for row in found.products[-2:]]


def test_what_is_too_far_to_be_computed_is_very_far() -> None:
    known = {PeerId("p"): Known(Kept(np.zeros(1)), 1)}
    there = [update("p", w=[1e300])]
    found = looked_at([np.zeros(1), np.zeros(1)], known, there)
    assert found.distances[PeerId("p")] == FARTHEST


@pytest.mark.parametrize(
    ("numbers", "pairs"), [(10, MOST_PAIRS), (10_000_000, 5), (30_000_000, 1), (40_000_000, 0), (10**9, 0)]
)
def test_of_larger_models_fewer_pairs_are_kept(numbers: int, pairs: int) -> None:
    schema = Schema({"w": ParamSpec((numbers,), "float32"), "n": ParamSpec((10**9,), "int64", "max")})
    assert pairs_kept(schema) == pairs
