"""Order, batches and seeds of a vertical job: they follow from what all holders know, without a message.

An alignment leaves the common rows in another order each time. `ordered_by_ids` puts them into one that follows from the
ids and the seed of the job, so that a person who was held out is held out after the next alignment, too, when people
have come or gone. Otherwise models would be measured on people on whom they were trained before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from blake3 import blake3

from flnet.algorithms.vertical.batches import AlignedBatch, batch_digest, epoch_order
from flnet.algorithms.vertical.groups import Positions
from flnet.algorithms.vertical.holder import Agreement

HELD_OUT = 0.2  # of the common rows
FEWEST = 10  # common rows; of fewer none are held out
_CONTEXT = "flnet-vertical-1.job"


def seed_for(seed: int, what: str) -> int:
    """A seed that follows from the one of the job, another one for each purpose."""
    return int.from_bytes(blake3(f"{seed},{what}".encode(), derive_key_context=_CONTEXT).digest(4)) >> 1


def held_out_of(count: int) -> int:
    """How many of so many common rows are held out."""
    return int(HELD_OUT * count) if count >= FEWEST else 0


def ordered_by_ids(agreement: Agreement, ids: Sequence[str], seed: int) -> Agreement:
    """The same common rows, in the order of keys that BLAKE3 makes of the seed and each id.

    Args:
        ids: of all rows of this holder, normalised.
        seed: of the job, the same at all holders.

    Returns:
        An agreement with the digest of this order: holders with other seeds do not have the same.
    """
    key = blake3(f"{seed},order".encode(), derive_key_context=_CONTEXT).digest()
    keys = b"".join(blake3(ids[row].encode(), key=key).digest(8) for row in agreement.rows.tolist())
    order = np.argsort(np.frombuffer(keys, ">u8"), kind="stable")
    digest = blake3(f"{seed},{agreement.digest}".encode(), derive_key_context=_CONTEXT).hexdigest()
    return replace(agreement, rows=agreement.rows[order], digest=digest)


@dataclass(frozen=True)
class AlignedBatches:
    """The batches of a job (`flnet.algorithms.vertical.split_plan.BatchPlan`).

    The first fifth of the common rows is held out, the same ones in every epoch.

    Attributes:
        count: of common rows, which are in the order of `ordered_by_ids`.
        size: rows of a batch.
        seed: of the job.
        agreement: digest of the common rows.
    """

    count: int
    size: int
    seed: int
    agreement: str

    @property
    def trained(self) -> Positions:
        """(n,) places of the rows that are trained on."""
        return np.arange(held_out_of(self.count), self.count)

    @property
    def held_out(self) -> Positions:
        """(h,) places of the rows that are never trained on."""
        return np.arange(held_out_of(self.count))

    def training(self, epoch: int) -> list[AlignedBatch]:
        """The batches of an epoch."""
        rows = self.trained
        return list(self._cut(rows[epoch_order(len(rows), self.seed, epoch)], epoch, ""))

    def hold_out(self) -> list[AlignedBatch]:
        """The rows that are never trained on."""
        return list(self._cut(self.held_out, 0, "hold-out,"))

    def _cut(self, rows: Positions, epoch: int, what: str) -> Iterator[AlignedBatch]:
        for step, start in enumerate(range(0, len(rows), self.size)):
            part = rows[start : start + self.size]
            yield AlignedBatch(epoch, step, part, batch_digest(what + self.agreement, epoch, step, part))
