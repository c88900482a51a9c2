"""Cuts parameters into contiguous segments, which different nodes average.

All arrays, in the order of their names, are one row of numbers; a segment is a stretch of it. It is held as named arrays,
too: of each array that it meets, the numbers that lie in it, in a single dimension. So a rule that works number by number
makes of the segments of all updates the segment of what it makes of the updates, to the last bit.

Delgado Bejarano, MLFedAvg (2024), section 3.1.4, after BACombo (Jiang and Hu 2020): segments of nearly equal size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flnet.errors import ParamsRefused
from flnet.params.params import Array, Params, Schema
from flnet.text import text


@dataclass(frozen=True)
class Stretch:
    """A part of one array, as numbers from `start` to `stop` of it in row-major order."""

    name: str
    start: int
    stop: int


class Segments:
    """How the parameters of one schema are cut.

    Attributes:
        count: how many segments there are; at most as many as numbers.
    """

    def __init__(self, schema: Schema, count: int) -> None:
        """Args:
        count: how many are wanted.

        Raises:
            ValueError: fewer than 1.
        """
        if count < 1:
            raise ValueError(text("{count} segments; expected at least 1", count))
        self._schema = schema
        self.count = min(count, max(1, schema.numbers))

    @cached_property
    def stretches(self) -> Sequence[Sequence[Stretch]]:
        """By segment: what it holds. The sizes of two segments differ by one number at most."""
        total = self._schema.numbers
        ends = [total * (place + 1) // self.count for place in range(self.count)]
        cut: list[list[Stretch]] = [[] for _ in ends]
        at = place = 0
        for name, spec in sorted(self._schema.specs.items()):
            size, start = math.prod(spec.shape), 0
            while start < size:
                stop = min(size, start + ends[place] - at)
                cut[place].append(Stretch(name, start, stop))
                at, start = at + stop - start, stop
                place += at == ends[place]
        return cut

    @cached_property
    def schemas(self) -> Sequence[Schema]:
        """By segment: its schema."""
        return [
            replace(
                self._schema,
                specs={
                    part.name: replace(self._schema.specs[part.name], shape=(part.stop - part.start,))
                    for part in stretches
                },
            )
            for stretches in self.stretches
        ]

    def cut(self, params: Mapping[str, Array]) -> list[Params]:
        """The segments of these parameters, as views of them.

        Args:
            params: of the schema.
        """
        flat = {name: np.ravel(params[name]) for name in self._schema.specs}
        return [
            Params({part.name: flat[part.name][part.start : part.stop] for part in stretches})
            for stretches in self.stretches
        ]

    def joined(self, segments: Sequence[Mapping[str, Array]]) -> Params:
        """The parameters that were cut into these segments.

        Raises:
            ParamsRefused: a segment is missing, or does not have its form.
        """
        if len(segments) != self.count:
            raise ParamsRefused(text("{count} segments; expected {number}", len(segments), self.count))
        parts: dict[str, list[Array]] = {name: [] for name in self._schema.specs}
        for segment, schema in zip(segments, self.schemas, strict=True):
            for name, array in schema.conform(segment).items():
                parts[name].append(array)
        specs = self._schema.specs
        whole = {
            name: np.concatenate([np.empty(0, specs[name].dtype), *arrays]).reshape(specs[name].shape)
            for name, arrays in parts.items()
        }
        return Params(whole)
