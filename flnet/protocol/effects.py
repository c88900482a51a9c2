"""All that a job, or the membership, may ask for, in the order in which it is performed.

`Save` comes first, so that no peer ever holds what our restart would forget; `Answer` next, so that the
caller waits for nothing else. Every effect that takes time ends in an event, failure included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.messages import HyperParams, Message, News, Peer, Probe
from flnet.protocol.updates import RoundKey, Update


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
    """Keep this state of the job; must be done before anything below.

    Attributes:
        snapshot: all figures; `updates_from` in it is the first round whose updates are still needed.
        params: shared parameters, where others are held than at the last Save.
        private: private parameters, likewise.
        sent: the own update, before any peer hears of it.
        remembered: what the aggregation rule remembers, likewise.
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
class TellJobs:
    """Tell every job that a peer is reachable, or not any more."""

    peer: PeerId
    alive: bool
    reason: str = ""


@dataclass(frozen=True)
class CancelWork:
    """Stop the training of this round; its end, if it still comes, is ignored."""

    key: RoundKey


@dataclass(frozen=True)
class Train:
    """Train in the compute queue, then measure. Ends in Trained or TrainingFailed."""

    key: RoundKey
    params: Params
    hyper: HyperParams


@dataclass(frozen=True)
class Fold:
    """Add these updates, sorted by peer, to the running sum of this round in the compute queue, so that they need not be
    kept. Ends in nothing; what goes wrong shows in the Average that follows.
    """

    key: RoundKey
    updates: tuple[Update, ...]


@dataclass(frozen=True)
class Average:
    """Merge these updates, sorted by peer, with those that were folded before (never nothing at all) in the
    lane. Ends in Averaged, SumSpoilt or AveragingFailed.
    """

    key: RoundKey
    updates: tuple[Update, ...]
    folded: tuple[PeerId, ...] = ()


@dataclass(frozen=True)
class Evaluate:
    """Measure these parameters (private ones included) on the own test split. Ends in Evaluated or
    EvaluationFailed.

    Attributes:
        shared: the part whose digest is reported.
        hyper: where it is given, the private parameters first learn on from this model, with these.
    """

    key: RoundKey
    params: Params
    shared: Params
    hyper: HyperParams | None = None


@dataclass(frozen=True)
class CancelTimer:
    """Forget a timer; not an error if it is not set."""

    name: str


@dataclass(frozen=True)
class SetTimer:
    """Wake up with TimerFired(name) after `seconds` plus a random part of `margin`; replaces one of that name."""

    name: str
    seconds: float
    margin: float = 0.0


@dataclass(frozen=True)
class Fetch:
    """Get the parameters of this digest from a peer. Ends in Fetched or FetchFailed.

    Attributes:
        proven: whether they must be shown to have this digest, as a model must that several nodes speak of. A
            peer's own update is whatever the peer says; hashing it would prove only that the transfer was whole.
    """

    key: RoundKey
    peer: PeerId
    digest: Digest
    proven: bool = True


@dataclass(frozen=True)
class Send:
    """Send a message with its parameters to each of these peers, concurrently.

    Where the message names their digest, a peer that can fetch them by it may be sent the message alone. Each
    peer's answer comes back as an event of its own: SendFailed, SendRefused, ClaimAnswered.
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
    """Probe a peer, which has so many seconds to answer. Ends in ProbeAnswered or ProbeFailed."""

    to: PeerId
    message: Probe
    seconds: float


@dataclass(frozen=True)
class Publish:
    """Add an event to the event log: a kind ("round_started"), a sentence, and data."""

    kind: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


Effect = (
    Save
    | Answer
    | TellJobs
    | CancelWork
    | Train
    | Fold
    | Average
    | Evaluate
    | CancelTimer
    | SetTimer
    | Fetch
    | Send
    | SendAnnounce
    | SendProbe
    | Publish
)

ORDER: tuple[type, ...] = (
    Save,
    Answer,
    TellJobs,
    CancelWork,
    Train,
    Fold,
    Average,
    Evaluate,
    CancelTimer,
    SetTimer,
    Fetch,
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
