"""What a relay and a node that uses it say to each other: one JSON object a line, and how a node proves that it may.

    relay                              node
      Challenge  ------------------->          on the control connection, as soon as it is open
                 <-------------------  PortRequest
      Granted    ------------------->          or Refused, and the connection ends
      IncomingConnection ----------->          for each connection of a peer to the granted port
                 <-------------------  Token   first line of a new connection, which then carries the peer's bytes
                 <------- Alive ------>        now and then, so that both notice when the other one is gone

Nobody is trusted before its proof was checked, and lines are bounded: anything else than an expected line is a PeerError.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from flnet.errors import InvalidMessage, NotAccepted, OtherMesh, PeerUnreachable, SignatureNeeded, SignatureRefused
from flnet.fingerprints import short
from flnet.protocol.messages import Host, Name, Port, PublicKey, Signature, explain
from flnet.security.signatures import MeshKey, NodeKey
from flnet.text import text

MOST_BYTES = 2048  # of a line: a name takes up to 768 bytes, keys and proofs 250
_FIRST = "flnet relay, version 1"  # of what is signed, so that no signature for something else is taken for one
_Hex = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
_Proof = Annotated[str, Field(pattern="^[A-Za-z0-9+/]{43}=$")]  # HMAC-SHA256, base64


class Line(BaseModel):
    """Base of all lines. Unknown fields are ignored, so that later versions can say more."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Challenge(Line):
    """The first line of a relay: what a node has to sign, and the name of the relay's mesh."""

    kind: Literal["challenge"] = "challenge"
    nonce: _Hex
    mesh: Name


class PortRequest(Line):
    """A node asks for a port at which others reach it.

    Attributes:
        node: its name.
        mesh: the name of its mesh.
        wish: the port that it had before.
        key, signature: its public key, and its signature of `statement`; in a mesh with keys.
        proof: HMAC of the same with the mesh key; in a keyed mesh.
    """

    kind: Literal["port_request"] = "port_request"
    node: Name
    mesh: Name
    wish: Port | None = None
    key: PublicKey | None = None
    signature: Signature | None = None
    proof: _Proof | None = None

    def statement(self, nonce: str) -> bytes:
        """The bytes that are signed."""
        stated = {"mesh": self.mesh, "node": self.node, "key": self.key, "nonce": nonce}
        lines = [f"{name}: {str(value).encode('unicode_escape').decode()}" for name, value in stated.items()]
        return "\n".join([_FIRST, *lines]).encode()


class Granted(Line):
    """The port at which others reach the node, and the one to which it brings its connections."""

    kind: Literal["granted"] = "granted"
    port: Port
    data_port: Port


class Refused(Line):
    """Why the node gets no port."""

    kind: Literal["refused"] = "refused"
    reason: str = Field(max_length=500)


class IncomingConnection(Line):
    """A peer connected to the node's port.

    Attributes:
        token: good for one connection.
        caller: the IP address of the peer.
    """

    kind: Literal["incoming"] = "incoming"
    token: _Hex
    caller: Host


class Token(Line):
    """The connection that follows is for the peer of this token."""

    kind: Literal["token"] = "token"
    token: _Hex


class Alive(Line):
    """The sender is still there."""

    kind: Literal["alive"] = "alive"


AnyLine = Annotated[
    Challenge | PortRequest | Granted | Refused | IncomingConnection | Token | Alive, Field(discriminator="kind")
]
_ADAPTER: TypeAdapter[AnyLine] = TypeAdapter(AnyLine, config=ConfigDict(defer_build=True))
L = TypeVar("L", bound=Line)


def encoded(line: Line) -> bytes:
    """The line, with its end."""
    return line.model_dump_json(exclude_none=True).encode() + b"\n"


def decoded(raw: bytes) -> AnyLine:
    """Read a line; its end may be missing.

    Raises:
        InvalidMessage: it is none, or too long.
    """
    if len(raw) > MOST_BYTES:
        raise InvalidMessage(text("a line has at most {most} bytes, not {count}", MOST_BYTES, len(raw)))
    try:
        return _ADAPTER.validate_json(raw)
    except ValidationError as exc:
        raise InvalidMessage(explain(exc)) from exc


async def receive(reader: asyncio.StreamReader, *kinds: type[L]) -> L:
    """The next line, of one of these kinds.

    Raises:
        InvalidMessage: something else came.
        PeerUnreachable: the connection ended.
    """
    try:
        line = decoded(await reader.readuntil(b"\n"))
    except asyncio.IncompleteReadError as exc:
        raise PeerUnreachable(text("the connection was closed")) from exc
    except asyncio.LimitOverrunError as exc:
        raise InvalidMessage(
            text("a line has at most {most} bytes, not {count}", MOST_BYTES, exc.consumed)
        ) from exc
    if not isinstance(line, kinds):
        expected = ", ".join(kind.__name__ for kind in kinds)
        raise InvalidMessage(text("expected {names}, not {name}", expected, type(line).__name__))
    return line


@dataclass(frozen=True)
class RelayKeys:
    """How nodes of one mesh prove to its relays that they take part; nothing is proven in an open mesh.

    Attributes:
        mesh: name of the mesh.
        node: the key of this node; None in an open mesh.
        secret: the mesh key; None in an open or pinned mesh.
        trusts: whether a public key is accepted here; None where any is.
    """

    mesh: str
    node: NodeKey | None = None
    secret: MeshKey | None = None
    trusts: Callable[[str], bool] | None = None

    def request(self, challenge: Challenge, name: str, wish: int | None = None) -> PortRequest:
        """The request of this node, signed as its mesh demands."""
        request = PortRequest(node=name, mesh=self.mesh, wish=wish, key=self.node.text if self.node else None)
        statement = request.statement(challenge.nonce)
        signature = _base64(self.node.sign(statement)) if self.node else None
        proof = _base64(self.secret.sign(statement)) if self.secret else None
        return request.model_copy(update={"signature": signature, "proof": proof})

    def check(self, challenge: Challenge, request: PortRequest) -> str:
        """Check the request of another node.

        Returns:
            Who it is: its key, or its name in an open mesh.

        Raises:
            OtherMesh, SignatureNeeded, SignatureRefused, NotAccepted: it gets no port.
        """
        if request.mesh != self.mesh:
            raise OtherMesh(request.mesh, self.mesh)
        if self.node is None:
            return request.node
        statement = request.statement(challenge.nonce)
        if request.key is None or request.signature is None:
            raise SignatureNeeded(text("requests between the nodes of this mesh are signed, and this one is not"))
        if not self.node.verify(request.key, base64.b64decode(request.signature), statement):
            raise SignatureRefused(text("the signature is not that of the key {part}", short(request.key)))
        if self.secret is not None and not self.secret.verify(base64.b64decode(request.proof or ""), statement):
            raise SignatureRefused(text("it was not signed with the key of this mesh"))
        if self.trusts is not None and not self.trusts(request.key):
            raise NotAccepted(text("the key with the fingerprint {part} is not accepted here", short(request.key)))
        return request.key

    def still_trusts(self, identity: str) -> bool:
        """Whether who passed `check` before would do so again; people may reject a key at any time."""
        return self.trusts is None or self.trusts(identity)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
