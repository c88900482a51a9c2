"""All that a job, or the membership, can hear. A new capability begins by naming what it hears here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flnet.params.params import Digest, MergeRule, Params, PeerId
from flnet.protocol.messages import ChoiceMessage, HyperParams, News, Peer, SeriesMessage
from flnet.protocol.updates import Claim, Contribution, RoundKey, Update

# What every event is, and what a trainer says of itself.


class Event:
    """Something that a job, or the membership, hears; each is a small frozen record."""


Schedule = Literal["two-phase", "parallel", "pipelined", "coarse-first"]


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
    """The declaration of a trainer, read in the training child and kept by the job.

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
        merging: the aggregation rule that its updates need; empty: the one of the node.
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


# What people and peers ask of a job, or tell it.


@dataclass(frozen=True)
class RoundTriggered(Event):
    """A person, the command line or a policy asks for rounds; until a goal is reached, for so many at most.

    Attributes:
        why: in words, where a schedule asks for them.
    """

    rounds: int = 1
    hyper: HyperParams | None = None
    until: str | None = None
    why: str = ""


@dataclass(frozen=True)
class HyperParamsEdited(Event):
    """A person changed hyper-parameters (only those present) for the rounds that start here, or the aggregation rule.

    Attributes:
        merging: the rule from now on, as nodes name it to each other; empty: it stays.
        folds: whether that rule can add updates as they come.
    """

    changes: Mapping[str, float]
    merging: str = ""
    folds: bool = True


@dataclass(frozen=True)
class SeriesStopped(Event):
    """A person wants no further round of those that this node was asked for."""


@dataclass(frozen=True)
class Paused(Event):
    """A person wants this node to sit rounds out."""


@dataclass(frozen=True)
class Resumed(Event):
    """A person wants this node to take part again."""


@dataclass(frozen=True)
class Planned(Event):
    """A person said when rounds should start by themselves here (None: as the node's settings say).

    Attributes:
        since: when the newest round was noticed, or this was said, in seconds of the node's own clock.
    """

    when: str | None
    since: float


@dataclass(frozen=True)
class WillingnessChanged(Event):
    """This node takes no part in rounds of others now, for that reason; or (no reason) does again."""

    reason: str = ""


@dataclass(frozen=True)
class RolledBack(Event):
    """A person wants the job to go on from a model that it held before.

    Attributes:
        shared, private: its parameters, and the private ones that belong to it.
        round, contributors: of the average that it is.
        accuracy: of it on the own test split, as far as it is known.
    """

    shared: Params
    private: Params
    round: int
    contributors: int
    accuracy: float | None = None


@dataclass(frozen=True)
class TrainingAsked(Event):
    """A peer started a round; `params` are None where only their digest was said, `run` where none was."""

    peer: PeerId
    key: RoundKey
    params: Params | None
    hyper: HyperParams
    base_round: int = -1
    contributors: int = 0
    agreement: Mapping[str, str] | None = None
    digest: Digest | None = None
    restored_at: int | None = None
    series: SeriesMessage | None = None
    choice: ChoiceMessage | None = None
    run: str | None = None


@dataclass(frozen=True)
class UpdateReceived(Event):
    """A peer's update came; `choice` and `run` are what the start of its round said,
    `seconds` what its training took."""

    update: Update
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class UpdateOffered(Event):
    """A peer's update is there to be fetched by its digest; `update` holds no parameters yet."""

    update: Update
    digest: Digest
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class Restored(Event):
    """The state of the job that an earlier run of this node saved; arrives before the trainer is loaded.

    Attributes:
        snapshot: figures, as the job wrote them.
        params, private: shared and private parameters; None where there are none, or they were damaged.
        sent: the newest own update.
        updates: of peers that count in rounds which were not averaged yet; those that were offered hold no
            parameters.
        records: of the rounds that are over, oldest first.
        remembered: what the aggregation rule remembered.
    """

    snapshot: Mapping[str, Any]
    params: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    updates: tuple[UpdateReceived | UpdateOffered, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    remembered: Params | None = None


@dataclass(frozen=True)
class DeclineReceived(Event):
    """A peer takes no part in a round."""

    peer: PeerId
    key: RoundKey
    reason: str
    late: bool = False  # it trains, and its update counts in a later round


@dataclass(frozen=True)
class ClaimReceived(Event):
    """A peer sent its accuracy and waits for ours."""

    claim: Claim
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ClaimAnswered(Event):
    """A peer answered our accuracy with its own."""

    claim: Claim


# How one peer's update counted in an average, for people: its weight, and what the aggregation rule saw of it.


@dataclass(frozen=True)
class Weighed:
    """One update in one average.

    Attributes:
        weight: its share of the average, in [0, 1]; None where the rule gives none to a whole update (a median).
        norm: the L2 norm of what it changed, as a multiple of the median over the updates; None if not measured.
        cosine: between its change and the coordinate-wise median of all changes, in [-1, 1]; None likewise.
        consistency: how far it lies from what was predicted of it, as a share of all distances; None likewise.
        reason: why it does not count; empty if it does.
    """

    weight: float | None = None
    norm: float | None = None
    cosine: float | None = None
    consistency: float | None = None
    reason: str = ""

    def view(self) -> Mapping[str, Any]:
        """The fields as JSON-ready data, without unknown ones."""
        found = {name: value for name, value in vars(self).items() if value is not None and name != "reason"}
        return {**found, **({"reason": self.reason} if self.reason else {})}


def shares(weights: Mapping[PeerId, float]) -> Mapping[PeerId, float]:
    """Weights divided by their sum; all alike if they are all 0 (rule R5)."""
    total = sum(weights.values())
    return {name: weight / total if total > 0 else 1 / len(weights) for name, weight in weights.items()}


# How effects end: every one that takes time ends in one of these, failure included.


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
        is_common: whether it was decided on the base that most updates began with; see `flnet.aggregation.screening`.
        weighed: how each update counted, as far as the aggregation rule can say.
        remembered: what the aggregation rule remembers from now on; None of a rule without memory.
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


# What the membership hears, and what jobs hear of it.


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
    """The node runs.

    Attributes:
        bootstrap: addresses ("host:port") that may lead to the mesh, tried until they answer.
        remembered: addresses of peers that an earlier run of this node knew, tried some times, and for as long as
            no peer is known.
    """

    bootstrap: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    keys: tuple[tuple[PeerId, str], ...] = ()  # of peers that an earlier run knew


@dataclass(frozen=True)
class Leaving(Event):
    """This node is about to stop."""


@dataclass(frozen=True)
class AnnounceReceived(Event):
    """A node announced itself and the peers that it knows; its address is complete.

    Attributes:
        incarnation: None from a node that says nothing of it, as the thesis' nodes.
        members: all that it knows of members.
    """

    peer: Peer
    known: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceAnswered(Event):
    """A node answered our announcement: who it is, and to whom we announce ourselves next."""

    address: str
    peer: Peer
    announce_to: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceFailed(Event):
    """Nobody usable answered at this address; `code` is that of a refusal."""

    address: str
    reason: str
    code: str = ""


@dataclass(frozen=True)
class TrustChanged(Event):
    """In a pinned mesh, some fingerprints are no longer trusted, and nodes at some addresses are now."""

    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShutOutBy(Event):
    """In a pinned mesh, a member does not accept this node's key, or no longer does."""

    peer: PeerId


@dataclass(frozen=True)
class ContactMade(Event):
    """A request from this peer came, or one of ours was answered by it."""

    peer: PeerId


@dataclass(frozen=True)
class ContactLost(Event):
    """A request of ours to this peer did not get through."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class FormRefused(Event):
    """A peer does not read the form of parameters that it once said it reads."""

    peer: PeerId


@dataclass(frozen=True)
class ProbeReceived(Event):
    """A node asks whether this one is alive; see `flnet.protocol.messages.Probe`."""

    peer: Peer
    incarnation: int = 0
    news: tuple[News, ...] = ()
    target: PeerId | None = None
    reached: PeerId | None = None
    missed: PeerId | None = None
    key: str | None = None


@dataclass(frozen=True)
class IdentityDisputed(Event):
    """A node at this address claimed the name of a peer, and has another key, or none."""

    peer: PeerId
    key: str | None
    address: str


@dataclass(frozen=True)
class PeerForgotten(Event):
    """A person says that this peer is gone for good."""

    peer: PeerId


@dataclass(frozen=True)
class ProbeAnswered(Event):
    """A peer answered a probe of ours; `about` is whom it was asked to probe."""

    peer: PeerId
    about: PeerId | None = None
    incarnation: int = 0
    news: tuple[News, ...] = ()


@dataclass(frozen=True)
class ProbeFailed(Event):
    """A probe of ours was not answered in time; `about` is whom the peer was asked to probe."""

    peer: PeerId
    about: PeerId | None = None
    reason: str = ""


# What nodes without common rounds tell each other: which version of its model each one has.


@dataclass(frozen=True)
class Mark:
    """The identity of one version of a node's model.

    Attributes:
        run: of the node that holds it; it draws another one at each of its starts.
        number: how many versions the node has made; 0 as long as it never trained.
        digest: of the parameters.
    """

    run: str
    number: int
    digest: Digest

    def is_newer_than(self, other: Mark | None) -> bool:
        """Whether it came after another one of the same node (None: of which nothing is known).

        A node that lost its disk counts from 0 again, in another run: so its versions are new, whatever their
        numbers. One that was only started again holds the model that it held.
        """
        if other is None:
            return self.number > 0
        if self.digest == other.digest or self.number == 0:
            return False
        return self.run != other.run or self.number > other.number


@dataclass(frozen=True)
class Version:
    """A peer's model as the peer states it; its parameters can be fetched by their digest.

    Attributes:
        mark: which one it is.
        update: what is stated of it, without parameters.
    """

    mark: Mark
    update: Update

    @property
    def peer(self) -> PeerId:
        """Whose it is."""
        return self.update.peer


@dataclass(frozen=True)
class VersionReceived(Event):
    """A peer said its version, and hears ours."""

    version: Version
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class VersionAnswered(Event):
    """A peer that heard our version answered with its own."""

    version: Version
