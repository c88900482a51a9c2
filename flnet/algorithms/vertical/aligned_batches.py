"""Batches and seeds of a vertical job: they follow from what all holders know, without a message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from blake3 import blake3

from flnet.algorithms.vertical.batches import AlignedBatch, batch_digest, epoch_order, permutation
from flnet.algorithms.vertical.groups import Positions

HELD_OUT = 0.2  # of the common rows
FEWEST = 10  # common rows; of fewer none are held out
_CONTEXT = "flnet-vertical-1.job"


def seed_for(seed: int, what: str) -> int:
    """A seed that follows from the one of the job, another one for each purpose."""
    return int.from_bytes(blake3(f"{seed},{what}".encode(), derive_key_context=_CONTEXT).digest(4)) >> 1


def held_out_of(count: int) -> int:
    """How many of so many common rows are held out."""
    return int(HELD_OUT * count) if count >= FEWEST else 0


@dataclass(frozen=True)
class AlignedBatches:
    """The batches of a job (`flnet.algorithms.vertical.split_plan.BatchPlan`).

    A fifth of the common rows is held out, the same ones in every epoch.

    Attributes:
        count: of common rows.
        size: rows of a batch.
        seed: of the job.
        agreement: digest of the common rows.
    """

    count: int
    size: int
    seed: int
    agreement: str

    @cached_property
    def _split(self) -> tuple[Positions, Positions]:
        key = blake3(f"{self.seed},hold-out".encode(), derive_key_context=_CONTEXT).digest()
        order = permutation(self.count, key)
        held_out = held_out_of(self.count)
        return order[held_out:], order[:held_out]

    @property
    def trained(self) -> Positions:
        """(n,) places of the rows that are trained on."""
        return self._split[0]

    @property
    def held_out(self) -> Positions:
        """(h,) places of the rows that are never trained on."""
        return self._split[1]

    def training(self, epoch: int) -> list[AlignedBatch]:
        """The batches of an epoch."""
        rows = self.trained
        return list(self._cut(rows[epoch_order(len(rows), self.seed, epoch)], epoch, ""))

    def hold_out(self) -> list[AlignedBatch]:
        """The rows that are never trained on."""
        return list(self._cut(self._split[1], 0, "hold-out,"))

    def _cut(self, rows: Positions, epoch: int, what: str) -> Iterator[AlignedBatch]:
        for step, start in enumerate(range(0, len(rows), self.size)):
            part = rows[start : start + self.size]
            yield AlignedBatch(epoch, step, part, batch_digest(what + self.agreement, epoch, step, part))
