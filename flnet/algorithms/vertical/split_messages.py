"""What the nodes of a split network send to each other, and what every message is checked for.

A message names its sender; whoever receives it from the network has to make sure that it is the sender. Outputs and
gradients carry epoch, step and the digest of the identifiers of the batch, so that two nodes that number their rows or
batches differently notice it with the first message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from flnet.algorithms.vertical.split_plan import Step
from flnet.errors import BatchRefused, CutLayerRefused
from flnet.params.params import Array, Digest, Params, PeerId, is_finite
from flnet.text import text
from flnet.trainer import Score


@dataclass(frozen=True, eq=False)
class CutOutputs:
    """A feature holder to a label holder: outputs of its bottom model.

    Attributes:
        step: number of the batch, of the training batches or of the hold-out batches.
        batch: digest of the batch.
        values: (b, q), for the rows of the batch of which the receiver has labels, in their order.
        hold_out: whether these are hold-out rows, to be measured.
    """

    sender: PeerId
    epoch: int
    step: int
    batch: str
    values: Array
    hold_out: bool = False


@dataclass(frozen=True, eq=False)
class CutGradients:
    """A label holder to a feature holder: gradients of its mean loss over the same rows, (b, q) by their outputs."""

    sender: PeerId
    epoch: int
    step: int
    batch: str
    values: Array


@dataclass(frozen=True)
class BottomClosed:
    """A feature holder to all label holders: all its steps of the epoch are done.

    Attributes:
        digest: of its bottom model, with what the optimiser remembers.
    """

    sender: PeerId
    epoch: int
    digest: Digest


@dataclass(frozen=True)
class TopShared:
    """A label holder to the others: the weights of its top model that are averaged.

    Attributes:
        examples: rows that it was trained on in this epoch, each once.
    """

    sender: PeerId
    epoch: int
    params: Params
    examples: int


@dataclass(frozen=True)
class EpochClosed:
    """A label holder to all feature holders: the epoch is over.

    Attributes:
        loss: mean over the training rows, each before the step that it was part of.
        score: on hold-out rows; None if there are none, or if the label holder keeps it to itself.
        bottoms: the digest that each feature holder sent.
        top: digest of the sender's own top model.
    """

    sender: PeerId
    epoch: int
    loss: float
    score: Score | None
    bottoms: Mapping[PeerId, Digest]
    top: Digest


@dataclass(frozen=True)
class Resumed:
    """A restarted feature holder to all label holders: it goes on after this epoch, with this bottom model."""

    sender: PeerId
    epoch: int
    digest: Digest


Message: TypeAlias = CutOutputs | CutGradients | BottomClosed | TopShared | EpochClosed | Resumed


@dataclass(frozen=True)
class Outgoing:
    """A message and its receiver."""

    to: PeerId
    message: Message


def check_epoch(got: int, expected: int) -> None:
    """Raises:
    BatchRefused: the message is for another epoch.
    """
    if got != expected:
        raise BatchRefused(
            text("the message is for epoch {number}, but this node is in epoch {epoch}", got, expected)
        )


def check_batch(message: CutOutputs | CutGradients, step: Step) -> None:
    """Raises:
    BatchRefused: the message is for other rows.
    """
    if message.batch != step.batch.digest:
        raise BatchRefused(
            text(
                "step {step} of epoch {epoch} has batch {digest} at {peer}, but {expected} here: "
                "the nodes do not have the same rows in the same order",
                message.step,
                message.epoch,
                message.batch[:12],
                repr(message.sender),
                step.batch.digest[:12],
            )
        )


def check_values(values: Array, shape: tuple[int, int], dtype: str) -> None:
    """Raises:
    CutLayerRefused: another shape or dtype, or a number that is not finite.
    """
    if values.shape != shape or values.dtype.name != dtype:
        raise CutLayerRefused(
            text(
                "expected {expected} of {dtype} at the cut layer, got {shape} of {got}",
                list(shape),
                dtype,
                list(values.shape),
                values.dtype.name,
            )
        )
    if not is_finite(values):
        raise CutLayerRefused(text("the message has numbers that are not finite"))


def check_repeated(first: Array, again: Array) -> None:
    """Raises:
    BatchRefused: a message came twice with different contents.
    """
    if not np.array_equal(first, again):
        raise BatchRefused(text("the same step came twice with different numbers; the first ones count"))


def check_part(sender: PeerId, known: Mapping[PeerId, object]) -> None:
    """Raises:
    BatchRefused: the sender has no such part in this job.
    """
    if sender not in known:
        raise BatchRefused(
            text(
                "{peer} has no such part in this split network; expected one of {names}",
                repr(sender),
                ", ".join(sorted(known)),
            )
        )
