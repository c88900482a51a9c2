"""The order of the common rows in an epoch and its batches: the same at all holders, without a message.

A permutation sorts the rows by random keys of 64 bits, which BLAKE3 writes from the seed and the epoch. Holders run
different versions of numpy on different processors. numpy keeps the numbers of its bit generators, but not what
`Generator.permutation` makes of them (NEP 19), so two versions could train on rows of different people without any
error. A hash function has one result everywhere. Two of n keys are equal with probability n**2 / 2**65; then the row
that comes first in the agreed order stays first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.algorithms.vertical.groups import Positions

_CONTEXT = "flnet-psi-1.epoch"  # BLAKE3 keeps what is derived in one context apart from all others


@dataclass(frozen=True)
class AlignedBatch:
    """The rows of one training step.

    Attributes:
        step: from 0 in each epoch.
        positions: (batch,) places in the agreed order; `agreement.rows[positions]` are a holder's own rows.
        digest: what messages of this step carry; equal only if epoch, step, positions and agreement are equal.
    """

    epoch: int
    step: int
    positions: Positions
    digest: str


def permutation(count: int, key: bytes) -> Positions:
    """(count,) a permutation of 0 ... count - 1 that depends on the key alone.

    Args:
        key: 32 bytes. Whoever knows it knows the permutation.
    """
    words: NDArray[np.uint64] = np.frombuffer(blake3(key=key).digest(8 * count), "<u8")
    return np.argsort(words, kind="stable").astype(np.int64)


def epoch_order(count: int, seed: int, epoch: int) -> Positions:
    """(count,) the order in which an epoch visits the common rows.

    Args:
        count: of common rows.
        seed: of the training, at least 0, the same at all holders.
        epoch: from 0.
    """
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed={seed}, epoch={epoch}")
    return permutation(count, blake3(f"{seed},{epoch}".encode(), derive_key_context=_CONTEXT).digest())


def batches(count: int, size: int, seed: int, epoch: int, agreement: str) -> Iterator[AlignedBatch]:
    """All batches of an epoch; each row is in one of them, and the last batch may be smaller.

    Args:
        count: of common rows, at least 1.
        size: rows of a batch, at least 1.
        seed: as of `epoch_order`.
        epoch: from 0.
        agreement: the digest of the agreed rows, `Agreement.digest`.
    """
    if count < 1 or size < 1:
        raise ValueError(f"count={count}, size={size}")
    order = epoch_order(count, seed, epoch)
    for step, start in enumerate(range(0, count, size)):
        positions = order[start : start + size]
        yield AlignedBatch(epoch, step, positions, batch_digest(agreement, epoch, step, positions))


def batch_digest(agreement: str, epoch: int, step: int, positions: Positions) -> str:
    """What identifies a batch in messages: 64 hexadecimal digits."""
    head = f"{agreement},{epoch},{step},{len(positions)};".encode()
    return blake3(head + positions.astype("<u8").tobytes()).hexdigest()
