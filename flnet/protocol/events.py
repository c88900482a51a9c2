"""The events that a job or the membership can receive. A new capability starts with a new event here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flnet.params.arithmetic import Squares
from flnet.params.params import Digest, MergeRule, Params, PeerId
from flnet.protocol.counts import EvaluationCounts, GroupAccuracy, Measured, Scored
from flnet.protocol.messages import ChoiceMessage, HyperParams, News, Peer, RuleStatement, SeriesMessage
from flnet.protocol.secure_sum import SecretResult, SecurePart
from flnet.protocol.updates import Claim, Contribution, NoisyRelease, RoundKey, Update
from flnet.protocol.vertical import AnyPart, ClassMeaning, EpochClosedPart, TalkPart

# What every event is, and what a trainer says of itself.


class Event:
    """Base of the events of jobs and of the membership; each is a small frozen record."""


Schedule = Literal["two-phase", "parallel", "pipelined", "coarse-first"]
Split = Literal["validation", "test"]  # rows that a model can be measured on


@dataclass(frozen=True)
class Turn:
    """The rounds in which a node trains, if nodes use different labels.

    Attributes:
        schedule: which nodes train in which rounds; the same on all nodes.
        is_desired: whether this node's labels are those of the desired label space.
        turning: with "coarse-first", the round from which such nodes train; the same on all nodes.
    """

    schedule: Schedule = "two-phase"
    is_desired: bool = True
    turning: int = 0


@dataclass(frozen=True)
class Declaration:
    """The declaration of a trainer, read in the training child and kept by the job.

    Attributes:
        label: the trainer's name for people.
        defaults: hyper-parameters until a person or an initiator says otherwise.
        exchange_threshold: minimum gain in accuracy (0 to 1) for which a peer's model is adopted.
        shared: names of the parameters that leave this node; the others stay private.
        merge: how shared arrays are merged that are not averaged.
        data: what was found where: source, rows per split, classes, whether it is sample data.
        agreement: what all nodes must have alike, in words by name: {"classes": "cat, dog"}.
        offers: what a person may do with its models: inputs (what predictions take, or None), formats of an
            export, alone (common or personal: which of two models a file of one holds if nobody chooses), note
            (goes with every prediction), licence, counts (rows of each class per split), finds ("labels" or
            "groups": what can be seen of a model on the own rows; or "").
        personalises: whether its private parameters learn on from each average.
        merging: the aggregation rule that its updates need; empty: the one of the node.
        turn: in which rounds it trains, where nodes that label differently take turns; None: in all.
        limits: the most that a start of another node may ask for, by name: epochs, batch_size, batches, learning_rate.
        buffers: names of the shared arrays that training sets without gradients, as running means.
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
    limits: Mapping[str, float] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()

    @property
    def training_rows(self) -> int:
        """How many rows this node trains on; 0 if the trainer does not say."""
        return int(self.data.get("rows", {}).get("train", 0))


# What people and peers ask of a job, or tell it.


@dataclass(frozen=True)
class RoundTriggered(Event):
    """A person or a schedule requests rounds: a number of them, or a series until a goal is reached.

    Attributes:
        why: reason in words, if a schedule requests them.
        new_numbering: whether an era begins with them.
    """

    rounds: int = 1
    hyper: HyperParams | None = None
    until: str | None = None
    why: str = ""
    new_numbering: bool = False


@dataclass(frozen=True)
class HyperParamsEdited(Event):
    """A person changed hyper-parameters (only those present) for the rounds that start here, or the aggregation rule.

    Attributes:
        merging: the new aggregation rule, as nodes state it to each other; empty if it does not change.
        folds: whether that rule can add updates one after another.
    """

    changes: Mapping[str, float]
    merging: str = ""
    folds: bool = True


@dataclass(frozen=True)
class RuleProposed(Event):
    """A person proposes an aggregation rule to the mesh; `rule` by its whole name, `nonce` of its own each time."""

    rule: str
    nonce: str


@dataclass(frozen=True)
class RuleAnswered(Event):
    """A person takes or declines the proposal with this mark."""

    mark: str
    takes: bool


@dataclass(frozen=True)
class RuleWithdrawn(Event):
    """A person withdraws the proposal of this node."""


@dataclass(frozen=True)
class RulesHeard(Event):
    """What other nodes state of proposed aggregation rules.

    Attributes:
        present: the other nodes that are in the mesh now, also those that do not answer.
        stated: what those state that have answered and have the job.
        without: those that have answered and do not have it.
        forgotten: by a person of this node.
    """

    present: frozenset[PeerId]
    stated: Mapping[PeerId, RuleStatement] = field(default_factory=dict)
    without: frozenset[PeerId] = frozenset()
    forgotten: frozenset[PeerId] = frozenset()


@dataclass(frozen=True)
class SeriesStopped(Event):
    """A person ends the rounds that this node was asked for."""


@dataclass(frozen=True)
class Paused(Event):
    """A person pauses the job on this node."""


@dataclass(frozen=True)
class Resumed(Event):
    """A person resumes the job on this node."""


@dataclass(frozen=True)
class Planned(Event):
    """A person set the schedule of the job (None: the schedule of the node's settings).

    Attributes:
        since: when the newest round was noticed or the schedule was set, in seconds of the node's own clock.
    """

    when: str | None
    since: float


@dataclass(frozen=True)
class WillingnessChanged(Event):
    """This node takes no part in rounds of others now, for a reason; or, without a reason, does so again."""

    reason: str = ""


@dataclass(frozen=True)
class RolledBack(Event):
    """A person restores a model that the job had before.

    Attributes:
        shared, private: its parameters, and the private ones that belong to it.
        round, contributors: of the average.
        accuracy: on this node's test split, if it is known.
    """

    shared: Params
    private: Params
    round: int
    contributors: int
    accuracy: float | None = None


@dataclass(frozen=True)
class TrainingAsked(Event):
    """A peer started a round; `params` is None if the start has only their digest, `run` if it has none.

    `is_again`: it was sent to this node before.
    """

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
    is_again: bool = False


@dataclass(frozen=True)
class UpdateReceived(Event):
    """A peer's update arrived. `choice` and `run` are those of the start of its round,
    `seconds` is the duration of its training."""

    update: Update
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class UpdateOffered(Event):
    """A peer's update can be downloaded by its digest; `update` has no parameters yet.

    Attributes:
        owned: how many segments of the next rounds its sender owns, as compared with others; None: as many as it may.
    """

    update: Update
    digest: Digest
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None
    owned: int | None = None


@dataclass(frozen=True)
class Restored(Event):
    """The state of the job that an earlier run of this node saved; arrives before the trainer is loaded.

    Attributes:
        snapshot: figures, as the job wrote them.
        params, private: shared and private parameters; None if there are none, or they were damaged.
        sent: this node's newest update.
        updates: updates of peers for rounds that were not averaged yet; offered ones have no parameters.
        records: of the rounds that are over, oldest first.
        remembered: what the aggregation rule remembered.
        is_lost: whether there was something that cannot be read; then there is nothing else.
    """

    snapshot: Mapping[str, Any]
    params: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    updates: tuple[UpdateReceived | UpdateOffered, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    remembered: Params | None = None
    is_lost: bool = False


@dataclass(frozen=True)
class DeclineReceived(Event):
    """A peer declined to take part in a round."""

    peer: PeerId
    key: RoundKey
    reason: str
    late: bool = False  # it trains, and its update counts in a later round


@dataclass(frozen=True)
class ClaimReceived(Event):
    """A peer sent its accuracy and waits for this node's."""

    claim: Claim
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ClaimAnswered(Event):
    """A peer answered this node's accuracy with its own."""

    claim: Claim


@dataclass(frozen=True)
class RoundAsked(Event):
    """A peer asks in which round this node is."""

    peer: PeerId


@dataclass(frozen=True)
class RoundAnswered(Event):
    """A peer answered in which round it is; -1 if it has been in none."""

    peer: PeerId
    round: int


@dataclass(frozen=True)
class PartReceived(Event):
    """A peer sent a part of the conversation of a secure sum, or about segments; see `flnet.protocol`."""

    peer: PeerId
    key: RoundKey
    attempt: int
    part: SecurePart
    agreement: Mapping[str, str] | None = field(default=None, compare=False)
    choice: ChoiceMessage | None = None
    params: Params | None = field(default=None, compare=False)  # the segment whose result it states


@dataclass(frozen=True)
class SecureStepDone(Event):
    """A step with this node's secrets has ended."""

    key: RoundKey
    attempt: int
    result: SecretResult


@dataclass(frozen=True)
class VerticalReceived(Event):
    """A peer sent a message of an epoch of a vertical job; see `flnet.protocol.vertical`."""

    peer: PeerId
    key: RoundKey
    session: str
    number: int | None
    parts: tuple[AnyPart, ...]
    arrays: Params
    hyper: HyperParams


@dataclass(frozen=True)
class VerticalDelivered(Event):
    """A peer has this node's message of an epoch of a vertical job."""

    peer: PeerId
    session: str


@dataclass(frozen=True)
class PredictionAsked(Event):
    """A person asks for the prediction of rows of a vertical job by their ids; ends in TellPrediction.

    Attributes:
        ticket: under which the result is told.
        ids: as the person writes them, 1 to MAX_PREDICTED.
    """

    ticket: int
    ids: tuple[str | int, ...]


# How one peer's update counted in an average, for people: its weight, and what the aggregation rule saw of it.


@dataclass(frozen=True)
class Weighed:
    """The weight of one update in one average, and how it was determined.

    Attributes:
        weight: its share of the average, in [0, 1]; None if the rule does not weight whole updates (a median).
        norm: L2 norm of its change, as a multiple of the median over the updates; None if not measured.
        cosine: between its change and the coordinate-wise median of the other changes, in [-1, 1]; None if not measured.
        consistency: distance to its prediction, as a share of all distances; None if not measured.
        reason: why it was left out; empty if it does.
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
    """The trainer was loaded again because its data changed; handled when no round is open.

    Attributes:
        added: number of added rows; 0 if the data were replaced.
    """

    declaration: Declaration
    params: Params
    added: int = 0


@dataclass(frozen=True)
class TalkSent:
    """What a conversation has to say to a holder."""

    to: PeerId
    part: TalkPart
    arrays: Params


@dataclass(frozen=True)
class VerticalDone(Event):
    """The conversation of an epoch took a turn; see `flnet.algorithms.vertical.conversation.Turn`.

    Attributes:
        params: of models that became those of the end of the epoch in this turn; None if none did.
        own_report: with which the epoch ended here, if this node holds labels.
        report: with which the epoch ended, of one label holder.
        rows: of the alignment, in the turn in which it ended: {"rows": (k,)}.
        own: accuracy, AUC and loss of this node's own columns alone on the hold-out rows, in the turn in which the
            epoch ended here, if this node holds features and labels.
        common: number of common rows, in the turn in which a key holder learns it.
        warnings: what people should know.
    """

    session: str
    sent: tuple[TalkSent, ...]
    stage: str
    step: int = 0
    steps: int = 0
    more: bool = False
    bottom: str | None = None
    params: Params | None = None
    own_report: EpochClosedPart | None = None
    report: EpochClosedPart | None = None
    rows: Params | None = None
    alignment: str = ""
    own: Mapping[str, float] | None = None
    common: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerticalFailed(Event):
    """The conversation of an epoch cannot go on."""

    session: str
    reason: str


@dataclass(frozen=True)
class OutputsComputed(Event):
    """This node's part in a prediction is computed.

    Attributes:
        asker, session: of the prediction.
        places: {"places": (n,)} of the rows among the common ones.
        unknown: which of the ids that were asked for are not common.
        outputs: {"values": (n, q)}; None without features.
    """

    asker: PeerId
    session: str
    places: Params
    unknown: tuple[int, ...] = ()
    outputs: Params | None = None


@dataclass(frozen=True)
class PredictionComputed(Event):
    """This label holder has computed a prediction: {"values": (n, k)} probabilities."""

    asker: PeerId
    session: str
    values: Params
    meaning: ClassMeaning = "one_of"
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictionNotComputed(Event):
    """A computation for a prediction failed."""

    asker: PeerId
    session: str
    reason: str


@dataclass(frozen=True)
class PrepareFailed(Event):
    """The trainer cannot work: it has no data, or it is broken. The reason says what to do."""

    reason: str


@dataclass(frozen=True)
class Trained(Event):
    """Local training is done.

    Attributes:
        params: all parameters after training, private ones included.
        shared: the shared ones as they are sent; None if they have to be selected from `params`.
        examples: training rows used.
        accuracy: on the own test split, before averaging; in [0, 1].
        labels: number of labels in the data.
        seconds: duration of training and measuring.
        release: the noise in `shared`; None if it has none.
        tested: that accuracy with the rows behind it, if their number is known.
        validation: of the same model on validation rows, if that was asked for and there are some.
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
    release: NoisyRelease | None = None
    tested: Measured | None = None
    validation: Scored | None = None


@dataclass(frozen=True)
class TrainingFailed(Event):
    """Local training ended without a result; `is_choice` if the trainer had nothing to train on, which is no failure."""

    key: RoundKey
    reason: str
    is_choice: bool = False


@dataclass(frozen=True)
class Averaged(Event):
    """The average of a round is computed.

    Attributes:
        refused: peers whose updates did not count, and the reasons.
        is_common: whether most updates began with the base that they were screened against; see
            `flnet.aggregation.screening`.
        weighed: weight of each update, if the aggregation rule states it.
        remembered: new memory of the aggregation rule; None for a rule without memory.
        note: what people should know of the average, where the rule could not do what its name says; else empty.
        segment: number of the segment that `params` are; None for a whole average.
        spread: how far the updates of neighbours are from the own one (`flnet.algorithms.gossip`); None for a common
            average.
        squares: how far this segment of each update moved; empty where that is known, or is not looked at.
    """

    key: RoundKey
    params: Params
    seconds: float = 0.0
    refused: Mapping[PeerId, str] = field(default_factory=dict)
    is_common: bool = True
    weighed: Mapping[PeerId, Weighed] = field(default_factory=dict)
    remembered: Params | None = None
    note: str = ""
    segment: int | None = None
    spread: float | None = None
    squares: tuple[Squares, ...] = ()


@dataclass(frozen=True)
class SumSpoilt(Event):
    """The sum of a round contains updates that do not count, so it is discarded and has to be computed again.

    Attributes:
        refused: peers whose updates do not count in this round, and the reasons.
    """

    key: RoundKey
    refused: Mapping[PeerId, str]


@dataclass(frozen=True)
class AveragingFailed(Event):
    """The average could not be computed.

    Attributes:
        is_spoilt: whether masked updates add up to a sum that those of honest nodes cannot have.
        segment: number of the segment that was to be averaged; None for a whole average.
    """

    key: RoundKey
    reason: str
    is_spoilt: bool = False
    segment: int | None = None


@dataclass(frozen=True)
class Evaluated(Event):
    """A model was measured on rows of this node.

    Attributes:
        digest: of its shared part.
        private: private parameters after they were trained on it, if that was requested.
        examples: rows behind the accuracy; None if they are not known.
        split: the rows that were measured: "test" also where validation rows were asked for and there are none.
        counts: of these rows, if the trainer counts.
        groups: accuracies of groups of them, if the trainer tells some.
        validation: of the same model on validation rows, if that was asked for and there are some.
    """

    key: RoundKey
    digest: Digest
    accuracy: float
    examples: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    private: Params | None = None
    split: Split = "test"
    counts: EvaluationCounts | None = None
    groups: tuple[GroupAccuracy, ...] = ()
    validation: Scored | None = None


@dataclass(frozen=True)
class EvaluationFailed(Event):
    """A model could not be measured; `split` says which rows were asked for."""

    key: RoundKey
    digest: Digest
    reason: str
    split: Split = "test"


@dataclass(frozen=True)
class Fetched(Event):
    """Parameters with this digest were downloaded from a peer, or from several.

    Attributes:
        wrong: peers that served something else, which was found out and not used.
    """

    key: RoundKey
    peer: PeerId
    digest: Digest
    params: Params
    wrong: tuple[PeerId, ...] = ()


@dataclass(frozen=True)
class FetchFailed(Event):
    """Parameters with this digest could not be downloaded; `peer` and `wrong` as in Fetched."""

    key: RoundKey
    peer: PeerId
    digest: Digest
    reason: str
    wrong: tuple[PeerId, ...] = ()


@dataclass(frozen=True)
class SendFailed(Event):
    """A message could not be delivered in all attempts; `path` is its kind, `session` that of a vertical message."""

    peer: PeerId
    path: str
    key: RoundKey
    reason: str
    session: str = ""


@dataclass(frozen=True)
class SendRefused(Event):
    """A peer answered a message with an error; `current` is the round that it is in, if it stated it.

    `session` is that of a vertical message.
    """

    peer: PeerId
    path: str
    key: RoundKey
    status: int
    error: str
    reason: str
    current: int | None = None
    session: str = ""


@dataclass(frozen=True)
class TimerFired(Event):
    """A timer has run out; `late` is the delay in seconds, if this node was too busy to handle it in time."""

    name: str
    late: float = 0.0


# What the membership hears, and what jobs hear of it.


@dataclass(frozen=True)
class PeerSeen(Event):
    """A peer is known and reachable.

    Attributes:
        is_proven: whether it ever answered this node at its address, or a member that introduced it; anybody can announce
            any name.
        is_whole: whether it is a node of the thesis, which knows whole updates and no segments.
    """

    peer: PeerId
    is_proven: bool = True
    is_whole: bool = False


@dataclass(frozen=True)
class PeerLost(Event):
    """A peer is no longer reachable."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class MeshStarted(Event):
    """The node runs.

    Attributes:
        bootstrap: addresses ("host:port") of possible peers, tried until they answer.
        remembered: addresses of peers from an earlier run of this node, tried a few times, and for as long as no
            peer is known.
        keys: public keys of peers that an earlier run knew.
        incarnation: above all that an earlier run signed; 0 in a mesh without keys.
    """

    bootstrap: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    keys: tuple[tuple[PeerId, str], ...] = ()
    incarnation: int = 0


@dataclass(frozen=True)
class AddressFound(Event):
    """A node of the mesh may be at this address ("host:port"), as something on the network says."""

    address: str


@dataclass(frozen=True)
class AddressGranted(Event):
    """Others reach this node at this address from now on, as a relay says."""

    host: str
    port: int


@dataclass(frozen=True)
class Leaving(Event):
    """This node is about to stop."""


@dataclass(frozen=True)
class AnnounceReceived(Event):
    """A node announced itself and the peers that it knows; its address is complete.

    Attributes:
        incarnation: None from a node that does not state it, such as the thesis' nodes.
        members: the states of all members that it knows.
    """

    peer: Peer
    known: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceAnswered(Event):
    """A node answered this node's announcement, with its id and the peers to announce to next."""

    address: str
    peer: Peer
    announce_to: tuple[Peer, ...] = ()
    accepts: frozenset[str] = frozenset()
    incarnation: int | None = None
    members: tuple[News, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class AnnounceFailed(Event):
    """No usable answer came from this address; `code` is that of a refusal."""

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
    """This peer sent a request, or answered one."""

    peer: PeerId


@dataclass(frozen=True)
class ContactLost(Event):
    """A request to this peer could not be delivered."""

    peer: PeerId
    reason: str


@dataclass(frozen=True)
class FormRefused(Event):
    """A peer does not read a format of parameters that it had stated to read."""

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
    members_digest: str | None = None


@dataclass(frozen=True)
class IdentityDisputed(Event):
    """A node at this address claimed the name of a peer but has another key, or none."""

    peer: PeerId
    key: str | None
    address: str


@dataclass(frozen=True)
class PeerForgotten(Event):
    """A person removed a peer that will not return."""

    peer: PeerId


@dataclass(frozen=True)
class ProbeAnswered(Event):
    """A peer answered a probe; `about` is the peer that it was asked to probe."""

    peer: PeerId
    about: PeerId | None = None
    incarnation: int = 0
    news: tuple[News, ...] = ()
    members_digest: str | None = None


@dataclass(frozen=True)
class ProbeFailed(Event):
    """A probe was not answered; `about` is the peer that its receiver was asked to probe.

    Attributes:
        is_late: whether the time for an answer was over, and no connection was refused or broken.
    """

    peer: PeerId
    about: PeerId | None = None
    reason: str = ""
    is_late: bool = False


# What nodes without common rounds tell each other: which version of its model each one has.


@dataclass(frozen=True)
class Mark:
    """The identity of one version of a node's model.

    Attributes:
        run: of the node that holds it; it draws another one at each of its starts.
        number: number of versions that the node has made; 0 if it has never trained.
        digest: of the parameters.
    """

    run: str
    number: int
    digest: Digest

    def is_newer_than(self, other: Mark | None) -> bool:
        """Whether it is newer than another version of the same node (None: no version is known).

        A node that lost its disk counts from 0 again in another run, so its versions are new, whatever their
        numbers. A node that was only restarted has the same model as before.
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
        mark: its identity.
        update: the statement about it, without parameters.
    """

    mark: Mark
    update: Update

    @property
    def peer(self) -> PeerId:
        """The node whose version it is."""
        return self.update.peer


@dataclass(frozen=True)
class VersionReceived(Event):
    """A peer stated its version and receives this node's."""

    version: Version
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class VersionAnswered(Event):
    """A peer answered this node's version with its own."""

    version: Version
