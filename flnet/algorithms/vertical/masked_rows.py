"""Alignment by the key holder, for encrypted regression in which the data holders do not learn which rows match.

Hardy et al., "Private federated learning on vertically partitioned data via entity resolution and additively
homomorphic encryption", arXiv 1711.10677, 2017: the third party matches, hands each data holder an order of
its own rows, and keeps the mask to itself; the data holders only see it encrypted.

Both data holders blind their ids with one secret that the key holder does not have, for example HMAC-SHA256 under a key
that they agree on, and send them to her in any order. She draws common positions at random: at some of them the two
rows are of the same person (mask 1), all others pair strangers (mask 0). Each data holder gets the positions of all its
own rows, in an order that is uniformly random for it, so it learns the number of positions and nothing about matches.
The side with fewer rows fills up with empty ones. The key holder learns how many rows each side has, and which match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.algorithms.vertical.batches import permutation
from flnet.errors import InvalidMessage
from flnet.text import text

EMPTY = -1  # a position at which a side has no row


@dataclass(frozen=True)
class MaskedRows:
    """What the key holder makes of two lists of blinded ids; each part has one reader.

    Attributes:
        order_a: (n,) for A: which of its rows stands at each position; -1 for none.
        order_b: (n,) the same for B.
        mask: (n,) for the key holder: 1 where both rows are of one person.
    """

    order_a: NDArray[np.int64]
    order_b: NDArray[np.int64]
    mask: NDArray[np.float64]


class Shuffles(Protocol):
    """Random orders."""

    def permutation(self, values: int | list[int], /) -> NDArray[np.int64]:
        """(n,) the values, or the numbers from 0 to `values` - 1, in a random order."""


class SecretShuffles:
    """Random orders that follow from a secret, of which nobody can compute one from others."""

    def __init__(self, secret: bytes) -> None:
        """Args:
        secret: 32 bytes that are used for nothing else.
        """
        self._secret, self._drawn = secret, 0

    def permutation(self, values: int | list[int], /) -> NDArray[np.int64]:
        """(n,) the values, or the numbers from 0 to `values` - 1, in a random order."""
        self._drawn += 1
        numbers = np.arange(values) if isinstance(values, int) else np.array(values, np.int64)
        key = blake3(self._drawn.to_bytes(8, "little"), key=self._secret).digest()
        return np.asarray(numbers[permutation(len(numbers), key)], np.int64)


def match_blinded(a: Sequence[bytes], b: Sequence[bytes], chance: Shuffles) -> MaskedRows:
    """Match blinded ids.

    Args:
        a: the blinded ids of A's rows.
        b: those of B's rows.
        chance: draws the positions; seeded from a secret, or A and B could tell matches from their orders.

    Raises:
        InvalidMessage: an id is there twice, or no row matches.
    """
    for ids in (a, b):
        if len(set(ids)) < len(ids):
            raise InvalidMessage(text("an id is there twice in the rows of one node"))
    rows_b = {blinded: row for row, blinded in enumerate(b)}
    pairs = [(row, rows_b[blinded]) for row, blinded in enumerate(a) if blinded in rows_b]
    if not pairs:
        raise InvalidMessage(text("no row of one node matches a row of the other"))
    matched_a, matched_b = (set(side) for side in zip(*pairs, strict=True))
    rest_a = chance.permutation([row for row in range(len(a)) if row not in matched_a]).astype(np.int64)
    rest_b = chance.permutation([row for row in range(len(b)) if row not in matched_b]).astype(np.int64)
    count = max(len(a), len(b))
    order_a, order_b = np.full(count, EMPTY), np.full(count, EMPTY)
    first = len(pairs)
    order_a[:first], order_b[:first] = np.transpose(pairs)
    order_a[first : len(a)], order_b[first : len(b)] = rest_a, rest_b
    positions = chance.permutation(count)
    return MaskedRows(order_a[positions], order_b[positions], (positions < first).astype(np.float64))


def arranged(rows: NDArray[np.float64], order: NDArray[np.int64], empty: float = 0.0) -> NDArray[np.float64]:
    """A node's rows (or labels) at the common positions, with `empty` where it has none.

    Raises:
        InvalidMessage: the order does not name each row exactly once.
    """
    named = np.sort(order[order != EMPTY])
    if not np.array_equal(named, np.arange(len(rows))):
        raise InvalidMessage(text("the order of rows does not name each of the {count} rows once", len(rows)))
    filled: NDArray[np.float64] = np.full((len(order), *rows.shape[1:]), empty)
    filled[order != EMPTY] = rows[order[order != EMPTY]]
    return filled
