"""How effects end: every one that takes time ends in one of these, failure included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flnet.contributions import Contribution
from flnet.events.base import Declaration, Event
from flnet.messages import HyperParams
from flnet.params import Digest, Params, PeerId, RoundKey
from flnet.weighing import Weighed


@dataclass(frozen=True)
class Prepared(Event):
    """The trainer is loaded and has data; `params` are its initial parameters, private ones included."""

    declaration: Declaration
    params: Params


@dataclass(frozen=True)
class DataChanged(Event):
    """The trainer was loaded again, because its data are others now; taken in when no round is open.

    Attributes:
        added: rows that came to those that there were; 0 where others took their place.
    """

    declaration: Declaration
    params: Params
    added: int = 0


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
        shared: those of them that leave this node, as they are sent; None where they are to be picked out.
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
    shared: Params | None = None
    hyper: HyperParams | None = None  # what it trained with, if not with what the round said
    contribution: Contribution | None = None  # what this node states of it
    at: float | None = None  # when it was done, in seconds since 1970 by this node's own clock; only ever shown


@dataclass(frozen=True)
class TrainingFailed(Event):
    """Local training ended without a result; `is_choice`: the trainer had nothing to add, and nothing is wrong."""

    key: RoundKey
    reason: str
    is_choice: bool = False


@dataclass(frozen=True)
class Averaged(Event):
    """The average of a round is computed.

    Attributes:
        refused: whose updates did not count, and why.
        is_common: whether it was decided on the base that most updates began with; see `flnet.screening`.
        weighed: how each update counted, as far as the merging rule can say.
        remembered: what the merging rule remembers from now on; None of a rule without memory.
    """

    key: RoundKey
    params: Params
    seconds: float = 0.0
    refused: Mapping[PeerId, str] = field(default_factory=dict)
    is_common: bool = True
    weighed: Mapping[PeerId, Weighed] = field(default_factory=dict)
    remembered: Params | None = None


@dataclass(frozen=True)
class SumSpoilt(Event):
    """Updates that were folded into the sum of a round do not count: the sum is gone, and to be made again.

    Attributes:
        refused: whose updates do not count, and why; this stands for the round.
    """

    key: RoundKey
    refused: Mapping[PeerId, str]


@dataclass(frozen=True)
class AveragingFailed(Event):
    """The average could not be computed."""

    key: RoundKey
    reason: str


@dataclass(frozen=True)
class Evaluated(Event):
    """A model was measured on the own test split.

    Attributes:
        digest: of its shared part.
        private: what the private parameters became on it, where they were to learn.
    """

    key: RoundKey
    digest: Digest
    accuracy: float
    examples: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    private: Params | None = None


@dataclass(frozen=True)
class EvaluationFailed(Event):
    """A model could not be measured."""

    key: RoundKey
    digest: Digest
    reason: str


@dataclass(frozen=True)
class Fetched(Event):
    """Parameters came from a peer, and they have this digest."""

    key: RoundKey
    peer: PeerId
    digest: Digest
    params: Params


@dataclass(frozen=True)
class FetchFailed(Event):
    """A peer did not give the parameters of this digest."""

    key: RoundKey
    peer: PeerId
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
    """A timer that was set ran out; `late` is by how many seconds, where this node had no time for it sooner."""

    name: str
    late: float = 0.0
