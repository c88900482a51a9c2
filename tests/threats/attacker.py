"""What somebody on another address does to a node: one attempt at a time, signed or not, and its answer."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from flnet.security.signatures import MeshKey
from flnet.security.signing import RequestSigner
from tests.mesh_name import MESH_HEADERS
from tests.security.keypairs import TestKey
from tests.threats.stranger import JSON

HERE = "127.0.0.66"  # where attacks come from, so that the bounds of one address hit nobody else
_of_thread = threading.local()
ANSWER_SECONDS = 30.0
CLOSED = "closed"
Told = tuple[int, bytes, str | None]  # status, body, challenge


class Target(NamedTuple):
    """The node that is attacked, and what an attacker may know.

    Attributes:
        port: of the node.
        other_port: of another node of the mesh.
        mesh: the key of the mesh, for attacks of those who have it.
        token: of the person of the node.
        old_token: that was its token until it was replaced.
    """

    port: int
    other_port: int
    mesh: MeshKey
    token: str
    old_token: str


def call_from(address: str) -> None:
    """Let the attacks of this thread come from another address."""
    _of_thread.address = address


def here() -> str:
    """Where the attacks of this thread come from."""
    return getattr(_of_thread, "address", HERE)


def ask(
    port: int, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, method: str = "POST"
) -> Told:
    """Send one request over a connection of its own; a caller that is cut off while sending still reads the answer."""
    headers = MESH_HEADERS | dict(headers or {})
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS, source_address=(here(), 0))
    try:
        line.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            line.putheader(name, value)
        with suppress(ConnectionError):
            line.endheaders(body)
        answer = line.getresponse()
        return answer.status, answer.read(), answer.getheader("WWW-Authenticate")
    finally:
        line.close()


def named(told: Told) -> str:
    """Status and code of an answer, such as "403 signature_refused"."""
    with suppress(ValueError, AttributeError):
        return f"{told[0]} {json.loads(told[1]).get('error', '')}".strip()
    return str(told[0])


class Signer:
    """Signs requests as a node would that has this key of the mesh."""

    def __init__(self, mesh: MeshKey, run: str, key: int = 77) -> None:
        """Args:
        run: 16 hexadecimal digits that no other signer of the same key has.
        key: number of the key of the node.
        """
        self.key = TestKey(key)
        self._seal = RequestSigner(self.key, mesh, run)

    def signed(self, port: int, path: str, body: bytes, content_type: str = JSON) -> dict[str, str]:
        """The headers for this body; the node at the port is asked first who it is."""
        address, digest = f"127.0.0.1:{port}", sha256(body).digest()
        sealed = self._seal.request(address, "POST", path, "", digest, content_type)
        if sealed.receiver is None:
            status, _, challenge = ask(port, path, b"{}", {**sealed.headers, "Content-Type": JSON})
            self._seal.learn(address, sealed, status, {"WWW-Authenticate": challenge}.get)
            sealed = self._seal.request(address, "POST", path, "", digest, content_type)
            assert sealed.receiver is not None, "a node of a keyed mesh says who it is"
        return {**sealed.headers, "Content-Type": content_type}


def connected(port: int) -> socket.socket:
    """A connection from where attacks come from."""
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS, source_address=(here(), 0))


def ended(sock: socket.socket) -> str:
    """How the node has ended a connection: the status of its answer, or "closed"; empty while it has not."""
    sock.setblocking(False)
    try:
        said = sock.recv(4096)
    except BlockingIOError:
        return ""
    except OSError:
        return CLOSED
    words = said.split(b" ", 2)
    return words[1].decode("ascii", "replace") if said.startswith(b"HTTP/1.1 ") and len(words) > 1 else CLOSED
