"""The effects that a job or the membership can request, in the order in which they are performed.

`Save` comes first, so that a restart loses nothing that a peer has received; `Answer` is next, so that the
caller waits for nothing else. Every effect that takes time ends in an event, failure included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.errors import PeerError
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.events import Split
from flnet.protocol.messages import HyperParams, Message, News, Peer, Probe
from flnet.protocol.secure_sum import OpenedSum, SecretRequest
from flnet.protocol.updates import RoundKey, Update
from flnet.protocol.vertical import BeginPart, ClassMeaning, EpochClosedPart, TalkPart


@dataclass(frozen=True)
class KeptUpdate:
    """An update that counts in a round that is not averaged yet.

    Attributes:
        digest: of parameters to be fetched again after a restart; None if the parameters are saved with it.
    """

    update: Update
    digest: Digest | None = None


@dataclass(frozen=True)
class Save:
    """Save this state of the job, before all effects below.

    Attributes:
        snapshot: all figures; its `updates_from` is the first round whose updates are still needed.
        params: shared parameters, if they changed since the last Save.
        private: private parameters, if they changed.
        sent: this node's update, before any peer receives it.
        remembered: memory of the aggregation rule, if it changed.
        updates: those that came since the last Save.
        records: of the rounds that ended since the last Save.
    """

    snapshot: Mapping[str, Any]
    params: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    updates: tuple[KeptUpdate, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    remembered: Params | None = None


@dataclass(frozen=True)
class Answer:
    """Answer the current request with this message and its parameters."""

    message: Message
    params: Params | None = None


@dataclass(frozen=True)
class Refuse:
    """Answer the current request with this error, where the event had effects; without any, the error is raised."""

    error: PeerError


@dataclass(frozen=True)
class TellJobs:
    """Tell every job that a peer is reachable, or no longer is."""

    peer: PeerId
    alive: bool
    reason: str = ""


@dataclass(frozen=True)
class CancelWork:
    """Stop the training of this round; its end, if it still comes, is ignored.

    Attributes:
        at_once: whether a training that does not stop by itself is ended with its process.
    """

    key: RoundKey
    at_once: bool = False


@dataclass(frozen=True)
class Train:
    """Train in the compute queue, then measure. Ends in Trained or TrainingFailed.

    Attributes:
        validates: whether to measure on validation rows too, if there are some.
    """

    key: RoundKey
    params: Params
    hyper: HyperParams
    validates: bool = False


@dataclass(frozen=True)
class Fold:
    """Add these updates, sorted by peer, to the running sum of this round in the compute queue, so that they need not be
    kept. It does not end in an event; the Average that follows reports errors.
    """

    key: RoundKey
    updates: tuple[Update, ...]


@dataclass(frozen=True)
class Average:
    """Merge these updates, sorted by peer, with those that were folded before (at least one in all) in the
    compute queue. Ends in Averaged, SumSpoilt or AveragingFailed.

    Attributes:
        is_apart: whether other nodes make another average of them, because their aggregation rule remembers something
            else.
        opened: what opens their sum, where updates are masked; None where they are not.
        segment: where only a segment of each update is averaged: its number, and how many there are.
        links: where a node averages with its neighbours alone: the largest weight of each of them.
        base: of the round, where only a segment is averaged: that of most updates.
        moved: how far the whole updates moved, where only a segment is averaged and this is known.
    """

    key: RoundKey
    updates: tuple[Update, ...]
    folded: tuple[PeerId, ...] = ()
    is_apart: bool = False
    opened: OpenedSum | None = None
    segment: tuple[int, int] | None = None
    links: Mapping[PeerId, float] | None = None
    base: Params | None = None
    moved: Mapping[PeerId, float] | None = None


@dataclass(frozen=True)
class SecureStep:
    """Do a step with this node's secrets of a secure sum, in the order asked for. Ends in SecureStepDone."""

    key: RoundKey
    attempt: int
    request: SecretRequest


@dataclass(frozen=True)
class Evaluate:
    """Measure these parameters (including private ones) on rows of this node. Ends in Evaluated or EvaluationFailed.

    Attributes:
        shared: the part whose digest is reported.
        hyper: if given, the private parameters are first trained on this model with these hyper-parameters.
        split: the rows; test rows take the place of validation rows that are not there, and Evaluated says so.
        validates: whether to measure on validation rows too, if there are some.
    """

    key: RoundKey
    params: Params
    shared: Params
    hyper: HyperParams | None = None
    split: Split = "test"
    validates: bool = False


@dataclass(frozen=True)
class OpenEpoch:
    """Begin an epoch of a vertical job in the compute queue. Ends in VerticalDone or VerticalFailed.

    Attributes:
        params: of this node's models when the epoch before ended.
        report: with which that ended, if this node holds labels.
        rows: of an alignment before: {"rows": (k,)}.
        alignment: its digest.
    """

    session: str
    begin: BeginPart
    hyper: HyperParams
    params: Params
    report: EpochClosedPart | None = None
    rows: Params | None = None
    alignment: str = ""


@dataclass(frozen=True)
class Talk:
    """Give what holders sent to the conversation of an epoch, in the compute queue. Ends like OpenEpoch.

    Attributes:
        received: sender, part and arrays of each.
    """

    session: str
    received: tuple[tuple[PeerId, TalkPart, Params], ...] = ()


@dataclass(frozen=True)
class ComputeOutputs:
    """Compute this node's part in a prediction, in the compute queue. Ends in OutputsComputed or PredictionNotComputed.

    Attributes:
        asker, session: of the prediction.
        epoch: at the end of which the models are.
        params: of this node's models.
        rows: of the alignment: {"rows": (k,)}.
        checksum: of the ids with which the rows were aligned.
        ids: that a person asks for; of another node's prediction `places` instead.
        places: {"places": (n,)}.
    """

    asker: PeerId
    session: str
    epoch: int
    hyper: HyperParams
    params: Params
    rows: Params
    checksum: str
    ids: tuple[str | int, ...] = ()
    places: Params | None = None


@dataclass(frozen=True)
class ComputePrediction:
    """Compute a prediction from the outputs of all feature holders, in the compute queue.

    Ends in PredictionComputed or PredictionNotComputed.

    Attributes:
        params: of this node's models.
        outputs: (n, q) by the id of each feature holder.
        seed: of the models.
    """

    asker: PeerId
    session: str
    hyper: HyperParams
    params: Params
    outputs: Params
    seed: int


@dataclass(frozen=True)
class HolderPrediction:
    """What a label holder predicts: {"values": (n, k)} probabilities."""

    holder: PeerId
    values: Params
    meaning: ClassMeaning
    classes: tuple[str, ...]


@dataclass(frozen=True)
class TellPrediction:
    """Tell the person who asked for a prediction by id how it ended.

    Attributes:
        ticket: of PredictionAsked.
        epoch: after which the models are.
        unknown: which of the ids are not common.
        predictions: for the other ids, of each label holder.
        error: why there are none.
    """

    ticket: int
    epoch: int = -1
    unknown: tuple[int, ...] = ()
    predictions: tuple[HolderPrediction, ...] = ()
    error: PeerError | None = None


@dataclass(frozen=True)
class CancelTimer:
    """Cancel a timer; it is no error if it is not set."""

    name: str


@dataclass(frozen=True)
class SetTimer:
    """Set a timer: TimerFired(name) after `seconds` plus a random part of `margin`. It replaces one with that name."""

    name: str
    seconds: float
    margin: float = 0.0


@dataclass(frozen=True)
class Fetch:
    """Download the parameters with this digest from a peer. Ends in Fetched or FetchFailed.

    Attributes:
        proven: whether the digest must be verified, as for a model that several nodes refer to. A peer's own
            update is what the peer sends; hashing it would only prove that the transfer was complete.
        form: of the arrays, where they are no parameters of the job's model.
        others: peers that may hold them, too, and can serve parts of them.
    """

    key: RoundKey
    peer: PeerId
    digest: Digest
    proven: bool = True
    form: Schema | None = None
    others: tuple[PeerId, ...] = ()


@dataclass(frozen=True)
class FetchSegments:
    """Download several segments from a peer in one request. Ends in Fetched or FetchFailed for each of them.

    Attributes:
        forms: by digest, the arrays of each segment.
    """

    key: RoundKey
    peer: PeerId
    forms: Mapping[Digest, Schema]

    def one_by_one(self) -> Iterable[Fetch]:
        """The same as a download of each."""
        return (Fetch(self.key, self.peer, digest, form=form) for digest, form in self.forms.items())


@dataclass(frozen=True)
class FetchAlso:
    """Ask this peer, too, for parts of the parameters that are being downloaded; nothing if they are not."""

    peer: PeerId
    digest: Digest


@dataclass(frozen=True)
class Send:
    """Send a message with its parameters to each of these peers, concurrently.

    If the message contains their digest, a peer that can download them by it may receive the message alone. Each
    peer's answer is an event of its own: SendFailed, SendRefused, ClaimAnswered.
    """

    to: tuple[PeerId, ...]
    message: Message
    params: Params | None = None


@dataclass(frozen=True)
class SendAnnounce:
    """Announce this node at an address ("host:port"). Ends in AnnounceAnswered or AnnounceFailed."""

    address: str
    known: tuple[Peer, ...] = ()
    incarnation: int = 0
    members: tuple[News, ...] = ()


@dataclass(frozen=True)
class SendProbe:
    """Probe a peer, with a timeout in seconds. Ends in ProbeAnswered or ProbeFailed."""

    to: PeerId
    message: Probe
    seconds: float


@dataclass(frozen=True)
class KeepIncarnation:
    """Save the incarnation with which this node begins the next time it is started."""

    incarnation: int


@dataclass(frozen=True)
class Publish:
    """Add an event to the event log: a kind ("round_started"), a sentence, and data."""

    kind: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


Effect = (
    Save
    | Answer
    | Refuse
    | TellJobs
    | CancelWork
    | Train
    | Fold
    | Average
    | SecureStep
    | Evaluate
    | OpenEpoch
    | Talk
    | ComputeOutputs
    | ComputePrediction
    | TellPrediction
    | CancelTimer
    | SetTimer
    | Fetch
    | FetchSegments
    | FetchAlso
    | Send
    | SendAnnounce
    | SendProbe
    | KeepIncarnation
    | Publish
)

ORDER: tuple[type, ...] = (
    Save,
    KeepIncarnation,
    Answer,
    Refuse,
    TellJobs,
    CancelWork,
    Train,
    Fold,
    Average,
    SecureStep,
    Evaluate,
    OpenEpoch,
    Talk,
    ComputeOutputs,
    ComputePrediction,
    TellPrediction,
    CancelTimer,
    SetTimer,
    Fetch,
    FetchSegments,
    FetchAlso,
    Send,
    SendAnnounce,
    SendProbe,
    Publish,
)

_PLACES = {kind: place for place, kind in enumerate(ORDER)}


def in_order(effects: Sequence[Effect]) -> list[Effect]:
    """The effects in the order in which they are performed; equal kinds keep their order."""
    if len(effects) < 2:
        return list(effects)
    return sorted(effects, key=lambda effect: _PLACES[type(effect)])
