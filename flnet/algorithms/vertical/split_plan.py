"""What all nodes of a split network have to know alike: who holds what, and the batches of every epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.params.params import PeerId

RowNumbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class PlannedBatch(Protocol):
    """The rows of one step."""

    @property
    def positions(self) -> RowNumbers:
        """(b,) places in the list of common rows, which all nodes have in the same order."""
        ...

    @property
    def digest(self) -> str:
        """The digest of the identifiers of these rows in this order."""
        ...


class BatchPlan(Protocol):
    """The batches of a job; the same on every node."""

    def training(self, epoch: int) -> Sequence[PlannedBatch]:
        """The batches of an epoch, in order."""
        ...

    def hold_out(self) -> Sequence[PlannedBatch]:
        """The rows that are never trained on, in parts; none where nothing is measured."""
        ...


@dataclass(frozen=True, eq=False)
class Step:
    """One batch, and who has labels for it.

    Attributes:
        number: place of the batch in the plan; numbers of batches without any label are left out.
        parts: for each label holder that has labels of this batch, which rows of the batch they are.
    """

    number: int
    batch: PlannedBatch
    parts: Mapping[PeerId, RowNumbers]


@dataclass(frozen=True, eq=False)
class SplitPlan:
    """The agreement of a job.

    Attributes:
        widths: outputs of the bottom model of each feature holder.
        labelled: for each label holder, (n,) of which common rows it has labels; None for all of them.
        batches: of all epochs.
        in_flight: how many batches may be under way at once. With 1, training equals that of the whole network in one
            place. With more, waiting for the network overlaps with computing, and the outputs of a batch are computed
            with bottom weights that lack the last `in_flight` - 1 steps (at the start of an epoch fewer).
        dtype: of outputs and gradients, "float32" or "float64".
    """

    widths: Mapping[PeerId, int]
    labelled: Mapping[PeerId, Mask | None]
    batches: BatchPlan
    in_flight: int = 1
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths.values()) < 1 or not self.labelled:
            raise ValueError(f"widths={dict(self.widths)}, labelled={sorted(self.labelled)}")
        if self.in_flight < 1:
            raise ValueError(f"in_flight={self.in_flight}")

    @cached_property
    def feature_holders(self) -> tuple[PeerId, ...]:
        """All feature holders, in the order in which their outputs stand side by side."""
        return tuple(sorted(self.widths))

    @cached_property
    def label_holders(self) -> tuple[PeerId, ...]:
        """All label holders, in sorted order."""
        return tuple(sorted(self.labelled))

    @property
    def width(self) -> int:
        """Inputs of the top models: the outputs of all bottom models."""
        return sum(self.widths.values())

    @cached_property
    def columns(self) -> Mapping[PeerId, slice]:
        """Where the outputs of each feature holder stand among the inputs of the top models."""
        ends = np.cumsum([self.widths[peer] for peer in self.feature_holders]).tolist()
        return {
            peer: slice(end - self.widths[peer], end) for peer, end in zip(self.feature_holders, ends, strict=True)
        }

    def training(self, epoch: int) -> tuple[Step, ...]:
        """The steps of an epoch; batches without any label are left out."""
        return tuple(self._steps(self.batches.training(epoch)))

    def hold_out(self) -> tuple[Step, ...]:
        """The hold-out rows, likewise."""
        return tuple(self._steps(self.batches.hold_out()))

    def _steps(self, batches: Sequence[PlannedBatch]) -> Iterator[Step]:
        for number, batch in enumerate(batches):
            found = {peer: self._places(peer, batch.positions) for peer in self.label_holders}
            parts = {peer: places for peer, places in found.items() if len(places)}
            if parts:
                yield Step(number, batch, parts)

    def _places(self, peer: PeerId, rows: RowNumbers) -> RowNumbers:
        mask = self.labelled[peer]
        return np.arange(len(rows)) if mask is None else np.flatnonzero(mask[rows])
