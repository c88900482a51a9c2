"""How bytes get to a peer and its reply back; knows no job and no model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, TypeVar

from flnet.errors import NotReady, TooManyMessages, TransportError
from flnet.names import DEFAULT_MESH, is_mesh_name
from flnet.params.blob import Blob, Landing
from flnet.protocol.messages import EARLIER_FORMS
from flnet.security.signatures import EMPTY
from flnet.text import text

MESH_HEADER = "Flnet-Mesh"  # of requests and answers of a mesh with another name than the default
FORMS_HEADER = "Flnet-Accepts"  # of a request for parameters: the forms that the caller reads
MOST_WAIT = 3600  # seconds that a peer may ask for
OFF_LOOP_BYTES = 256 * 1024  # larger bodies are hashed in a thread
CONTROL_BYTES = 64 * 1024  # of a request or answer that holds no model
T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """What came back: the HTTP status, and the body with its content type.

    Attributes:
        headers: further ones that the transport looks at.
        signer: the public key of the node that signed it; None where nothing is signed.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    signer: str | None = None

    def header(self, name: str) -> str | None:
        """A header by name; None if there is none."""
        return self.content_type if name == "Content-Type" else self.headers.get(name)


class Transport(Protocol):
    """Carries one body to one address and brings the reply back."""

    async def send(
        self, address: str, path: str, body: bytes | Blob, content_type: str, reply_limit: int = CONTROL_BYTES
    ) -> Reply:
        """Send to "host:port".

        Any answer of the peer is a Reply, errors included.

        Args:
            reply_limit: bytes that the answer may have.

        Raises:
            PeerUnreachable, PeerTimeout: no answer, after the attempts that the transport makes.
            TransportError: the answer is larger than allowed.
        """
        ...

    async def knock(self, address: str, path: str, body: bytes, content_type: str) -> Reply:
        """Send, in one attempt, also to a node whose key is not accepted here; the reply says whose it is.

        Raises:
            PeerUnreachable, PeerTimeout: no answer.
        """
        ...

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
        """Get what lies at this path of "host:port", in one attempt; a query may follow the path.

        Args:
            reply_limit: bytes that the answer may have.

        Raises:
            PeerUnreachable, PeerTimeout: no answer.
            TransportError: the answer is larger than allowed.
        """
        ...

    async def download(self, address: str, path: str, landing: Landing) -> None:
        """Get the large body at this path of "host:port" into `landing`; go on where it broke off.

        It may land compressed, in one of the codings that `landing` takes, where that makes it sooner there.

        Raises:
            PeerRefused: the peer answered with an error.
            PeerUnreachable, PeerTimeout: no answer, or no more bytes, after the attempts that the transport makes.
            TransportError: the answer is not the body that was asked for.
            PeerError: `landing` does not want it; no more of it is read.
        """
        ...

    async def close(self) -> None:
        """Give connections back; nothing is sent afterwards."""
        ...


def mesh_of(stated: str | None) -> str:
    """The mesh that the header of a request or an answer states, the default one if it is absent; "?" for no name."""
    if stated is None:
        return DEFAULT_MESH
    return stated if is_mesh_name(stated) else "?"


def forms_header(landing: Landing) -> dict[str, str]:
    """The header that says in which forms parameters may land."""
    return {FORMS_HEADER: ", ".join(landing.accepts)} if landing.accepts else {}


def forms_of(stated: str | None) -> frozenset[str]:
    """The forms that the header of a request states, and those that every version reads."""
    return frozenset(EARLIER_FORMS).union(form.strip() for form in (stated or "").split(","))


def wait_of(reply: Reply) -> float | None:
    """Seconds after which the peer wants the same request again, 0 for any moment; None if it does not."""
    if reply.status not in (NotReady.status, TooManyMessages.status) or len(reply.body) > 64 * 1024:
        return None
    try:
        answer = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    match answer:
        case {"error": NotReady.code}:
            return 0.0
        case {"error": TooManyMessages.code, "retryAfter": int(seconds)} if 0 <= seconds <= MOST_WAIT:
            return float(seconds)
    return None


def too_large(address: str, limit: int, got: int) -> TransportError:
    """The failure of an answer that states, or has, more bytes than the request allows."""
    return TransportError(
        text("{address}: its answer may have at most {limit} bytes, and has {got} or more", address, limit, got)
    )


async def parsed(parse: Callable[[bytes], T], body: bytes) -> T:
    """What `parse` makes of a body; of a large one in a thread, as the event loop would stand still."""
    return await asyncio.to_thread(parse, body) if len(body) > CONTROL_BYTES else parse(body)


async def sha256_of(body: bytes | memoryview | Blob | None) -> bytes:
    """The SHA-256 of a body, which for no body is that of an empty one."""
    if body is None:
        return EMPTY
    return await asyncio.to_thread(_hashed, body) if len(body) > OFF_LOOP_BYTES else _hashed(body)


def _hashed(body: bytes | memoryview | Blob) -> bytes:
    if not isinstance(body, Blob):
        return sha256(body).digest()
    total = sha256()
    for piece in body.pieces():
        total.update(piece)
    return total.digest()
