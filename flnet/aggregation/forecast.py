"""Predicts each peer's update from its last one and the curvature of the loss, and measures the distance to it.

Martínez Enríquez et al., FLProtector, after Zhang, Cao, Jia, Gong, "FLDetector: Defending Federated Learning Against
Model Poisoning Attacks via Detecting Malicious Clients" (2022), section 3.2: the pseudo-gradient of a peer, the change
that its training made to the base of the round, should be its last one plus B v. Here v is how the base moved in
between, and B follows from the last moves by L-BFGS. Everything follows from the bases of rounds and from the updates,
which all nodes share: what a round applied is the move to the next base.

B is the compact form of limited-memory BFGS: Byrd, Nocedal, Schnabel, "Representations of Quasi-Newton Matrices and
Their Use in Limited Memory Methods" (1994), theorem 2.3. From pairs of a step s and the change y of the gradient along
it follows a matrix B with B s = y for the newest pair. B v is a linear combination of v, the steps and the changes, whose
coefficients follow from inner products alone. The small linear system is solved by elimination in a fixed order and not
by LAPACK, so that all nodes get the same bits.

Only moves, their inner products and each peer's last change are remembered: a round adds one row of products and never
reads old bases. For models above a million numbers they are stored with one byte per number
(`flnet.params.quantization`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from flnet.aggregation.base import flat_type
from flnet.params.arithmetic import BLOCK, Total, fsum, weight_names
from flnet.params.params import Array, PeerId, Schema
from flnet.params.quantization import StoredVector, room_for
from flnet.protocol.updates import Update

Table = Sequence[Sequence[float]]
_LEAST_CURVATURE = 1e-8  # of |s| |y|: what s'y has to exceed
_LEAST_PIVOT = 1e-12  # of the largest number of the system: below it counts as singular


class Pairs(NamedTuple):
    """The inner products of pairs (s, y), the oldest first.

    Attributes:
        steps: s_k's_l.
        mixed: s_k'y_l.
        changes: y_k'y_k.
    """

    steps: Table
    mixed: Table
    changes: Sequence[float]

    @property
    def usable(self) -> list[int]:
        """The pairs along whose step the gradient grew; others would make B indefinite or undefined."""
        return [k for k in range(len(self.changes)) if self._is_usable(k)]

    def _is_usable(self, k: int) -> bool:
        square, along, other = self.steps[k][k], self.mixed[k][k], self.changes[k]
        if not all(map(math.isfinite, (square, along, other))) or square <= 0 or other <= 0:
            return False
        return along > _LEAST_CURVATURE * math.sqrt(square) * math.sqrt(other)


class Product(NamedTuple):
    """B v as a sum: `of_v` v and, for each pair, `of_steps` s and `of_changes` y."""

    of_v: float
    of_steps: Sequence[float]
    of_changes: Sequence[float]


def product(pairs: Pairs, along_steps: Sequence[float], along_changes: Sequence[float]) -> Product:
    """The product B v.

    Nothing at all (B = 0) where no pair is usable or the system is singular.

    Args:
        pairs: from which B follows.
        along_steps: s_k'v.
        along_changes: y_k'v.
    """
    count, rows = len(pairs.changes), pairs.usable
    nothing = Product(0.0, [0.0] * count, [0.0] * count)
    if not rows or not all(map(math.isfinite, (*along_steps, *along_changes))):
        return nothing
    # A pair times any number is the same pair to B; with steps of length 1 the system is well scaled.
    scale = [1 / math.sqrt(pairs.steps[k][k]) for k in rows]
    factor = pairs.mixed[rows[-1]][rows[-1]] / pairs.steps[rows[-1]][rows[-1]]
    right = [
        *(factor * along_steps[k] * c for k, c in zip(rows, scale, strict=True)),
        *(along_changes[k] * c for k, c in zip(rows, scale, strict=True)),
    ]
    solution = solved(_system(pairs, rows, scale, factor), right)
    if solution is None:
        return nothing
    of_steps, of_changes = [0.0] * count, [0.0] * count
    for place, (k, c) in enumerate(zip(rows, scale, strict=True)):
        of_steps[k] = -factor * solution[place] * c
        of_changes[k] = -solution[len(rows) + place] * c
    return Product(factor, of_steps, of_changes)


def _system(pairs: Pairs, rows: Sequence[int], scale: Sequence[float], factor: float) -> list[list[float]]:
    """The matrix [[factor S'S, L], [L', -D]], L the part of S'Y below its diagonal D."""
    count = len(rows)
    table = [[0.0] * (2 * count) for _ in range(2 * count)]
    for a, k in enumerate(rows):
        table[count + a][count + a] = -pairs.mixed[k][k] * scale[a] * scale[a]
        for b, other in enumerate(rows):
            table[a][b] = factor * pairs.steps[k][other] * scale[a] * scale[b]
            if b < a:
                table[a][count + b] = table[count + b][a] = pairs.mixed[k][other] * scale[a] * scale[b]
    return table


def solved(table: Table, right: Sequence[float]) -> list[float] | None:
    """The solution of a system of linear equations, by elimination with partial pivoting; None if it has none.

    Args:
        table: (n, n).
        right: n numbers.
    """
    rows = [[*map(float, row), float(end)] for row, end in zip(table, right, strict=True)]
    least = _LEAST_PIVOT * max((abs(number) for row in table for number in row), default=0.0)
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        if not abs(rows[pivot][at]) > least:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in rows[at + 1 :]:
            part = row[at] / rows[at][at]
            for column in range(at, len(row)):
                row[column] -= part * rows[at][column]
    solution = [0.0] * len(rows)
    for at in reversed(range(len(rows))):
        # Not `sum`: from Python 3.12 on it rounds otherwise than before.
        known = math.fsum(rows[at][column] * solution[column] for column in range(at + 1, len(rows)))
        solution[at] = (rows[at][-1] - known) / rows[at][at]
    return solution if all(map(math.isfinite, solution)) else None


MOST_PAIRS = 10
EXACT_NUMBERS = 1_000_000  # of a model: what larger ones remember is rounded
_MOST_BYTES = 64 * 1024 * 1024  # of all moves that are remembered
FARTHEST = 1e150  # what is farther counts as that far, so that sums and squares stay finite


class Known(NamedTuple):
    """The remembered change of a peer.

    Attributes:
        change: base - parameters, flat.
        ago: moves of the base since.
    """

    change: StoredVector
    ago: int


class Moves(NamedTuple):
    """How the base moved from round to round, the oldest first.

    Attributes:
        kept: the moves, flat.
        products: the inner product of each with each.
    """

    kept: Sequence[StoredVector] = ()
    products: Sequence[Sequence[float]] = ()

    def last(self, count: int) -> Moves:
        """The newest `count` moves."""
        first = max(0, len(self.kept) - count)
        return Moves(self.kept[first:], [row[first:] for row in self.products[first:]])


class Seen(NamedTuple):
    """The changes of a round's updates and their distances.

    Attributes:
        changes: base - parameters of each, flat.
        distances: of each change to what was predicted, where there was an earlier one.
    """

    changes: Mapping[PeerId, StoredVector]
    distances: dict[PeerId, float]


def is_coarse(schema: Schema) -> bool:
    """Whether the memory for a model of this size is rounded; the same on all nodes."""
    return _numbers(schema) > EXACT_NUMBERS


def pairs_kept(schema: Schema) -> int:
    """The number of remembered pairs for a model of this size; a function of the schema, so equal on all nodes."""
    itemsize = 1 if is_coarse(schema) else flat_type(schema).itemsize
    return max(0, min(MOST_PAIRS, _MOST_BYTES // max(1, itemsize * _numbers(schema)) - 1))


def moved(moves: Moves, last: Array, base: Array, schema: Schema) -> Moves:
    """The newest moves, with the one from the last base to this base.

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
    move_room, kept_room = np.empty((2, min(BLOCK, newest.size)), dtype)
    for start in range(0, newest.size, BLOCK):
        size = min(BLOCK, newest.size - start)
        where = slice(start, start + size)
        with np.errstate(over="ignore", invalid="ignore"):
            newest.write(start, np.subtract(base[where], last[where], out=move_room[:size], dtype=dtype))
            here = newest.read(start, move_room[:size])
            for kept, total in zip(all_kept, totals, strict=True):
                earlier = kept.read(start, kept_room[:size])
                total.add(np.multiply(earlier, here, out=kept_room[:size], dtype=dtype))
    row = [total.value for total in totals]
    table = [[*old, end] for old, end in zip(moves.products, row, strict=False)]
    return Moves(all_kept, [*table, row])


def seen(
    moves: Moves, base: Array, known: Mapping[PeerId, Known], updates: Sequence[Update], schema: Schema
) -> Seen:
    """The changes of these updates, and their distances to the predictions.

    Args:
        moves: of the base, up to this one.
        base: of the round, flat.
        known: earlier changes.
        updates: of the round.
        schema: of the model.
    """
    earlier = {update.peer: known[update.peer] for update in updates if update.peer in known}
    terms = {ago: _terms(moves.products, ago) for ago in {change.ago for change in earlier.values()}}
    changes = {update.peer: _room(schema) for update in updates}
    totals = {peer: Total(base.size) for peer in earlier}
    dtype = _working_type(schema)
    change, off = np.empty((2, min(BLOCK, base.size)), dtype)
    for start, parts in _stretches(schema):
        size = sum(part.stop - part.start for _, part in parts)
        with np.errstate(over="ignore", invalid="ignore"):
            forecasts = {ago: _combined(moves, counts, start, off[:size]) for ago, counts in terms.items()}
            for update in updates:
                here = change[:size]
                _gather(update, parts, here)
                np.subtract(base[start : start + size], here, out=here)
                changes[update.peer].write(start, here)
                if update.peer in earlier:
                    before, ago = earlier[update.peer]
                    error = np.add(before.read(start, off[:size]), forecasts[ago], out=off[:size])
                    error -= here
                    error *= error
                    totals[update.peer].add(error)
    return Seen(changes, {peer: min(FARTHEST, math.sqrt(total.value)) for peer, total in totals.items()})


def _terms(products: Sequence[Sequence[float]], ago: int) -> list[float]:
    """The coefficient of each move in B v, where v is the sum of the last `ago` moves.

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
    curved = product(pairs, along[:-1], [along[k] - along[k + 1] for k in steps])
    terms = [curved.of_v if at in last else 0.0 for at in range(count)]
    for k in steps:
        terms[k] += curved.of_steps[k] + curved.of_changes[k]
        terms[k + 1] -= curved.of_changes[k]
    return terms


def _combined(moves: Moves, terms: Sequence[float], start: int, room: Array) -> Array:
    """The linear combination of the moves over one block."""
    total = np.zeros(room.size, room.dtype)
    for kept, factor in zip(moves.kept, terms, strict=True):
        if factor:
            total += np.multiply(kept.read(start, room), room.dtype.type(factor), out=room)
    return total


def _stretches(schema: Schema) -> Iterator[tuple[int, list[tuple[str, slice]]]]:
    """The blocks of the flat vector: the start of each, and the parts of arrays that it consists of."""
    start, filled = 0, 0
    parts: list[tuple[str, slice]] = []
    for name in weight_names(schema):
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


def _room(schema: Schema) -> StoredVector:
    return room_for(_numbers(schema), flat_type(schema), coarse=is_coarse(schema))


def _working_type(schema: Schema) -> np.dtype[np.floating]:
    """float64 for small models; large ones are rounded anyway."""
    return flat_type(schema) if is_coarse(schema) else np.dtype(np.float64)


def _numbers(schema: Schema) -> int:
    return sum(math.prod(schema.specs[name].shape) for name in weight_names(schema))
