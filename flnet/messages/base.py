"""What all messages share, and what stands in many of them; a message that exists is valid.

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
from flnet.fingerprints import check_key
from flnet.names import check_host, check_name, hostport
from flnet.params import Params

SAFETENSORS, FLOAT16, INT8 = "safetensors", "float16", "int8"  # forms of parameters that a node may accept
MAX_PEERS = 256  # in one announcement; larger lists are no mesh of ours
LAST_ROUND = 2**53  # larger numbers are not exact in every JSON reader

Name = Annotated[str, AfterValidator(check_name)]
Host = Annotated[str, AfterValidator(check_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Round = Annotated[int, Field(ge=0, le=LAST_ROUND)]
Unit = Annotated[float, Field(ge=0, le=1)]
PublicKey = Annotated[str, AfterValidator(check_key)]  # base64
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
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,  # a node that hears little needs few of them
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
        return hostport(f"{self.ip}", self.port)

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


@dataclass(frozen=True)
class Packet:
    """A message and the parameters that travel beside it."""

    message: Message
    params: Params | None = None
