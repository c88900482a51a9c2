"""What the tests of aggregation rules share: updates from rows of numbers, and one merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.protocol.updates import Update
from tests.helpers import params, update

numbers = st.floats(-1e6, 1e6, width=32)


def updates_of(rows: Iterable[Sequence[float] | Array]) -> list[Update]:
    """One update of each row, of peers in their order."""
    return [update(f"p{place:03}", w=list(row)) for place, row in enumerate(rows)]


def elsewhere(updates: Iterable[Update]) -> list[Update]:
    """The same ones, each array one number behind the beginning of other memory, as behind the head of a body."""

    def moved(array: Array) -> Array:
        return np.concatenate([array.ravel()[:1], array.ravel()])[1:].reshape(array.shape)

    return [replace(one, params=Params({name: moved(one.params[name]) for name in one.params})) for one in updates]


def merged(strategy: AggregationRule, updates: Sequence[Update]) -> Params:
    """The average of these, from the first state."""
    first = updates[0].params
    return strategy.merge(None, RoundStart(Schema.of(first), first), updates).params


def w(strategy: AggregationRule, rows: Iterable[Sequence[float]]) -> Any:
    """The numbers of the average of these rows."""
    return merged(strategy, updates_of(rows))["w"].tolist()


tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=9)
)


def begun(number: int = 0, members: Iterable[str] = (), me: str = "p000", **arrays: Any) -> RoundStart:
    """The start of a round from these arrays; float64 where they have no dtype of their own."""
    base = params("float64", **arrays)
    return RoundStart(Schema.of(base), base, number, PeerId(me), frozenset(PeerId(name) for name in members))
