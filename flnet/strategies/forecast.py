"""How far each update lies from what its earlier one and the curvature of the loss let expect.

Martínez Enríquez et al., FLProtector, and before it Zhang, Cao, Jia, Gong, "FLDetector: Defending Federated
Learning Against Model Poisoning Attacks via Detecting Malicious Clients" (2022), section 3.2: the pseudo-gradient
of a peer, by which its training changed the base of the round, should be its last one plus B v, where v is how the
base moved in between and B follows from the last moves by L-BFGS. All of it follows from the bases of rounds and
from the updates, which all nodes have alike: what a round applied is the move to the next base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.lbfgs import Pairs, product
from flnet.params import Array, PeerId, Schema, Update
from flnet.strategies.remembering import flat_type
from flnet.vectors import BLOCK, Total, averaged, fsum, longest

MOST_PAIRS = 10
_MOST_BYTES = 256 * 1024 * 1024  # of all bases that are remembered
FARTHEST = 1e150  # what is farther counts as that far, so that sums and squares stay finite


class Known(NamedTuple):
    """The last change of a peer that is remembered.

    Attributes:
        change: base - parameters, flat.
        ago: moves of the base since.
    """

    change: Array
    ago: int


class Seen(NamedTuple):
    """What became of the updates of a round.

    Attributes:
        changes: base - parameters of each, flat.
        distances: of each change to what was predicted, where there was an earlier one.
    """

    changes: Mapping[PeerId, Array]
    distances: dict[PeerId, float]


def pairs_kept(schema: Schema) -> int:
    """How many pairs are remembered of a model of this size; a function of the schema, so alike on all nodes."""
    size = max(
        1, flat_type(schema).itemsize * sum(math.prod(schema.specs[name].shape) for name in averaged(schema))
    )
    return max(0, min(MOST_PAIRS, _MOST_BYTES // size - 1))


def seen(bases: Sequence[Array], known: Mapping[PeerId, Known], updates: Sequence[Update], schema: Schema) -> Seen:
    """The changes of these updates, and how far they are from what was predicted of them.

    Args:
        bases: flat, of consecutive rounds, this one's last.
        known: earlier changes.
    """
    terms = {
        ago: _terms(gram(bases), ago) for ago in {known[one.peer].ago for one in updates if one.peer in known}
    }
    changes = {one.peer: np.empty_like(bases[-1]) for one in updates}
    totals = {one.peer: Total(longest(schema)) for one in updates if one.peer in known}
    at = 0
    for name in averaged(schema):
        heres = {one.peer: np.ravel(one.params[name]) for one in updates}
        size = math.prod(schema.specs[name].shape)
        for start in range(0, size, BLOCK):
            stop = min(size, start + BLOCK)
            where = slice(at + start, at + stop)
            moves = {ago: _combined(bases, counts, where) for ago, counts in terms.items()}
            for peer, here in heres.items():
                change: NDArray[np.float64] = np.subtract(bases[-1][where], here[start:stop], dtype=np.float64)
                with np.errstate(over="ignore", invalid="ignore"):
                    changes[peer][where] = change
                    if peer in known:
                        off = moves[known[peer].ago] + known[peer].change[where] - change
                        totals[peer].add(off * off)
        at += size
    return Seen(changes, {peer: min(FARTHEST, math.sqrt(total.value)) for peer, total in totals.items()})


def gram(bases: Sequence[Array]) -> list[list[float]]:
    """The inner products of all moves from one base to the next."""
    count = len(bases) - 1
    size = bases[-1].size
    totals = [[Total(size) for _ in range(row + 1)] for row in range(count)]
    for start in range(0, size, BLOCK):
        moves = [_move(bases, at, slice(start, start + BLOCK)) for at in range(count)]
        for row in range(count):
            for column in range(row + 1):
                with np.errstate(over="ignore"):
                    totals[row][column].add(moves[row] * moves[column])
    return [[totals[max(a, b)][min(a, b)].value for b in range(count)] for a in range(count)]


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


def _move(bases: Sequence[Array], at: int, where: slice) -> NDArray[np.float64]:
    return np.subtract(bases[at + 1][where], bases[at][where], dtype=np.float64)


def _combined(bases: Sequence[Array], terms: Sequence[float], where: slice) -> NDArray[np.float64]:
    total = np.zeros(bases[-1][where].size)
    for at, factor in enumerate(terms):
        if factor:
            total += _move(bases, at, where) * factor
    return total
