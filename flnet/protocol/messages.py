"""Base of all messages and the fields that many of them have. A message is valid if it could be created.

Field names on the wire are camelCase. Messages between nodes ignore fields they do not know, so that a
newer peer can say more; what a person sends may hold nothing unknown, so that a typing error is seen.
A message never contains arrays. They are sent with it, in a Packet.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from flnet.errors import InvalidMessage
from flnet.fingerprints import check_key
from flnet.names import MAX_HOST, MAX_NAME, check_host, check_name, hostport
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.counts import Count, EvaluationCounts, Measured, check_agreement
from flnet.protocol.updates import Contribution, Over, RoundKey, root_of
from flnet.text import joined, text

# A validation error in words, whatever a stranger sent: short, printable, field by field.


def explain(exc: ValidationError) -> str:
    """A validation error in words: each field, what was expected, and what was received (shortened)."""
    parts = []
    for error in exc.errors(include_url=False)[:5]:
        place = ".".join(_shortened(ascii(str(step)[:60])[1:-1]) for step in error["loc"]) or text("the message")
        parts.append(text("{field}: {reason}", place, _fault(error)))
    hidden = exc.error_count() - len(parts)
    return joined([*parts, text("and {count} more", hidden)] if hidden > 0 else parts)


def _fault(error: ErrorDetails) -> str:
    """The error of one field, in pydantic's words."""
    got = _SHORT.repr(error.get("input"))
    limit = error["msg"].rpartition(" ")[2]
    match error["type"]:
        case "missing":
            return text("Field required")
        case "extra_forbidden":
            return text("Extra inputs are not permitted (got {value})", got)
        case "value_error":
            return text("Value error, {reason} (got {value})", error["ctx"]["error"], got)
        case "finite_number":
            return text("Input should be a finite number (got {value})", got)
        case "int_type":
            return text("Input should be a valid integer (got {value})", got)
        case "float_type":
            return text("Input should be a valid number (got {value})", got)
        case "string_type":
            return text("Input should be a valid string (got {value})", got)
        case "greater_than":
            return text("Input should be greater than {limit} (got {value})", limit, got)
        case "greater_than_equal":
            return text("Input should be greater than or equal to {limit} (got {value})", limit, got)
        case "less_than":
            return text("Input should be less than {limit} (got {value})", limit, got)
        case "less_than_equal":
            return text("Input should be less than or equal to {limit} (got {value})", limit, got)
    return f"{error['msg']} (got {got})"


class _Short(reprlib.Repr):
    """Shows a stranger's value in few characters, however large it is or deep it is nested."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxstring, self.maxother = 2, 3, 4, 40, 40

    def repr(self, x: object) -> str:
        """Like repr, at most 60 characters, all of them ASCII."""
        return _shortened(super().repr(x).encode("ascii", "backslashreplace").decode())

    def repr_int(self, x: int, level: int) -> str:
        """Only as many digits as Python is willing to write."""
        return str(x) if x.bit_length() < 200 else text("a whole number of {count} bits", x.bit_length())


_SHORT = _Short()


def _shortened(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."


# Forms of parameters that a node may accept; of int8, with one scale for an array, or one for each block of 256 numbers.
SAFETENSORS, FLOAT16, INT8, INT8_BLOCKS = "safetensors", "float16", "int8", "int8-blocks"
EARLIER_FORMS = (SAFETENSORS, FLOAT16, INT8)  # read by each node that fetches parameters
MAX_PEERS = 256  # in one announcement; larger lists are no mesh of ours
LAST_ROUND = 2**53  # larger numbers are not exact in every JSON reader

Name = Annotated[
    str,
    AfterValidator(check_name),
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_NAME, "pattern": r"^\S(.*\S)?$"}),
]
Host = Annotated[str, AfterValidator(check_host), Field(json_schema_extra={"minLength": 1, "maxLength": MAX_HOST})]
Port = Annotated[int, Field(ge=1, le=65535)]
Round = Annotated[int, Field(ge=0, le=LAST_ROUND)]
Unit = Annotated[float, Field(ge=0, le=1)]
PublicKey = Annotated[  # base64
    str, AfterValidator(check_key), Field(json_schema_extra={"pattern": "^[A-Za-z0-9+/]{43}=$"})
]
Signature = Annotated[str, Field(pattern="^[A-Za-z0-9+/]{86}==$")]  # Ed25519, base64
HexDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
MembersDigest = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Forms = Annotated[tuple[Annotated[str, Field(max_length=40)], ...], Field(max_length=16)]


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError(text("only printable characters may stand here"))
    return value


Agreed = Annotated[str, Field(max_length=2000), AfterValidator(_printable)]
Agreement = Annotated[
    Mapping[Annotated[str, Field(max_length=40), AfterValidator(_printable)], Agreed], Field(max_length=16)
]


class Message(BaseModel):
    """Base of all messages: frozen, camelCase on the wire, no NaN, no infinity."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,  # a node that hears little needs few of them
    )

    path: ClassVar[str] = ""
    carries_params: ClassVar[bool] = False  # whether parameters may be sent with it

    @classmethod
    def read(cls, fields: Any) -> Any:
        """Build the message from decoded JSON.

        Raises:
            InvalidMessage: a field is missing or breaks its rule; the message names each one.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as exc:
            raise InvalidMessage(explain(exc)) from exc

    def fields(self) -> dict[str, Any]:
        """The message as it stands on the wire: its own absent fields left out, peers in it complete."""
        return {name: value for name, value in self.model_dump(by_alias=True).items() if value is not None}


class Peer(Message):
    """The id of a node and its address; ip is None if the receiver should use the address of the caller."""

    id: Name
    ip: Host | None = None
    port: Port

    @property
    def address(self) -> str:
        """The address as "host:port"; IPv6 in brackets. Only for a peer whose ip is known."""
        return hostport(f"{self.ip}", self.port)

    @field_serializer("port")
    def _port_as_text(self, port: int) -> str:
        return str(port)

    def fields(self) -> dict[str, Any]:
        """The peer as on the wire; an unknown ip is null, as in the thesis."""
        return self.model_dump(by_alias=True)


class HyperParams(Message):
    """Hyper-parameters of a round.

    Attributes:
        e: local epochs.
        u: learning rate.
        b: batch size, in examples.
    """

    model_config = ConfigDict(extra="forbid")

    e: int = Field(ge=1, le=10_000)
    u: float = Field(gt=0, le=1_000)
    b: int = Field(ge=1, le=1_000_000)

    def words(self) -> str:
        """The hyper-parameters as the thesis shows them in GET /info."""
        return f"Learning Rate: {self.u:g}, Epochs: {self.e}, Batch size: {self.b}"


@dataclass(frozen=True)
class Packet:
    """A message and the parameters that are sent with it."""

    message: Message
    params: Params | None = None


# The messages by which nodes find each other and stay in touch.


MAX_INCARNATION = 2**53  # larger numbers are not exact in every JSON reader
StateWord = Literal["alive", "suspect", "dead", "left"]
Incarnation = Annotated[int, Field(ge=0, le=MAX_INCARNATION)]
_FIRST = "flnet claim, version 1"  # so that no signature made for something else is taken for one


class News(Message):
    """The state of a member, according to one node.

    Attributes:
        ip, port: its address; without ip, the one that the receiver knows.
        by: node that found that the member does not answer; only in an accusation.
        signature: in base64; of the member that it is alive or left, of `by` that it does not answer. Only in meshes
            with keys.
        accepts, key: of the member, as it announced them; only where a large open mesh hears of it by news alone.
    """

    id: Name
    ip: Host | None = None
    port: Port
    state: StateWord
    incarnation: Incarnation
    by: Name | None = None
    signature: Signature | None = None
    accepts: Forms | None = None
    key: PublicKey | None = None

    # With a type of its result, the description of the API would be that of any object.
    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, fields: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202
        later = ("signature", "accepts", "key")
        return {name: value for name, value in fields(self).items() if name not in later or value is not None}

    @property
    def accuses(self) -> bool:
        """Whether it says that the member does not answer."""
        return self.state in ("suspect", "dead")

    @property
    def speaker(self) -> str | None:
        """The node whose claim it is: the accuser, if it says who that is, or else the member itself."""
        return self.by if self.accuses else self.id

    def statement(self, mesh: str, key: str) -> bytes:
        """The bytes that the speaker signs. Suspect and dead are the same accusation.

        Args:
            mesh: the name of the mesh.
            key: the public key of the speaker in base64.
        """
        claim = "silent" if self.accuses else self.state
        said = {"mesh": mesh, "member": self.id, "claim": claim, "incarnation": self.incarnation}
        said |= {"speaker": self.speaker, "key": key}
        lines = [f"{name}: {str(value).encode('unicode_escape').decode()}" for name, value in said.items()]
        return "\n".join([_FIRST, *lines]).encode()


class Announce(Message):
    """POST /announce: the sender announces itself and names the peers that it knows.

    Attributes:
        accepts: formats of parameters that the sender reads besides the thesis' JSON; unknown ones are ignored.
        incarnation: how often the sender has refuted a suspicion; only from nodes that probe each other.
        members: the states of all members that it knows, including itself and those that died or left.
        key: public key of the sender, which identifies it at any address; absent if it keeps no state on a disk.
        knock: in a pinned mesh, whether the sender has not accepted the receiver yet and only states its name.
    """

    path: ClassVar[str] = "/announce"

    i_am: Peer
    my_known_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    accepts: Forms | None = None
    incarnation: Incarnation | None = None
    members: Annotated[list[News], Field(max_length=2 * MAX_PEERS)] | None = None
    key: PublicKey | None = None
    knock: bool | None = None


# What the largest Announce and the largest answer to it take as JSON in UTF-8, where a character has up to four bytes.
_PEER_BYTES = 4 * MAX_NAME + MAX_HOST + 64
_NEWS_BYTES = 2 * 4 * MAX_NAME + MAX_HOST + 512  # the rest are numbers, names of fields, and what newer nodes add
ANNOUNCE_BYTES = MAX_PEERS * _PEER_BYTES + 2 * MAX_PEERS * _NEWS_BYTES + 4096


class AnnounceReply(Message):
    """The answer to Announce: peers that the caller does not know yet and announces itself to next."""

    announce_yourself_to_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    i_am: Peer
    accepts: Forms | None = None
    incarnation: Incarnation | None = None
    members: Annotated[list[News], Field(max_length=2 * MAX_PEERS)] | None = None
    key: PublicKey | None = None


class Probe(Message):
    """POST /probe: the sender checks that the receiver is alive, and passes on news of members.

    Attributes:
        news: states of members that nodes pass on.
        target: a peer that does not answer the sender; the receiver should probe it and report.
        reached: a peer that the receiver had asked to probe and that answered.
        missed: such a peer that did not answer.
        members_digest: of the ids of all nodes that rounds count on, for the sender; only in large meshes.
    """

    path: ClassVar[str] = "/probe"

    i_am: Peer
    incarnation: Incarnation = 0
    news: list[News] = Field(default=[], max_length=MAX_PEERS)
    target: Peer | None = None
    reached: Name | None = None
    missed: Name | None = None
    key: PublicKey | None = None
    members_digest: MembersDigest | None = None


class ProbeReply(Message):
    """The answer to Probe, with news of members."""

    i_am: Peer
    incarnation: Incarnation = 0
    news: list[News] = Field(default=[], max_length=MAX_PEERS)
    key: PublicKey | None = None
    members_digest: MembersDigest | None = None


# What travels with messages of a round where part of the mesh trains, or that belongs to a series with a goal.
#
# Older nodes ignore it.


MOST_LOSS = (
    1e100  # far beyond float32, and so far below what float64 holds that sums over all nodes and rounds are finite
)
Loss = Annotated[float, Field(ge=-MOST_LOSS, le=MOST_LOSS)]
MAX_GOAL = 200  # characters
MAX_ROUNDS = 1_000_000
LossSum = Annotated[float, Field(ge=-MOST_LOSS * MAX_ROUNDS, le=MOST_LOSS * MAX_ROUNDS)]


Until = Annotated[str, Field(max_length=MAX_GOAL), AfterValidator(_printable)]


class SeriesMessage(Message):
    """Part of StartTraining: the series that the round belongs to, and its results so far.

    Attributes:
        by: the node at which the series was started; together with `first` it identifies the series.
        first: its first round.
        until: the goal, as people write it.
        rounds: maximum number of rounds.
        counted: number of rounds that nodes reported on.
        best: the best mean accuracy so far.
        stale: number of counted rounds since the best one.
        means: accuracy and loss of the newest rounds, oldest first.
        total_accuracy, total_loss: sums over all counted rounds.
        hyper: hyper-parameters of its rounds; absent if they are those of the start. They differ in a round that a person
            starts elsewhere while the series is under way.
    """

    by: Name
    first: Round
    until: Until
    rounds: int = Field(ge=1, le=MAX_ROUNDS)
    counted: int = Field(default=0, ge=0, le=MAX_ROUNDS)
    best: Unit | None = None
    stale: int = Field(default=0, ge=0, le=MAX_ROUNDS)
    means: tuple[tuple[Unit, Loss | None], ...] = Field(default=(), max_length=3)
    total_accuracy: float = Field(default=0.0, ge=0, le=MAX_ROUNDS)
    total_loss: LossSum | None = 0.0
    hyper: HyperParams | None = None

    @model_serializer(mode="wrap")
    def _without_absent_hyper(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in fields(self).items() if name != "hyper" or value is not None}


class ReportMessage(Message):
    """Part of Accuracy: the sender's input to the decision whether the series is over, equal for every receiver.

    Attributes:
        accuracy: of the sender's average, even if it has adopted another model since.
        loss: of the same average, if the trainer reports one.
        over: why the series is over for the sender, if it is over.
        examples, right: rows behind the accuracy, and those of them that it counts as right; absent where it is no share of
            rows.
        split: "validation" if these are validation rows; absent for test rows.
    """

    accuracy: Unit
    loss: Loss | None = None
    over: Over | None = None
    examples: Count | None = None
    right: Count | None = None
    split: Literal["validation"] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.right is not None:
            right = EvaluationCounts(right=self.right, examples=self.examples or 0)
            check_agreement(self.accuracy, self.examples or 0, right)
        return self

    @model_serializer(mode="wrap")
    def _without_absent_counts(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            name: value
            for name, value in fields(self).items()
            if name not in ("examples", "right", "split") or value is not None
        }


MOST_GROUPS = 16


MOST_OWNED = 4  # segments of a round that a node with one owner for each owns, for each one of a slow node


class ChoiceMessage(Message):
    """Part of messages of a round in which only some members train; a hash chooses them.

    Attributes:
        members: the initiator and the peers that it reached when the round began.
        take: how many of them train.
        whole: where updates are averaged in segments, those of them that know whole updates only, as a node of the thesis:
            they own no segment, and have no vote.
        owned: likewise, how many segments nodes own that own more than one.
        failed: where the sum of masked updates failed its check: that round, whose contributors the members are. They
            train in smaller groups, one group a round, to find where it fails.
        group, groups: number of the group from 0, and how many there are; only with `failed`.
    """

    members: tuple[Name, ...] = Field(min_length=1, max_length=MAX_PEERS + 1)
    take: int = Field(ge=1, le=MAX_PEERS + 1)
    whole: tuple[Name, ...] | None = Field(default=None, min_length=1, max_length=MAX_PEERS)
    owned: dict[Name, Annotated[int, Field(ge=2, le=MOST_OWNED)]] | None = Field(
        default=None, min_length=1, max_length=MAX_PEERS
    )
    failed: Round | None = None
    group: int | None = Field(default=None, ge=0, lt=MOST_GROUPS)
    groups: int | None = Field(default=None, ge=2, le=MOST_GROUPS)

    @model_serializer(mode="wrap")
    def _without_absent(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in fields(self).items() if value is not None}


# What a person asks of a node, and the answers.


MOST_ROUNDS = 100  # of a series with a goal, if nobody says


_Mark = Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]


class RuleStatement(BaseModel):
    """How far a node is with the aggregation rule that it has taken; see `flnet.rounds.rule_change`.

    Attributes:
        by: the node that proposes the rule; empty if none was taken.
        nonce: of the proposal.
        ready: whether all members have taken it, as this node has heard.
        in_force: mark of the proposal that came into force last; empty if none did.
        declined: marks of proposals that it does not take.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    by: Annotated[str, Field(max_length=MAX_NAME)] = ""
    rule: Annotated[str, Field(max_length=200)] = ""
    nonce: _Mark = ""
    ready: bool = False
    in_force: _Mark = ""
    declined: Annotated[tuple[_Mark, ...], Field(max_length=8)] = ()


class PersonMessage(Message):
    """A message from a person; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Trigger(PersonMessage):
    """POST /training/trigger: start `rounds` rounds, one after the other.

    Attributes:
        rounds: number of rounds; with `until` the maximum, 100 by default.
        until: a goal that ends the series on all nodes, such as "accuracy>=0.98, no-gain 5 0.001".
        new_numbering: begin an era: the rounds of the mesh count from the next multiple of 1,000,000,000 on.
    """

    path: ClassVar[str] = "/training/trigger"

    trainer_id: Name
    rounds: int = Field(default=1, ge=1, le=MAX_ROUNDS)
    until: Until | None = None
    federated_learning_params: HyperParams | None = None
    new_numbering: bool | None = None

    @property
    def most(self) -> int:
        """The maximum number of requested rounds."""
        return MOST_ROUNDS if self.until and "rounds" not in self.model_fields_set else self.rounds


class PlanRounds(PersonMessage):
    """PUT /jobs/{trainerId}/schedule: when this node starts rounds automatically.

    Attributes:
        when: such as "every 6h, new 100"; "never" for no schedule, None for the schedule of the node's settings.
    """

    when: Annotated[str, Field(max_length=200)] | None


class Triggered(Message):
    """The answer to Trigger: the number of the (first) round that was started."""

    trainer_id: Name
    round: Round


# The messages of a round: its start, an update, and the comparison of accuracies after the average.


MAX_STALENESS = 1000  # rounds


class JobMessage(Message):
    """Base of the three messages of a round.

    Attributes:
        initiator: node that started the round (absent in the thesis).
        agreement: values of the sender's trainer that must be equal on all nodes, if it has any.
    """

    i_am: Peer
    trainer_id: Name
    round: Round
    federated_learning_params: HyperParams
    initiator: Name | None = None
    agreement: Agreement | None = None

    @property
    def sender(self) -> PeerId:
        """The id of the node that sent it."""
        return PeerId(self.i_am.id)

    @property
    def trainer(self) -> TrainerId:
        """The trainer that it is for."""
        return TrainerId(self.trainer_id)


class StartTraining(JobMessage):
    """POST /training: start a round. In round 0 the parameters sent with it are the initial ones of all nodes.

    Attributes:
        base_round: round whose average the parameters are; -1 if they were never averaged.
        contributors: number of updates in that average.
        digest: of the parameters; a node that has them already does not download them.
        restored_at: set if a person restored this model on the sender: the round that it had reached then.
        run: random value that the initiator's node draws when its process starts. The same round with another
            value comes from an initiator that lost its state.
        again: whether it was sent to this node before. A node to which it is new may have lost its memory of the round.
    """

    path: ClassVar[str] = "/training"
    carries_params: ClassVar[bool] = True

    base_round: int = Field(default=-1, ge=-1)
    contributors: int = Field(default=0, ge=0)
    digest: HexDigest | None = None
    restored_at: int | None = Field(default=None, ge=-1)
    series: SeriesMessage | None = None  # that the round belongs to, if it has a goal
    choice: ChoiceMessage | None = None  # who trains, where not all do
    run: Name | None = None
    again: bool | None = None

    @property
    def key(self) -> RoundKey:
        """The round that it starts."""
        return RoundKey(self.round, PeerId(self.initiator or self.i_am.id))


class AskRound(JobMessage):
    """POST /training/round: the sender was asked to take part in this round, and asks which one the receiver is in."""

    path: ClassVar[str] = "/training/round"


class RoundReply(Message):
    """The answer to AskRound: the round that the receiver is in; -1 if it has been in none."""

    i_am: Peer
    round: int = Field(ge=-1, le=LAST_ROUND)


class ModelParams(JobMessage):
    """POST /training/model_params: the sender's update, or the reason why it takes no part in the round.

    Attributes:
        examples: number of training rows of the update, its weight in the average.
        labels: number of labels in the sender's data, for rules that weight by it.
        accuracy: of the sender's own model on its own test split, before averaging; in [0, 1].
        declined: reason why the sender takes no part; then there are no parameters.
        digest: of the update; if the message has no parameters, they can be downloaded by it.
        seconds: duration of the sender's training and measuring.
        staleness: number of rounds since the start of the training that made the update.
        late: with `declined`: the sender is still training, and its update counts in a later round.
        memory: digest of what the aggregation rule remembers at the sender before the round, if nodes share that; of no
            arrays: nothing yet; absent: the sender shares none.
        group: of a secure sum, for which the parameters are masked.
        segments: digests of the segments of the update, by which they can be downloaded.
        base: digest of the parameters that the sender's training began with.
        schema_digest: digest of names, shapes, dtypes and the agreement.
        key: public key of `signature`, which covers the statement that `flnet.protocol.updates` derives from the message.
    """

    path: ClassVar[str] = "/training/model_params"
    carries_params: ClassVar[bool] = True

    examples: int | None = Field(default=None, ge=0, le=10**12)
    labels: int | None = Field(default=None, ge=0, le=10**6)
    accuracy: Unit | None = None
    declined: str | None = Field(default=None, max_length=500)
    digest: HexDigest | None = None
    base: HexDigest | None = None
    schema_digest: HexDigest | None = None
    key: PublicKey | None = None
    signature: Signature | None = None
    choice: ChoiceMessage | None = None  # as the start had it, for who missed that
    run: Name | None = None  # likewise
    seconds: float | None = Field(default=None, ge=0, le=1e9)
    staleness: int | None = Field(default=None, ge=0, le=MAX_STALENESS)
    late: bool | None = None
    memory: HexDigest | None = None
    group: HexDigest | None = None
    segments: tuple[HexDigest, ...] | None = Field(default=None, max_length=MAX_PEERS + 1)
    owned: int | None = Field(default=None, ge=1, le=MOST_OWNED)


def contribution_of(m: ModelParams) -> Contribution | None:
    """The sender's statement about its update; None if it is incomplete, as in the thesis' format."""
    if m.initiator is None or m.schema_digest is None or m.base is None or m.digest is None or m.examples is None:
        return None
    signed_fields = (m.sender, m.trainer_id, m.round, m.initiator, m.schema_digest, m.base, m.digest, m.examples)
    root = root_of(m, m.segments) if m.segments else ""
    return Contribution(*signed_fields, m.labels or 1, m.key or "", m.signature or "", root)


class Accuracy(JobMessage):
    """POST /training/model_params/accuracy: the accuracy of the sender's average on its own test split.

    Attributes:
        digest: of the average.
        contributors: number of updates in it; 0 if other nodes should not adopt it (`flnet.aggregation.screening`).
        report: in a series with a goal.
        measured: the average on all test rows of the sender, with how many they are; also where the sender has adopted
            another model since.
    """

    path: ClassVar[str] = "/training/model_params/accuracy"
    carries_params: ClassVar[bool] = True

    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)
    report: ReportMessage | None = None
    measured: Measured | None = None


class AccuracyReply(Message):
    """The answer to Accuracy: the same values of the receiver, with its parameters."""

    carries_params: ClassVar[bool] = True

    i_am: Peer
    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)
    report: ReportMessage | None = None
    measured: Measured | None = None


def digest_of(message: Accuracy | AccuracyReply, params: Params | None) -> Digest | None:
    """The digest that the sender states, or else the one of the parameters it sent."""
    if params is not None:
        return params.digest
    return Digest(message.digest) if message.digest else None


# What nodes without common rounds say to each other: which version of its model each one has.


class StatedVersion(Message):
    """The statement of a version, whose parameters can be downloaded by their digest.

    Attributes:
        run: random value that the sender's node draws when its process starts; with the number it identifies a version.
        digest: of the parameters.
        examples: number of training rows of the version, its weight in merges; 0 before the first training.
        labels: number of labels in the sender's data, for rules that weight by it.
        accuracy: of the version, on the sender's own test split; in [0, 1].
        base: digest of the parameters that its training began with.
        schema_digest: digest of names, shapes, dtypes and the agreement.
        key, signature: the sender's signature of the statement; see `flnet.protocol.updates`.
    """

    run: Name
    digest: HexDigest
    examples: int = Field(default=0, ge=0, le=10**12)
    labels: int = Field(default=1, ge=0, le=10**6)
    accuracy: Unit | None = None
    base: HexDigest | None = None
    schema_digest: HexDigest | None = None
    key: PublicKey | None = None
    signature: Signature | None = None


class AskVersion(JobMessage, StatedVersion):
    """POST /training/version: the sender states its newest version and asks for the receiver's.

    `round` is the number of the sender's version, 0 before its first training.
    """

    path: ClassVar[str] = "/training/version"


class VersionReply(StatedVersion):
    """The answer to AskVersion: the newest version of the receiver."""

    i_am: Peer
    round: Round
