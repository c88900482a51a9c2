"""TLS between the nodes of a pinned mesh: who answers shows its key, and to others than trusted ones goes nothing.

Certificates have no authority behind them: the handshake shows that the other side has the private key, and here
it is looked up whether that key is accepted, as a part of the handshake itself. Who calls shows its key by signing
its requests (flnet.signing), so it needs no certificate.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flnet.errors import StartError
from flnet.keys.certificate import CERTIFICATE, PAGE_CERTIFICATE, PAGE_KEY, ensure_certificates, key_of
from flnet.keys.own import PRIVATE

NODE_NAME = (
    "node.flnet.internal"  # who asks for this name (RFC 6066, section 3) is shown the certificate of the node
)
_SAID = {"error": "tls_needed", "message": "this node is in a pinned mesh: it answers with TLS (https) only"}
_BODY = json.dumps(_SAID).encode()
# In plain HTTP, to who came without TLS; nodes take a refusal of this status also where it is not signed.
_ANSWER = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class StrangeKey(ssl.SSLCertVerificationError):
    """The handshake was broken off: the other side's key is not accepted here.

    Attributes:
        key: its public key, base64; empty if it showed none that a node could have.
    """

    def __init__(self, words: str, key: str = "") -> None:
        super().__init__(1, words)
        self.key = key


class _Checked(ssl.SSLObject):
    """A connection to a node; its handshake ends well only if the context takes the key."""

    def do_handshake(self) -> None:
        super().do_handshake()
        context = self.context
        assert isinstance(context, PeerContext)
        context.check(self.getpeercert(binary_form=True) or b"")


class _CheckedSocket(ssl.SSLSocket):
    """The same, for programs without an event loop."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        context = self.context
        assert isinstance(context, PeerContext)
        context.check(self.getpeercert(binary_form=True) or b"")


class PeerContext(ssl.SSLContext):
    """TLS to other nodes.

    Attributes:
        takes: whether a key is good enough; None: any, and `seen` says which it was.
    """

    takes: Callable[[str], bool] | None = None
    seen = ""

    def check(self, certificate: bytes) -> None:
        """Look at who answers.

        Raises:
            StrangeKey: it is not accepted.
        """
        try:
            self.seen = key_of(certificate)
        except ValueError as exc:
            raise StrangeKey(str(exc)) from None
        if self.takes is not None and not self.takes(self.seen):
            raise StrangeKey("its key is not accepted here", self.seen)


class Channel:
    """How a node of a pinned mesh calls others."""

    name = NODE_NAME

    def __init__(self, trusts: Callable[[str], bool]) -> None:
        """Args:
        trusts: whether the node with this public key may be sent anything.
        """
        self.known: ssl.SSLContext = _client(trusts)

    def stranger(self) -> PeerContext:
        """For one request to whoever is there; its `seen` says who that was."""
        return _client(None)


class _Served(ssl.SSLObject):
    """A connection from anybody; who speaks HTTP in place of TLS is told so."""

    outgoing: ssl.MemoryBIO
    is_plain = False

    def do_handshake(self) -> None:
        if self.is_plain:
            raise ssl.SSLError(1, "no TLS was spoken")
        try:
            super().do_handshake()
        except ssl.SSLError as exc:
            if exc.reason not in ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"):
                raise
            self.is_plain = True
            assert isinstance(self.context, ServerContext)
            self.context.on_plain()
            self.outgoing.write(_ANSWER)
            raise ssl.SSLWantReadError from exc  # so that the answer leaves; what comes next ends it


class ServerContext(ssl.SSLContext):
    """TLS of the port that nodes and browsers come to.

    Attributes:
        on_plain: called when somebody spoke HTTP without TLS.
    """

    on_plain: Callable[[], object] = staticmethod(lambda: None)

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any
    ) -> ssl.SSLObject:
        """Begin a connection."""
        made = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(made, _Served)
        made.outgoing = outgoing
        return made


def server_context(folder: Path, on_plain: Callable[[], object]) -> ServerContext:
    """TLS for who comes to this folder's node: nodes are shown its key, all others the certificate of the page.

    Raises:
        StartError: the certificates cannot be made or read.
    """
    ensure_certificates(folder)
    try:
        page = _served(folder / PAGE_CERTIFICATE, folder / PAGE_KEY)
        nodes = _served(folder / CERTIFICATE, folder / PRIVATE)
    except (OSError, ssl.SSLError) as exc:
        raise StartError(f"the certificates in {folder} cannot be used: {exc}") from exc

    def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if name == NODE_NAME:
            connection.context = nodes

    page.sni_callback = choose
    page.on_plain = on_plain
    return page


def _served(certificate: Path, key: Path) -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody here goes on with an earlier session
    context.sslobject_class = _Served
    context.load_cert_chain(certificate, key)
    return context


def _client(takes: Callable[[str], bool] | None) -> PeerContext:
    context = PeerContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no authority is asked; `PeerContext.check` looks at the key
    context.sslobject_class, context.sslsocket_class = _Checked, _CheckedSocket
    context.takes = takes
    return context
