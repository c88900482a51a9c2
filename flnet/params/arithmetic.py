"""Arithmetic on parameters: means, extremes, medians block by block, distances, and clipping.

All nodes that hold the same updates must get the same result to the last bit, on any processor and for any order of
arrival. So a mean is the sum of float64(weight) * float64(number) in the order given, divided by the sum of the weights
at the end, and rounded once to the dtype of the array. IEEE 754 fixes these steps. It does not fix a matrix product of
BLAS, which sums in an order of its own. Norms are summed piece by piece, and inner products in many lanes, block after
block; pieces and lanes are added at the end with one rounding.

Work goes block by block: the result of one step is still in a core's cache when the next step reads it. Rules that need
all updates at once (medians, trimmed means) see one block of each update, side by side in float64. They need memory for
the updates, one result and one block, and never for a second copy of all updates.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flnet.params import quantization
from flnet.params.blob import Memory, fresh
from flnet.params.params import Array, MergeRule, Params, ParamSpec, PeerId, Schema
from flnet.text import text

Block = NDArray[np.float64]

# A block in float64 is half a MiB: two of them, and what is read, fit the caches near a core, which another thread
# may share. On an AMD EPYC blocks of 32 Ki numbers took 1.25 x as long as those of 128 Ki; on an Intel Xeon 0.9 x.
_BLOCK = 65_536
# Sums over float64 numbers near their maximum would overflow. Weights of this part of theirs, a power of
# two and so exact, add up to less than 1 over a million peers of 10^12 examples and 10^6 labels each.
_PART = 2.0**-80
_NOTHING = text("nothing to merge: expected at least one set of parameters")


class WeightedSum:
    """The sum of weight * parameters in float64 over all arrays that are averaged.

    Sets that are added are held as they are until `fold` takes them into the sum and lets go of them. Who has all
    sets at once never needs memory for the sum; who gets them one by one never needs memory for the sets. The sum
    is the same to the last bit.
    """

    def __init__(self, specs: Mapping[str, ParamSpec], memory: Memory = fresh) -> None:
        """Start with nothing.

        Args:
            specs: the arrays of every set.
            memory: where the memory for sums comes from.
        """
        self._specs = {name: spec for name, spec in specs.items() if is_mean(spec)}
        self._memory = memory
        self._held: list[tuple[Mapping[str, Array], float]] = []
        self._sums: dict[str, Block] = {}

    def add(self, arrays: Mapping[str, Array], weight: float) -> None:
        """Add one set that counts `weight` times (finite, not negative); sets of weight 0 add nothing."""
        if weight > 0:
            self._held.append(({name: np.ravel(arrays[name]) for name in self._specs}, float(weight)))

    def fold(self) -> None:
        """Add the sets that are held to the sum, and release them."""
        if not self._held:
            return
        room = _room(self._specs.values())
        for name, spec in self._specs.items():
            empty = name not in self._sums
            total = self._sums[name] if not empty else _numbers(self._memory, math.prod(spec.shape), np.float64)
            for start in _starts(spec):
                self._add_held(name, start, total[start : start + _BLOCK], empty, room)
            self._sums[name] = total
        self._held = []

    def block(self, name: str, start: int, room: Block) -> Block:
        """The sum over the block of array `name` that begins at number `start`; it may be overwritten.

        Args:
            room: two rows of at least as many numbers as the block, to work in.
        """
        empty = name not in self._sums
        if empty and not self._held:
            raise ValueError(_NOTHING)
        size = min(_BLOCK, math.prod(self._specs[name].shape) - start)
        total = room[1, :size] if empty else self._sums[name][start : start + _BLOCK]
        self._add_held(name, start, total, empty, room)
        return total

    def forget(self, name: str) -> None:
        """Release the memory of the sum over array `name`."""
        self._sums.pop(name, None)

    def _add_held(self, name: str, start: int, total: Block, empty: bool, room: Block) -> None:
        """Add one block of all sets held to `total`, or write it there while that is still `empty`."""
        part, term = _part(self._specs[name]), room[0, : total.size]
        for arrays, weight in self._held:
            block = arrays[name][start : start + _BLOCK]
            if empty:
                np.multiply(block, weight * part, out=total, dtype=np.float64)
                empty = False
                continue
            np.copyto(term, block)
            np.multiply(term, weight * part, out=term)
            np.add(total, term, out=total)


class Extremes:
    """The maximum or minimum, number by number, of all arrays that are not averaged (rule R6)."""

    def __init__(self, specs: Mapping[str, ParamSpec]) -> None:
        """Start with nothing; `specs` are the arrays of every set."""
        self._rules = {
            name: np.minimum if spec.merge == "min" else np.maximum
            for name, spec in specs.items()
            if not is_mean(spec)
        }
        self.found: dict[str, Array] = {}

    def add(self, arrays: Mapping[str, Array]) -> None:
        """Include one more set, without keeping its arrays."""
        for name, rule in self._rules.items():
            if name in self.found:
                rule(self.found[name], arrays[name], out=self.found[name])
            else:
                self.found[name] = np.array(arrays[name])


def quotient(
    specs: Mapping[str, ParamSpec],
    sums: Sequence[tuple[WeightedSum, float]],
    divisor: float,
    extremes: Extremes,
    memory: Memory = fresh,
) -> Params:
    """The parameters (factor * sum + factor * sum + ...) / divisor, with the maxima and minima of the other arrays.

    The sums are used up: the memory of one is given back as soon as the array of the result is there.
    """
    rooms = [_room(specs.values()) for _ in sums]
    return Params(
        {
            name: _divided(name, spec, sums, divisor, rooms, memory) if is_mean(spec) else extremes.found[name]
            for name, spec in specs.items()
        }
    )


def weighted_mean(weighted: Sequence[tuple[Mapping[str, Array], float]], merge: Mapping[str, MergeRule]) -> Params:
    """The weighted mean of parameters, or the maximum or minimum for arrays that are not averaged.

    Weights are renormalised over what is given; if all are 0, the plain mean is taken (rules R3 and R5).

    Raises:
        ValueError: nothing to merge, or a weight is negative or not finite.
    """
    if not weighted:
        raise ValueError(_NOTHING)
    weights = [float(weight) for _, weight in weighted]
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError(text("weights must be finite and not negative, got {value}", weights))
    if len(weighted) == 1:
        return Params(weighted[0][0])
    specs = Schema.of(weighted[0][0], merge).specs
    total, extremes, shares = WeightedSum(specs), Extremes(specs), _at_most_one(weights)
    for (arrays, _), share in zip(weighted, shares, strict=True):
        total.add(arrays, share)
        extremes.add(arrays)
    # Not `sum`: from Python 3.12 on it rounds otherwise than before.
    return quotient(specs, [(total, 1.0)], math.fsum(shares), extremes)


def _at_most_one(weights: Sequence[float]) -> list[float]:
    """The weights divided by a power of two, which is exact, so that sums cannot overflow; 1 each if all are 0."""
    _, exponent = math.frexp(max(weights))
    return [math.ldexp(weight, -exponent) for weight in weights] if any(weights) else [1.0] * len(weights)


def _divided(
    name: str,
    spec: ParamSpec,
    sums: Sequence[tuple[WeightedSum, float]],
    divisor: float,
    rooms: Sequence[Block],
    memory: Memory,
) -> Array:
    flat = _numbers(memory, math.prod(spec.shape), spec.dtype)
    out, limit = flat.reshape(spec.shape), float(np.finfo(flat.dtype).max)
    for start in _starts(spec):
        total, *others = [
            _times(part.block(name, start, room), factor) for (part, factor), room in zip(sums, rooms, strict=True)
        ]
        for other in others:
            np.add(total, other, out=total)
        with np.errstate(over="ignore"):  # a mean cannot pass the maximum by more than its rounding
            np.divide(total, divisor * _part(spec), out=total)
        if _part(spec) != 1:
            np.clip(total, -limit, limit, out=total)
        flat[start : start + _BLOCK] = total
    for part, _ in sums:
        part.forget(name)
    return out


def _times(total: Block, factor: float) -> Block:
    return total if factor == 1 else np.multiply(total, factor, out=total)


def _starts(spec: ParamSpec) -> Iterator[int]:
    return iter(range(0, math.prod(spec.shape), _BLOCK))


def _room(specs: Iterable[ParamSpec]) -> Block:
    return np.empty((2, min(_BLOCK, max((math.prod(spec.shape) for spec in specs), default=0))))


def _part(spec: ParamSpec) -> float:
    return _PART if np.dtype(spec.dtype).itemsize >= 8 else 1.0


def comes_back(specs: Mapping[str, ParamSpec]) -> bool:
    """Whether weight * x / weight equals x for every x, which holds for all dtypes narrower than float64."""
    return all(_part(spec) == 1 for spec in specs.values() if is_mean(spec))


def is_mean(spec: ParamSpec) -> bool:
    """Whether an array is averaged; all others are merged by maximum or minimum."""
    return spec.merge == "mean" and np.dtype(spec.dtype).kind == "f"


def _numbers(memory: Memory, count: int, dtype: DTypeLike) -> Array:
    wanted = np.dtype(dtype)
    return memory(count * wanted.itemsize).view(wanted)


Rows = NDArray[np.float64]  # (updates, numbers)
# (updates, numbers) -> (numbers,); it may write into what it is given.
Rule = Callable[[Rows], NDArray[np.float64]]

_NUMBERS = 131_072  # in float64 that a rule looks at together: 1 MiB
_NETWORK = 64  # rows up to which comparing whole rows is quicker than sorting each column by itself
_FEWEST = 1_024  # numbers of one update in a block, however many updates there are


def blockwise(
    specs: Mapping[str, ParamSpec], sets: Sequence[Mapping[str, Array]], rule: Rule, memory: Memory = fresh
) -> Params:
    """Apply `rule` to every averaged number over all sets, block by block.

    What is not averaged is merged by maximum or minimum, as everywhere (rule R6).

    Args:
        specs: the arrays of every set.
        sets: parameters, at least one.
        memory: where the memory for the result comes from.

    Raises:
        ValueError: there are no sets.
    """
    if not sets:
        raise ValueError(_NOTHING)
    extremes = Extremes(specs)
    for params in sets:
        extremes.add(params)
    width = max(_FEWEST, _NUMBERS // len(sets))
    room = np.empty((len(sets), min(width, max((math.prod(spec.shape) for spec in specs.values()), default=0))))
    return Params(
        {
            name: _ruled(name, spec, sets, rule, room, memory) if is_mean(spec) else extremes.found[name]
            for name, spec in specs.items()
        }
    )


def sort_columns(rows: Rows) -> None:
    """Put every column of finite numbers in rising order, in place.

    A sorting network compares whole rows with each other, which for a few rows takes a quarter of the time that
    sorting column by column does.

    Args:
        rows: (updates, numbers).
    """
    if len(rows) > _NETWORK:
        rows.sort(axis=0)
        return
    smaller = np.empty(rows.shape[1])
    for upper, lower in _comparisons(len(rows)):
        np.minimum(rows[upper], rows[lower], out=smaller)
        np.maximum(rows[upper], rows[lower], out=rows[lower])
        rows[upper] = smaller


def middle(rows: Rows) -> NDArray[np.float64]:
    """The median of every column; `rows` (updates, numbers) are sorted in place."""
    sort_columns(rows)
    upper = len(rows) // 2
    middle: NDArray[np.float64] = rows[upper]
    if len(rows) % 2 == 0:
        middle = rows[upper - 1] * 0.5 + middle * 0.5  # halved first: a sum could overflow
    return middle


@cache
def _comparisons(count: int) -> tuple[tuple[int, int], ...]:
    """Batcher's merge exchange (Knuth, "The Art of Computer Programming", 5.2.2, Algorithm M)."""
    return tuple(_exchanged(count))


def _exchanged(count: int) -> Iterator[tuple[int, int]]:
    top = 1 << max(0, (count - 1).bit_length() - 1)
    step = top if count > 1 else 0
    while step:
        width, part, apart = top, 0, step
        while True:
            yield from ((row, row + apart) for row in range(count - apart) if row & step == part)
            if width == step:
                break
            apart, width, part = width - step, width // 2, step
        step //= 2


def _ruled(
    name: str,
    spec: ParamSpec,
    sets: Sequence[Mapping[str, Array]],
    rule: Rule,
    room: Rows,
    memory: Memory,
) -> Array:
    count = math.prod(spec.shape)
    flat = _numbers(memory, count, spec.dtype)
    sources = [np.ravel(params[name]) for params in sets]
    for start in range(0, count, room.shape[1] or 1):
        rows = room[:, : min(room.shape[1], count - start)]
        for row, source in zip(rows, sources, strict=True):
            np.copyto(row, source[start : start + rows.shape[1]])
        # Plus 0: of 0 and -0 the smaller is whichever a processor takes for it, and all nodes need the same bits.
        flat[start : start + rows.shape[1]] = rule(rows) + 0.0
    return flat.reshape(spec.shape)


BLOCK = 131_072  # numbers that one step looks at, so that what it writes stays in a core's cache
_LANES = 4_096  # parallel sums, which fix the order of the additions and are still fast


class Total:
    """A sum over many numbers in a fixed order, added block by block."""

    def __init__(self, numbers: int) -> None:
        """Args:
        numbers: how many the longest of the arrays holds that the blocks are of.
        """
        self._lanes = np.zeros(max(1, min(_LANES, numbers)))

    def add(self, terms: Array) -> None:
        """Add all of these numbers; one that is not finite makes the sum infinite."""
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


def weight_names(schema: Schema) -> list[str]:
    """The names of the averaged arrays that training steps, in the order in which the vector holds them.

    Buffers, such as running means, are none: how far they move says nothing of what was learnt, and they would be most
    of a distance.
    """
    return sorted(name for name, spec in schema.specs.items() if is_mean(spec) and not spec.is_buffer)


def buffer_names(schema: Schema) -> list[str]:
    """The names of the averaged arrays that training sets without gradients, in order."""
    return sorted(name for name, spec in schema.specs.items() if is_mean(spec) and spec.is_buffer)


def longest(schema: Schema, names: Sequence[str] | None = None) -> int:
    """How many numbers the longest of these arrays holds, by default of the weights."""
    names = weight_names(schema) if names is None else names
    return max((math.prod(schema.specs[name].shape) for name in names), default=0)


def blocks(
    schema: Schema, sets: Sequence[Mapping[str, Array]], names: Sequence[str] | None = None
) -> Iterator[list[Array]]:
    """The blocks of these arrays, by default of the weights: for each block, one flat view per set."""
    for name in weight_names(schema) if names is None else names:
        rows = [np.ravel(params[name]) for params in sets]
        for start in range(0, math.prod(schema.specs[name].shape), BLOCK):
            yield [row[start : start + BLOCK] for row in rows]


Parts = tuple[float, ...]  # numbers that add up, without any rounding, to what they stand for
Squares = tuple[Parts, Parts]  # how far a segment of an update moved, squared: its weights, and its buffers
_COLUMNS = 16


def distance(
    base: Mapping[str, Array], params: Mapping[str, Array], schema: Schema, names: Sequence[str] | None = None
) -> float:
    """The L2 norm of params - base over these arrays, by default the weights; infinite if too large to be computed.

    Squares of float32 arrays are taken in float32, and summed so in pieces of 256 numbers: six digits, which is far more
    than a comparison with a median needs. The sums of the pieces are added with one rounding at the end, so the norm does
    not depend on how parameters are cut into segments.
    """
    return norm_of(squares(base, params, schema.specs, weight_names(schema) if names is None else names))


def norm_of(squares: Iterable[float]) -> float:
    """The root of a sum of squares, which is rounded once; infinite if it is too large."""
    return math.sqrt(max(0.0, fsum(squares)))


def piece_of(size: int) -> int:
    """How many numbers of an array stay together, wherever it is cut.

    Args:
        size: numbers of the whole array.
    """
    return quantization.BLOCK if size >= quantization.MIN_NUMBERS else 1


def squares(
    base: Mapping[str, Array], params: Mapping[str, Array], specs: Mapping[str, ParamSpec], names: Iterable[str]
) -> list[float]:
    """The sums of squares of params - base over these arrays, piece by piece (`piece_of`).

    Args:
        base, params: whole arrays, or what lies of them in a segment.
        specs: of the whole arrays.
    """
    sums: list[float] = []
    for name in names:
        here, there, piece = np.ravel(params[name]), np.ravel(base[name]), piece_of(math.prod(specs[name].shape))
        exact = np.result_type(here, np.float32)
        room = np.empty(min(BLOCK, -(-here.size // piece) * piece), exact)
        for start in range(0, here.size, BLOCK):
            block = slice(start, min(start + BLOCK, here.size))
            size = block.stop - start
            moved = room[: -(-size // piece) * piece]
            moved[size:] = 0
            with np.errstate(over="ignore", invalid="ignore"):
                np.subtract(here[block], there[block], out=moved[:size], dtype=exact)
                np.multiply(moved, moved, out=moved)
                sums += _piece_sums(moved.reshape(-1, piece)).tolist()
    return sums


def _piece_sums(pieces: Array) -> Array:
    """The sum of each row in an order that is the same on all processors: half is added to half, until one is left."""
    while pieces.shape[1] > _COLUMNS:
        half = pieces.shape[1] // 2
        pieces = pieces[:, :half] + pieces[:, half:]
    columns = np.ascontiguousarray(pieces.T)  # long rows are added faster than short ones
    while len(columns) > 1:
        half = len(columns) // 2
        columns = columns[:half] + columns[half:]
    sums: Array = columns[0]
    return sums


def parts_of(numbers: Sequence[float]) -> Parts:
    """A few numbers with the exact sum of all of these, for who adds others to it."""
    rest, parts = [*numbers], list[float]()
    while part := fsum(rest):
        if math.isinf(part):
            return sys.float_info.max, sys.float_info.max  # too large together, too, and can be written in JSON
        parts.append(part)
        rest.append(-part)
    return tuple(parts)


def norm(params: Mapping[str, Array], schema: Schema) -> float:
    """The L2 norm of all weights; infinite if it is too large to be computed."""
    total = Total(longest(schema))
    with np.errstate(over="ignore"):
        for (block,) in blocks(schema, (params,)):
            total.add(np.square(block, dtype=np.float64))
    return math.sqrt(total.value)


def clipped(
    base: Mapping[str, Array], params: Params, schema: Schema, most: float, moved: float | None = None
) -> Params:
    """Parameters no farther than about `most` from the base, in the same direction.

    What is not a weight stays as it is. Rounding to the dtype of an array may leave them a little beyond; who
    clips them again shortens them again, everywhere alike.

    Args:
        most: an L2 norm, above 0.
        moved: how far they are, where that is known.
    """
    moved = distance(base, params, schema) if moved is None else moved
    if not moved > most:
        return params
    factor = most / moved if math.isfinite(moved) else 0.0
    shorter = {name: _shortened(base[name], params[name], factor) for name in weight_names(schema)}
    return schema.conform(params.merged_with(shorter))


def usual_norm(norms: Iterable[float]) -> float:
    """The median of the norms above 0 (the lower one of an even count); 0 if there are none.

    So fewer than half of those that moved can neither raise nor lower it beyond what the others did.
    """
    moved = sorted(norm for norm in norms if norm > 0)
    return moved[(len(moved) - 1) // 2] if moved else 0.0


def distances(base: Mapping[str, Array], sets: Mapping[PeerId, Params], schema: Schema) -> dict[PeerId, float]:
    """The distance of each of these parameters from the base."""
    return {peer: distance(base, params, schema) for peer, params in sets.items()}


def _shortened(base: Array, params: Array, factor: float) -> Array:
    result = np.empty(params.shape, params.dtype)
    flat, start_block, here = result.reshape(-1), np.ravel(base), np.ravel(params)
    for start in range(0, flat.size, BLOCK):
        block = slice(start, start + BLOCK)
        moved: NDArray[np.float64] = np.subtract(here[block], start_block[block], dtype=np.float64)
        np.multiply(moved, factor, out=moved)
        np.add(moved, start_block[block], out=moved)
        flat[block] = moved
    return result
