"""All averaged arrays of a set of parameters as one long vector: norms and inner products, and shortening.

Nodes that hold the same parameters must get the same bits, so sums are taken in a fixed order of steps that
IEEE 754 fixes, as in `flnet.merging`: in many lanes beside each other, block after block, and over the lanes at
the end with one rounding. A matrix product of BLAS would sum in an order of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.merging import is_mean
from flnet.params import Array, Params, PeerId, Schema

BLOCK = 131_072  # numbers that one step looks at, so that what it writes stays in a core's cache
_LANES = 4_096  # sums that are kept beside each other, so that their order is fixed and they are still quick


class Total:
    """A sum over many numbers in a fixed order; it comes in blocks."""

    def __init__(self, numbers: int) -> None:
        """Args:
        numbers: how many the longest of the arrays holds that the blocks are of.
        """
        self._lanes = np.zeros(max(1, min(_LANES, numbers)))

    def add(self, terms: Array) -> None:
        """Add all of these; not finite ones make the sum infinite."""
        whole = terms.size - terms.size % self._lanes.size
        with np.errstate(over="ignore", invalid="ignore"):
            rows = terms[:whole].reshape(-1, self._lanes.size)
            self._lanes += np.add.reduce(rows, axis=0)  # row after row
            self._lanes[: terms.size - whole] += terms[whole:]

    @property
    def value(self) -> float:
        """The sum, rounded once over the lanes; infinite if it is too large, or not a number."""
        return fsum(map(float, self._lanes)) if np.isfinite(self._lanes).all() else math.inf


def fsum(numbers: Iterable[float]) -> float:
    """The sum, rounded once; infinite if it is too large."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def averaged(schema: Schema) -> list[str]:
    """The names of the arrays that are averaged, in the order in which the vector holds them."""
    return sorted(name for name, spec in schema.specs.items() if is_mean(spec))


def longest(schema: Schema) -> int:
    """How many numbers the longest of the averaged arrays holds."""
    return max((math.prod(schema.specs[name].shape) for name in averaged(schema)), default=0)


def blocks(schema: Schema, sets: Sequence[Mapping[str, Array]]) -> Iterator[list[Array]]:
    """The same block of each set after another, as views in one dimension."""
    for name in averaged(schema):
        rows = [np.ravel(one[name]) for one in sets]
        for start in range(0, math.prod(schema.specs[name].shape), BLOCK):
            yield [row[start : start + BLOCK] for row in rows]


def distance(base: Mapping[str, Array], params: Mapping[str, Array], schema: Schema) -> float:
    """The L2 norm of params - base over all arrays that are averaged; infinite if it is too large to be computed.

    Squares of float32 arrays are taken in float32 and summed in float64: six digits, which is far more than a
    comparison with a median needs.
    """
    most = longest(schema)
    total, room = Total(most), np.empty(min(BLOCK, most))
    with np.errstate(over="ignore", invalid="ignore"):
        for there, here in blocks(schema, (base, params)):
            exact = np.result_type(here, np.float32)
            moved = room.view(exact)[: here.size]
            np.subtract(here, there, out=moved, dtype=exact)
            np.multiply(moved, moved, out=moved)
            total.add(moved)
    return math.sqrt(total.value)


def clipped(
    base: Mapping[str, Array], params: Params, schema: Schema, most: float, moved: float | None = None
) -> Params:
    """Parameters no farther than about `most` from the base, in the same direction.

    What is not averaged stays as it is. Rounding to the dtype of an array may leave them a little beyond; who
    clips them again shortens them again, everywhere alike.

    Args:
        most: an L2 norm, above 0.
        moved: how far they are, where that is known.
    """
    moved = distance(base, params, schema) if moved is None else moved
    if not moved > most:
        return params
    factor = most / moved if math.isfinite(moved) else 0.0
    shorter = {name: _shortened(base[name], params[name], factor) for name in averaged(schema)}
    return schema.conform(params.merged_with(shorter))


def usual_norm(norms: Iterable[float]) -> float:
    """The median of those above 0, of an even number the lower one; 0 if there are none.

    So fewer than half of those that moved can neither raise nor lower it beyond what the others did.
    """
    moved = sorted(one for one in norms if one > 0)
    return moved[(len(moved) - 1) // 2] if moved else 0.0


def distances(base: Mapping[str, Array], sets: Mapping[PeerId, Params], schema: Schema) -> dict[PeerId, float]:
    """How far each of these is from the base."""
    return {peer: distance(base, params, schema) for peer, params in sets.items()}


def _shortened(base: Array, params: Array, factor: float) -> Array:
    result = np.empty(params.shape, params.dtype)
    flat, there, here = result.reshape(-1), np.ravel(base), np.ravel(params)
    for start in range(0, flat.size, BLOCK):
        block = slice(start, start + BLOCK)
        moved: NDArray[np.float64] = np.subtract(here[block], there[block], dtype=np.float64)
        np.multiply(moved, factor, out=moved)
        np.add(moved, there[block], out=moved)
        flat[block] = moved
    return result
