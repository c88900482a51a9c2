"""The arithmetic of merging: means, maxima and minima of parameters, all at once or one after another.

All nodes that hold the same updates must get the same result to the last bit, whatever they have for a
processor and however the updates came in. So a mean is the sum of float64(weight) * float64(number) in the
order given, divided by the sum of the weights at the end, and rounded once to the dtype of the array. These
are steps that IEEE 754 fixes; a matrix product of BLAS is not, for it sums in an order of its own.

Work goes block by block: what a step writes stays in a core's cache, and the next step finds it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flnet.blob import Memory, fresh
from flnet.params import Array, MergeRule, Params, ParamSpec, Schema

Block = NDArray[np.float64]

# A block in float64 is half a MiB: two of them, and what is read, fit the caches near a core, which another thread
# may share. On an AMD EPYC blocks of 32 Ki numbers took 1.25 x as long as those of 128 Ki; on an Intel Xeon 0.9 x.
_BLOCK = 65_536
# Sums over float64 numbers near their maximum would overflow. Weights of this part of theirs, a power of
# two and so exact, add up to less than 1 over a million peers of 10^12 examples and 10^6 labels each.
_PART = 2.0**-80
_NOTHING = "nothing to merge: expected at least one set of parameters"


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
        """Take what is held into the sum and let go of it."""
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
        """Give back the memory of the sum over array `name`."""
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
        """Let one more set count; nothing of it is held."""
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
    """Parameters of (factor * sum + factor * sum + ...) / divisor, beside the maxima and minima.

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
    """Merge parameters name by name: the mean with these weights, or the maximum or minimum.

    Weights are renormalised over what is given; if all are 0, the plain mean is taken (rules R3 and R5).

    Raises:
        ValueError: nothing to merge, or a weight is negative or not finite.
    """
    if not weighted:
        raise ValueError(_NOTHING)
    weights = [float(weight) for _, weight in weighted]
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError(f"weights must be finite and not negative, got {weights}")
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
    flat = _numbers(memory, math.prod(spec.shape), np.dtype(spec.dtype))
    out, limit = flat.reshape(spec.shape), float(np.finfo(flat.dtype).max)
    for start in _starts(spec):
        total, *others = [
            _times(one.block(name, start, room), factor) for (one, factor), room in zip(sums, rooms, strict=True)
        ]
        for other in others:
            np.add(total, other, out=total)
        with np.errstate(over="ignore"):  # a mean cannot pass the maximum by more than its rounding
            np.divide(total, divisor * _part(spec), out=total)
        if _part(spec) != 1:
            np.clip(total, -limit, limit, out=total)
        flat[start : start + _BLOCK] = total
    for one, _ in sums:
        one.forget(name)
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
    """Whether weight * x / weight is every x again: float64 is wide enough for all but its own numbers."""
    return all(_part(spec) == 1 for spec in specs.values() if is_mean(spec))


def is_mean(spec: ParamSpec) -> bool:
    """Whether an array is averaged; all others are merged by maximum or minimum."""
    return spec.merge == "mean" and np.dtype(spec.dtype).kind == "f"


def _numbers(memory: Memory, count: int, dtype: DTypeLike) -> Array:
    wanted = np.dtype(dtype)
    return memory(count * wanted.itemsize).view(wanted)
