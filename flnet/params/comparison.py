"""Distances and angles between two sets of parameters, for a person who compares two models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from flnet.params.params import Array

_BLOCK = 131_072  # numbers that are looked at together in float64: 1 MiB for each of the two


@dataclass(frozen=True)
class Difference:
    """How two arrays, or all arrays of two models, differ.

    Attributes:
        name: of the array; empty for all together.
        numbers: how many numbers were compared.
        mean: of the absolute differences; None where float64 cannot hold it.
        largest: absolute difference; None where float64 cannot hold it.
        cosine: of the angle between them, in [-1, 1]; None where one of them is all zeros, or empty.
    """

    name: str
    numbers: int
    mean: float | None
    largest: float | None
    cosine: float | None


@dataclass(frozen=True)
class ModelComparison:
    """Two models side by side.

    Attributes:
        arrays: those that both have in one shape, by name.
        total: all these together.
        unlike: names that only one has, or that have different shapes; they are not compared.
    """

    arrays: tuple[Difference, ...]
    total: Difference
    unlike: tuple[str, ...]


@dataclass(frozen=True)
class _Sums:
    """Sums over pairs of numbers; the sums of two parts can be added."""

    numbers: int = 0
    absolute: float = 0.0
    largest: float = 0.0
    product: float = 0.0
    square: float = 0.0
    other_square: float = 0.0

    def __add__(self, more: _Sums) -> _Sums:
        return _Sums(
            self.numbers + more.numbers,
            self.absolute + more.absolute,
            max(self.largest, more.largest),
            self.product + more.product,
            self.square + more.square,
            self.other_square + more.other_square,
        )

    def named(self, name: str) -> Difference:
        length = math.sqrt(self.square) * math.sqrt(self.other_square)
        cosine = _finite(self.product / length) if length > 0 else None
        return Difference(
            name,
            self.numbers,
            _finite(self.absolute / self.numbers) if self.numbers else 0.0,
            _finite(self.largest),
            None if cosine is None else min(1.0, max(-1.0, cosine)),
        )


def compare(left: Mapping[str, Array], right: Mapping[str, Array]) -> ModelComparison:
    """Compare array by array, in float64, without a copy of either model.

    Args:
        one: arrays by name, of any numeric or boolean dtype.
        other: the same; names and shapes may differ.
    """
    both = sorted(name for name in left.keys() & right.keys() if left[name].shape == right[name].shape)
    sums = {name: _total(_blocks(left[name], right[name])) for name in both}
    unlike = sorted((left.keys() | right.keys()) - set(both))
    differences = tuple(total.named(name) for name, total in sums.items())
    return ModelComparison(differences, _total(sums.values()).named(""), tuple(unlike))


def _total(parts: Iterable[_Sums]) -> _Sums:
    return sum(parts, _Sums())


def _blocks(left: Array, right: Array) -> Iterator[_Sums]:
    flat, flat_other = np.ravel(left), np.ravel(right)
    for start in range(0, flat.size, _BLOCK):
        a = flat[start : start + _BLOCK].astype(np.float64)
        b = flat_other[start : start + _BLOCK].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.abs(a - b)
            sums = (distance.sum(), distance.max(), (a * b).sum(), (a * a).sum(), (b * b).sum())
        yield _Sums(a.size, *map(float, sums))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
