"""All that a job, or the membership, can hear. A new capability begins by naming what it hears here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flnet.messages import HyperParams, Peer
from flnet.params import Claim, Digest, MergeRule, Params, PeerId, RoundKey, Update


class Event:
    """Something that a job, or the membership, hears; each is a small frozen record."""


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
            export, note (goes with every prediction), licence, counts (rows of each class per split).
    """

    label: str
    defaults: HyperParams
    exchange_threshold: float
    shared: tuple[str, ...]
    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    agreement: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, Any] = field(default_factory=dict)


# --- the mesh


@dataclass(frozen=True)
class PeerSeen(Event):
    """A peer is known and reachable."""

    peer: PeerId


@dataclass(frozen=True)
class PeerLost(Event):
    """A peer is not reachable any more."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class MeshStarted(Event):
    """The node runs; these addresses ("host:port") may lead to the mesh."""

    bootstrap: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnnounceReceived(Event):
    """A node announced itself and the peers that it knows; its address is complete."""

    peer: Peer
    known: tuple[Peer, ...] = ()


@dataclass(frozen=True)
class AnnounceAnswered(Event):
    """A node answered our announcement: who it is, and to whom we announce ourselves next."""

    address: str
    peer: Peer
    announce_to: tuple[Peer, ...] = ()


@dataclass(frozen=True)
class AnnounceFailed(Event):
    """Nobody usable answered at this address."""

    address: str
    reason: str


@dataclass(frozen=True)
class ContactMade(Event):
    """A request from this peer came, or one of ours was answered by it."""

    peer: PeerId


@dataclass(frozen=True)
class ContactLost(Event):
    """A request of ours to this peer did not get through."""

    peer: PeerId
    reason: str


# --- a person


@dataclass(frozen=True)
class RoundTriggered(Event):
    """A person, the command line or a policy asks for rounds."""

    rounds: int = 1
    hyper: HyperParams | None = None


@dataclass(frozen=True)
class HyperParamsEdited(Event):
    """A person changed hyper-parameters (only those present) for the rounds that start here."""

    changes: Mapping[str, float]


# --- peers


@dataclass(frozen=True)
class TrainingAsked(Event):
    """A peer started a round, or passes on that it was started."""

    peer: PeerId
    key: RoundKey
    params: Params
    hyper: HyperParams
    base_round: int = -1
    contributors: int = 0
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class UpdateReceived(Event):
    """A peer's update came."""

    update: Update
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class DeclineReceived(Event):
    """A peer takes no part in a round."""

    peer: PeerId
    key: RoundKey
    reason: str


@dataclass(frozen=True)
class ClaimReceived(Event):
    """A peer sent its accuracy and waits for ours."""

    claim: Claim
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ClaimAnswered(Event):
    """A peer answered our accuracy with its own."""

    claim: Claim


# --- ends of effects


@dataclass(frozen=True)
class Prepared(Event):
    """The trainer is loaded and has data; `params` are its initial parameters, private ones included."""

    declaration: Declaration
    params: Params


@dataclass(frozen=True)
class PrepareFailed(Event):
    """The trainer cannot work: no data, or it is broken. The reason says what to do."""

    reason: str
    label: str = ""


@dataclass(frozen=True)
class Trained(Event):
    """Local training is done.

    Attributes:
        params: all parameters after training, private ones included.
        examples: training rows used.
        accuracy: on the own test split, before averaging; in [0, 1].
        labels: how many labels the data has.
        seconds: that training and measuring took.
    """

    key: RoundKey
    params: Params
    examples: int
    accuracy: float
    labels: int = 1
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    hyper: HyperParams | None = None  # what it trained with, if not with what the round said


@dataclass(frozen=True)
class TrainingFailed(Event):
    """Local training ended without a result."""

    key: RoundKey
    reason: str


@dataclass(frozen=True)
class Averaged(Event):
    """The average of a round is computed."""

    key: RoundKey
    params: Params
    seconds: float = 0.0


@dataclass(frozen=True)
class AveragingFailed(Event):
    """The average could not be computed."""

    key: RoundKey
    reason: str


@dataclass(frozen=True)
class Evaluated(Event):
    """A model was measured on the own test split; `digest` is that of its shared part."""

    key: RoundKey
    digest: Digest
    accuracy: float
    examples: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationFailed(Event):
    """A model could not be measured."""

    key: RoundKey
    digest: Digest
    reason: str


@dataclass(frozen=True)
class SendFailed(Event):
    """A message did not get through, after all attempts; `path` says which kind."""

    peer: PeerId
    path: str
    key: RoundKey
    reason: str


@dataclass(frozen=True)
class SendRefused(Event):
    """A peer answered a message with an error; `current` is the round it is in, where it said so."""

    peer: PeerId
    path: str
    key: RoundKey
    status: int
    error: str
    reason: str
    current: int | None = None


@dataclass(frozen=True)
class TimerFired(Event):
    """A timer that was set ran out."""

    name: str
