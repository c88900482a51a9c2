"""Cuts parameters into contiguous segments, which different nodes average.

All arrays, in the order of their names, are one row of numbers; a segment is a stretch of it. It is held as named arrays,
too: of each array that it meets, the numbers that lie in it, in a single dimension. So a rule that works number by number
makes of the segments of all updates the segment of what it makes of the updates, to the last bit.

Large arrays are cut between blocks of 256 numbers only. So a segment of an update that was rounded to float16 or int8 can
be packed without loss, as the whole update can: each block is packed by itself (`flnet.params.quantization`).

Delgado Bejarano, MLFedAvg (2024), section 3.1.4, after BACombo (Jiang and Hu 2020): segments of nearly equal size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from flnet.errors import ParamsRefused
from flnet.params.arithmetic import piece_of
from flnet.params.params import Array, Params, Schema
from flnet.text import text

T = TypeVar("T")


@dataclass(frozen=True)
class Stretch:
    """A part of one array, as numbers from `start` to `stop` of it in row-major order."""

    name: str
    start: int
    stop: int


def side_by_side(segments: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """What several segments hold by name, under names that tell which segment it is of."""
    return {f"{place}/{name}": held for place, segment in enumerate(segments) for name, held in segment.items()}


def taken_apart(params: Mapping[str, Array], forms: Sequence[Schema]) -> list[Params]:
    """The segments of these forms that stand side by side.

    Raises:
        ParamsRefused: a segment does not have its form.
    """
    return [
        form.conform({name: params[at] for name in form.specs if (at := f"{place}/{name}") in params})
        for place, form in enumerate(forms)
    ]


class Segments:
    """How the parameters of one schema are cut.

    Attributes:
        count: how many segments there are; at most as many as places to cut at.
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
        self._sizes = {name: math.prod(spec.shape) for name, spec in sorted(schema.specs.items())}
        places = sum(-(-size // piece_of(size)) for size in self._sizes.values())
        self.count = min(count, max(1, places))

    @cached_property
    def stretches(self) -> Sequence[Sequence[Stretch]]:
        """By segment: what it holds. Segments are equally large, but for the blocks that are not cut."""
        ends = self._ends()
        cut: list[list[Stretch]] = [[] for _ in range(self.count)]
        at = place = 0
        for name, size in self._sizes.items():
            start = 0
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

    def _ends(self) -> list[int]:
        """Where segments end in the row of all numbers: at the first place after each equal part, no two at the same."""
        at, arrays = 0, [np.empty(0, np.int64)]
        for size in self._sizes.values():
            piece = piece_of(size)
            arrays.append(at + np.minimum(np.arange(piece, size + piece, piece), size))
            at += size
        places, last, ends = np.concatenate(arrays), -1, list[int]()
        parts = [at * (place + 1) // self.count for place in range(self.count)] if at else []
        for place, index in enumerate(np.searchsorted(places, parts)):
            last = max(last + 1, min(int(index), places.size - self.count + place))
            ends.append(int(places[last]))
        return ends

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
