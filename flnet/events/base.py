"""What every event is, and what a trainer says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flnet.labels import Schedule
from flnet.messages import HyperParams
from flnet.params import MergeRule


class Event:
    """Something that a job, or the membership, hears; each is a small frozen record."""


@dataclass(frozen=True)
class Turn:
    """Which rounds a node trains in, where nodes label differently.

    Attributes:
        schedule: who trains when; the same on all nodes.
        is_desired: whether this node has labels of the space that all want to predict in.
        turning: of "coarse-first" the round from which such nodes train; the same on all nodes.
    """

    schedule: Schedule = "two-phase"
    is_desired: bool = True
    turning: int = 0


@dataclass(frozen=True)
class Declaration:
    """What a trainer says of itself, read in the worker and kept by the job.

    Attributes:
        label: the trainer's name as people read it.
        defaults: hyper-parameters until a person or an initiator says otherwise.
        exchange_threshold: by how much a peer's model must be better to be adopted, in accuracy (0 to 1).
        shared: names of the parameters that leave this node; the others stay private.
        merge: how a shared array is merged where it is not by the mean.
        data: what was found where: source, rows per split, classes, whether it is sample data.
        agreement: what all nodes must have alike, in words by name: {"classes": "cat, dog"}.
        offers: what a person may do with its models: inputs (what predictions take, or None), formats of an
            export, alone (common or personal: which of two models a file of one holds if nobody chooses), note
            (goes with every prediction), licence, counts (rows of each class per split), finds ("labels" or
            "groups": what can be seen of a model on the own rows; or "").
        personalises: whether its private parameters learn on from each average.
        merging: the merging rule that its updates need; empty: the one of the node.
        turn: in which rounds it trains, where nodes that label differently take turns; None: in all.
    """

    label: str
    defaults: HyperParams
    exchange_threshold: float
    shared: tuple[str, ...]
    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    agreement: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, Any] = field(default_factory=dict)
    personalises: bool = False
    turn: Turn | None = None
    merging: str = ""
