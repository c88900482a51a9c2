"""The messages between nodes, and from people, as the thesis wrote them; a message that exists is valid.

Field names on the wire are camelCase. Messages between nodes ignore fields they do not know, so that a
newer peer can say more; what a person sends may hold nothing unknown, so that a typing error is seen.
Arrays never stand in a message: they travel beside it, in a Packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_serializer
from pydantic.alias_generators import to_camel

from flnet.errors import InvalidMessage
from flnet.explaining import explain
from flnet.names import check_host, check_name
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId

SAFETENSORS, FLOAT16, INT8 = "safetensors", "float16", "int8"  # forms of parameters that a node may accept
MAX_PEERS = 256  # in one announcement; larger lists are no mesh of ours
LAST_ROUND = 2**53  # larger numbers are not exact in every JSON reader

Name = Annotated[str, AfterValidator(check_name)]
Host = Annotated[str, AfterValidator(check_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Round = Annotated[int, Field(ge=0, le=LAST_ROUND)]
Unit = Annotated[float, Field(ge=0, le=1)]
HexDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Forms = Annotated[tuple[Annotated[str, Field(max_length=40)], ...], Field(max_length=16)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("only printable characters may stand here")
    return text


Agreed = Annotated[str, Field(max_length=2000), AfterValidator(_printable)]
Agreement = Annotated[
    Mapping[Annotated[str, Field(max_length=40), AfterValidator(_printable)], Agreed], Field(max_length=16)
]


class Message(BaseModel):
    """What all messages share: frozen, camelCase on the wire, no NaN, no infinity."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, alias_generator=to_camel, populate_by_name=True
    )

    path: ClassVar[str] = ""
    carries_params: ClassVar[bool] = False  # whether parameters may travel beside it

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
    """Who a node is (id) and where it is (ip and port); ip is None when the receiver shall look at the caller."""

    id: Name
    ip: Host | None = None
    port: Port

    @property
    def address(self) -> str:
        """Where it is, as "host:port"; IPv6 in brackets. Only for a peer whose ip is known."""
        return f"[{self.ip}]:{self.port}" if self.ip and ":" in self.ip else f"{self.ip}:{self.port}"

    @field_serializer("port")
    def _port_as_text(self, port: int) -> str:
        return str(port)

    def fields(self) -> dict[str, Any]:
        """As on the wire; an unknown ip stands there as null, as in the thesis."""
        return self.model_dump(by_alias=True)


class HyperParams(Message):
    """What a round is trained with.

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
        """As the thesis shows them in GET /info."""
        return f"Learning Rate: {self.u:g}, Epochs: {self.e}, Batch size: {self.b}"


class Announce(Message):
    """POST /announce: here I am, and these are the peers that I know.

    Attributes:
        accepts: forms of parameters that this node reads besides the thesis' JSON; others are for newer nodes.
    """

    path: ClassVar[str] = "/announce"

    i_am: Peer
    my_known_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    accepts: Forms | None = None


class AnnounceReply(Message):
    """The answer to an announcement: the peers that the caller lacks, to whom it announces itself next."""

    announce_yourself_to_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    i_am: Peer
    accepts: Forms | None = None


class JobMessage(Message):
    """What the three messages of a round share.

    Attributes:
        initiator: who started it (absent in the thesis).
        agreement: what the sender's trainer needs all nodes to have alike, where it says so.
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
    """POST /training: train now. In round 0 the parameters beside it are everyone's start.

    Attributes:
        base_round: the round whose average the parameters are; -1 when they were never averaged.
        contributors: how many updates went into that average.
        digest: of the parameters; who holds them already need not be sent them.
    """

    path: ClassVar[str] = "/training"
    carries_params: ClassVar[bool] = True

    base_round: int = Field(default=-1, ge=-1)
    contributors: int = Field(default=0, ge=0)
    digest: HexDigest | None = None

    @property
    def key(self) -> RoundKey:
        """The round that it starts."""
        return RoundKey(self.round, PeerId(self.initiator or self.i_am.id))


class ModelParams(JobMessage):
    """POST /training/model_params: what the sender learnt, or why it takes no part in this round.

    Attributes:
        examples: training rows behind the update, its weight in the average.
        labels: how many labels the sender's data has, for rules that weigh by it.
        accuracy: of the sender's own model on its own test split, before averaging; in [0, 1].
        declined: set when the sender takes no part: the reason. No parameters come with it.
        digest: of the update; without parameters beside it, they are there to be fetched by it.
    """

    path: ClassVar[str] = "/training/model_params"
    carries_params: ClassVar[bool] = True

    examples: int | None = Field(default=None, ge=0, le=10**12)
    labels: int | None = Field(default=None, ge=0, le=10**6)
    accuracy: Unit | None = None
    declined: str | None = Field(default=None, max_length=500)
    digest: HexDigest | None = None


class Accuracy(JobMessage):
    """POST /training/model_params/accuracy: how good my average is on my own test split.

    Attributes:
        digest: of the average beside it.
        contributors: how many updates went into it.
    """

    path: ClassVar[str] = "/training/model_params/accuracy"
    carries_params: ClassVar[bool] = True

    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)


class AccuracyReply(Message):
    """The answer to Accuracy: the same of the node that was asked; its parameters travel beside it."""

    carries_params: ClassVar[bool] = True

    i_am: Peer
    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)


class PersonMessage(Message):
    """What a person sends: nothing unknown is accepted."""

    model_config = ConfigDict(extra="forbid")


class Trigger(PersonMessage):
    """POST /training/trigger: start `rounds` rounds, one after the other."""

    path: ClassVar[str] = "/training/trigger"

    trainer_id: Name
    rounds: int = Field(default=1, ge=1, le=1_000_000)
    federated_learning_params: HyperParams | None = None


class EditHyperParams(PersonMessage):
    """PATCH /jobs/{trainerId}/params: change some of them; what is absent stays."""

    e: int | None = Field(default=None, ge=1, le=10_000)
    u: float | None = Field(default=None, gt=0, le=1_000)
    b: int | None = Field(default=None, ge=1, le=1_000_000)


class Triggered(Message):
    """The answer to Trigger: the number of the (first) round that was started."""

    trainer_id: Name
    round: Round


@dataclass(frozen=True)
class Packet:
    """A message and the parameters that travel beside it."""

    message: Message
    params: Params | None = None


def digest_of(message: Accuracy | AccuracyReply, params: Params | None) -> Digest | None:
    """The digest that the sender states, or else the one of the parameters it sent."""
    if params is not None:
        return params.digest
    return Digest(message.digest) if message.digest else None
