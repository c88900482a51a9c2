"""TLS between the nodes of a pinned mesh: who answers shows its key, and to others than trusted ones goes nothing.

Certificates have no authority behind them: the handshake shows that the other side has the private key, and here
it is looked up whether that key is accepted, as a part of the handshake itself. Who calls shows its key by signing
its requests (flnet.security), so it needs no certificate.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from flnet.errors import TLS_NEEDED, StartError
from flnet.fingerprints import key_text, short
from flnet.security.keys import PRIVATE, read_private, write_secret

NODE_NAME = (
    "node.flnet.internal"  # who asks for this name (RFC 6066, section 3) is shown the certificate of the node
)
_SAID = {"error": TLS_NEEDED, "message": "this node is in a pinned mesh: it answers with TLS (https) only"}
_BODY = json.dumps(_SAID).encode()
# In plain HTTP, to who came without TLS; nodes take a refusal of this status also where it is not signed.
_ANSWER = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
CERTIFICATE = "identity.crt"
PAGE_KEY, PAGE_CERTIFICATE = "page.key", "page.crt"
MOST_BYTES = 16 * 1024  # of a certificate that is looked at
# It ends with the key, which a person takes back by forgetting it; RFC 5280 (4.1.2.5) has this for "no end".
_FROM, _UNTIL = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)  # UTC


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
        """For one request to any node at an address; `seen` then holds its key."""
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
    plain_answer = _ANSWER
    """What is answered then, in plain HTTP."""

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


# Certificates


def certificate_of(private: Ed25519PrivateKey) -> bytes:
    """The certificate of a node's key, as DER; always the same for the same key."""
    raw = private.public_key().public_bytes_raw()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"flnet {short(key_text(raw))}")])
    serial = int.from_bytes(hashlib.sha256(raw).digest()[:16], "big") >> 1 | 1
    made = _dated(name, serial).public_key(private.public_key()).sign(private, None)
    return made.public_bytes(Encoding.DER)


def key_of(certificate: bytes) -> str:
    """The public key (base64) that a node shows by its certificate; TLS shows that it has the private one.

    Args:
        certificate: DER, from anybody.

    Raises:
        ValueError: it is no certificate of a node.
    """
    if len(certificate) > MOST_BYTES:
        raise ValueError("a certificate of that size is no node's")
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ValueError("the certificate cannot be read") from exc
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError("the certificate is of no Ed25519 key, so it is no node's")
    return key_text(public.public_bytes_raw())


def ensure_certificates(folder: Path) -> None:
    """Make the certificates of this folder's node, where they are not there or not of its key.

    Args:
        folder: held by this process; `own_key` has made sure of the key.

    Raises:
        StartError: a file cannot be read or written.
    """
    try:
        private = read_private((folder / PRIVATE).read_bytes())
        if private is None:
            raise StartError(f"the key in {folder} is no Ed25519 key")
        pem = _pem(certificate_of(private))
        path = folder / CERTIFICATE
        if not path.exists() or path.read_bytes() != pem:
            write_secret(path, pem)
        if not (folder / PAGE_KEY).exists() or not (folder / PAGE_CERTIFICATE).exists():
            key, certificate = _page()
            write_secret(folder / PAGE_KEY, key)
            write_secret(folder / PAGE_CERTIFICATE, certificate)
    except (OSError, ValueError, TypeError) as exc:
        raise StartError(f"the certificates in {folder} cannot be kept: {exc}") from exc


def print_of_page(folder: Path) -> str:
    """The SHA-256 of the page's certificate, as browsers show it."""
    certificate = x509.load_pem_x509_certificate((folder / PAGE_CERTIFICATE).read_bytes())
    return certificate.fingerprint(SHA256()).hex(":").upper()


def _page() -> tuple[bytes, bytes]:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "flnet page")])
    here = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ("127.0.0.1", "::1"))]
    builder = _dated(name, x509.random_serial_number()).public_key(private.public_key())
    made = builder.add_extension(x509.SubjectAlternativeName(here), critical=False).sign(private, SHA256())
    key = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, made.public_bytes(Encoding.PEM)


def _dated(name: x509.Name, serial: int) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(serial)
    return builder.not_valid_before(_FROM).not_valid_after(_UNTIL)


def _pem(der: bytes) -> bytes:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]).encode()
