"""Merging number by number where a rule needs all updates beside each other: medians, trimmed means.

The numbers of all updates are looked at block by block: a block of each, beside each other in float64, small
enough for a core's cache. So memory is needed for the updates, one result and one block, and never for all
updates twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from flnet.blob import Memory, fresh
from flnet.merging import Extremes, is_mean
from flnet.params import Array, Params, ParamSpec

Rows = NDArray[np.float64]  # (updates, numbers)
Rule = Callable[
    [Rows], NDArray[np.float64]
]  # (updates, numbers) -> (numbers,); it may write into what it is given

_NUMBERS = 131_072  # in float64 that a rule looks at together: 1 MiB
_NETWORK = 64  # rows up to which comparing whole rows is quicker than sorting each column by itself
_FEWEST = 1_024  # numbers of one update in a block, however many updates there are


def blockwise(
    specs: Mapping[str, ParamSpec], sets: Sequence[Mapping[str, Array]], rule: Rule, memory: Memory = fresh
) -> Params:
    """Parameters of which every averaged number is `rule` of that number in all sets, in their order.

    What is not averaged is merged by maximum or minimum, as everywhere (rule R6).

    Args:
        specs: the arrays of every set.
        sets: parameters, at least one.
        memory: where the memory for the result comes from.

    Raises:
        ValueError: there are no sets.
    """
    if not sets:
        raise ValueError("nothing to merge: expected at least one set of parameters")
    extremes = Extremes(specs)
    for one in sets:
        extremes.add(one)
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
    count, dtype = math.prod(spec.shape), np.dtype(spec.dtype)
    flat = memory(count * dtype.itemsize).view(dtype)
    sources = [np.ravel(one[name]) for one in sets]
    for start in range(0, count, room.shape[1] or 1):
        rows = room[:, : min(room.shape[1], count - start)]
        for row, source in zip(rows, sources, strict=True):
            np.copyto(row, source[start : start + rows.shape[1]])
        # Plus 0: of 0 and -0 the smaller is whichever a processor takes for it, and all nodes need the same bits.
        flat[start : start + rows.shape[1]] = rule(rows) + 0.0
    return flat.reshape(spec.shape)
