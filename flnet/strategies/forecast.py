"""How far each update lies from what its earlier one and the curvature of the loss let expect.

Martínez Enríquez et al., FLProtector, and before it Zhang, Cao, Jia, Gong, "FLDetector: Defending Federated
Learning Against Model Poisoning Attacks via Detecting Malicious Clients" (2022), section 3.2: the pseudo-gradient
of a peer, by which its training changed the base of the round, should be its last one plus B v, where v is how the
base moved in between and B follows from the last moves by L-BFGS. All of it follows from the bases of rounds and
from the updates, which all nodes have alike: what a round applied is the move to the next base.

Only moves, their inner products and each peer's last change are remembered, so a round adds one row of products
and never looks at old bases. Of models above a million numbers they are kept with a byte for each number
(`flnet.coarse`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from flnet.coarse import Kept, room_for
from flnet.lbfgs import Pairs, product
from flnet.params import Array, PeerId, Schema, Update
from flnet.strategies.remembering import flat_type
from flnet.vectors import BLOCK, Total, averaged, fsum

MOST_PAIRS = 10
EXACT_NUMBERS = 1_000_000  # of a model: what larger ones remember is rounded
_MOST_BYTES = 64 * 1024 * 1024  # of all moves that are remembered
FARTHEST = 1e150  # what is farther counts as that far, so that sums and squares stay finite


class Known(NamedTuple):
    """The last change of a peer that is remembered.

    Attributes:
        change: base - parameters, flat.
        ago: moves of the base since.
    """

    change: Kept
    ago: int


class Moves(NamedTuple):
    """How the base moved from round to round, the oldest first.

    Attributes:
        kept: the moves, flat.
        products: the inner product of each with each.
    """

    kept: Sequence[Kept] = ()
    products: Sequence[Sequence[float]] = ()

    def last(self, count: int) -> Moves:
        """Only the newest of them."""
        first = max(0, len(self.kept) - count)
        return Moves(self.kept[first:], [row[first:] for row in self.products[first:]])


class Seen(NamedTuple):
    """What became of the updates of a round.

    Attributes:
        changes: base - parameters of each, flat.
        distances: of each change to what was predicted, where there was an earlier one.
    """

    changes: Mapping[PeerId, Kept]
    distances: dict[PeerId, float]


def is_coarse(schema: Schema) -> bool:
    """Whether what is remembered of a model of this size is rounded; alike on all nodes."""
    return _numbers(schema) > EXACT_NUMBERS


def pairs_kept(schema: Schema) -> int:
    """How many pairs are remembered of a model of this size; a function of the schema, so alike on all nodes."""
    itemsize = 1 if is_coarse(schema) else flat_type(schema).itemsize
    return max(0, min(MOST_PAIRS, _MOST_BYTES // max(1, itemsize * _numbers(schema)) - 1))


def moved(moves: Moves, last: Array, base: Array, schema: Schema) -> Moves:
    """These moves and the one from the last base to this one, as many of them as are looked at.

    Args:
        moves: up to the last base.
        last: flat.
        base: flat.
        schema: of the model.
    """
    moves = moves.last(pairs_kept(schema))
    newest = _room(schema)
    all_kept = [*moves.kept, newest]
    totals = [Total(newest.size) for _ in all_kept]
    dtype = _working_type(schema)
    one, other = np.empty((2, min(BLOCK, newest.size)), dtype)
    for start in range(0, newest.size, BLOCK):
        size = min(BLOCK, newest.size - start)
        where = slice(start, start + size)
        with np.errstate(over="ignore", invalid="ignore"):
            newest.write(start, np.subtract(base[where], last[where], out=one[:size], dtype=dtype))
            here = newest.read(start, one[:size])
            for kept, total in zip(all_kept, totals, strict=True):
                there = kept.read(start, other[:size])
                total.add(np.multiply(there, here, out=other[:size], dtype=dtype))
    row = [total.value for total in totals]
    table = [[*old, end] for old, end in zip(moves.products, row, strict=False)]
    return Moves(all_kept, [*table, row])


def seen(
    moves: Moves, base: Array, known: Mapping[PeerId, Known], updates: Sequence[Update], schema: Schema
) -> Seen:
    """The changes of these updates, and how far they are from what was predicted of them.

    Args:
        moves: of the base, up to this one.
        base: of the round, flat.
        known: earlier changes.
        updates: of the round.
        schema: of the model.
    """
    earlier = {one.peer: known[one.peer] for one in updates if one.peer in known}
    terms = {ago: _terms(moves.products, ago) for ago in {one.ago for one in earlier.values()}}
    changes = {one.peer: _room(schema) for one in updates}
    totals = {peer: Total(base.size) for peer in earlier}
    dtype = _working_type(schema)
    change, off = np.empty((2, min(BLOCK, base.size)), dtype)
    for start, parts in _stretches(schema):
        size = sum(part.stop - part.start for _, part in parts)
        with np.errstate(over="ignore", invalid="ignore"):
            forecasts = {ago: _combined(moves, counts, start, off[:size]) for ago, counts in terms.items()}
            for one in updates:
                here = change[:size]
                _gather(one, parts, here)
                np.subtract(base[start : start + size], here, out=here)
                changes[one.peer].write(start, here)
                if one.peer in earlier:
                    before, ago = earlier[one.peer]
                    there = np.add(before.read(start, off[:size]), forecasts[ago], out=off[:size])
                    there -= here
                    there *= there
                    totals[one.peer].add(there)
    return Seen(changes, {peer: min(FARTHEST, math.sqrt(total.value)) for peer, total in totals.items()})


def _terms(products: Sequence[Sequence[float]], ago: int) -> list[float]:
    """What each move counts in B v, where v is the sum of the last `ago` moves.

    The pairs are all moves but the last one, each with its difference to the next: the pseudo-gradient that was
    applied is minus the move, and so that difference is how it changed.
    """
    count = len(products)
    last = range(max(0, count - ago), count)
    along = [fsum(products[row][at] for at in last) for row in range(count)]
    steps = range(count - 1)
    pairs = Pairs(
        [[products[k][j] for j in steps] for k in steps],
        [[products[k][j] - products[k][j + 1] for j in steps] for k in steps],
        [products[k][k] - 2 * products[k][k + 1] + products[k + 1][k + 1] for k in steps],
    )
    found = product(pairs, along[:-1], [along[k] - along[k + 1] for k in steps])
    terms = [found.of_v if at in last else 0.0 for at in range(count)]
    for k in steps:
        terms[k] += found.of_steps[k] + found.of_changes[k]
        terms[k + 1] -= found.of_changes[k]
    return terms


def _combined(moves: Moves, terms: Sequence[float], start: int, room: Array) -> Array:
    """The sum of these parts of the moves over one block."""
    total = np.zeros(room.size, room.dtype)
    for kept, factor in zip(moves.kept, terms, strict=True):
        if factor:
            total += np.multiply(kept.read(start, room), room.dtype.type(factor), out=room)
    return total


def _stretches(schema: Schema) -> Iterator[tuple[int, list[tuple[str, slice]]]]:
    """The blocks of the flat vector: where each begins, and of which parts of which arrays it is made."""
    start, filled = 0, 0
    parts: list[tuple[str, slice]] = []
    for name in averaged(schema):
        size, at = math.prod(schema.specs[name].shape), 0
        while at < size:
            stop = min(size, at + BLOCK - filled)
            parts.append((name, slice(at, stop)))
            filled, at = filled + stop - at, stop
            if filled == BLOCK:
                yield start, parts
                start, filled, parts = start + BLOCK, 0, []
    if parts:
        yield start, parts


def _gather(update: Update, parts: Sequence[tuple[str, slice]], room: Array) -> None:
    at = 0
    for name, part in parts:
        stop = at + part.stop - part.start
        room[at:stop] = np.ravel(update.params[name])[part]
        at = stop


def _room(schema: Schema) -> Kept:
    return room_for(_numbers(schema), flat_type(schema), coarse=is_coarse(schema))


def _working_type(schema: Schema) -> np.dtype[np.floating]:
    """Of small models in float64; large ones are rounded anyway."""
    return flat_type(schema) if is_coarse(schema) else np.dtype(np.float64)


def _numbers(schema: Schema) -> int:
    return sum(math.prod(schema.specs[name].shape) for name in averaged(schema))
