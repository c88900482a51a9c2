"""Threat 6: members that answer with hundreds of megabytes. No more of an answer is read than its request needs."""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from flnet.errors import SignatureNeeded
from flnet.security.keys import PRIVATE, load_signer, own_key
from flnet.security.signatures import MeshKey, NodeKey
from flnet.security.signing import RequestVerifier
from flnet.security.tls import CERTIFICATE, ensure_certificates
from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import RealNode
from tests.threats.insider import SECRET, Insider, Mode, mesh_of
from tests.threats.stranger import JSON, MEGA, peak, wait_until

pytestmark = pytest.mark.slow
PEERS, ANSWER_BYTES = 4, 500 * MEGA
MOST_TAKEN = 50 * MEGA  # by the node and the buffers of the system, of some dozen answers


class Greedy(BaseHTTPRequestHandler):
    """Answers every request with 500 MB of JSON, and counts what is taken of them.

    In a mesh with keys its answers are signed, as those of a member, before their content is known to be another one.
    """

    protocol_version = "HTTP/1.1"
    stated = True
    sent: Counter[str]
    verifier: RequestVerifier | None

    def answer(self) -> None:
        """As much as is taken of the answer."""
        with suppress(OSError):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            signed: Mapping[str, str] = {}
            if self.verifier is not None:
                try:
                    caller = self.verifier.admit(self.command, self.path, "", self.headers.get)
                except SignatureNeeded:
                    self.ask_for_signature(self.verifier)
                    return
                signed = self.verifier.answer(caller, 200, JSON, sha256(b"another content").digest())
            self.sent[self.path] += 1  # it was asked, if no more is taken
            self.send_response(200)
            self.send_header("Content-Type", JSON)
            for name, value in {**MESH_HEADERS, **signed}.items():  # without the name, no more is asked
                self.send_header(name, value)
            if self.stated:
                self.send_header("Content-Length", str(ANSWER_BYTES))
            else:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            piece = b"[0,0,0,0" + b",0" * (MEGA // 2)
            framed = piece if self.stated else b"%x\r\n%b\r\n" % (len(piece), piece)
            for _ in range(ANSWER_BYTES // len(piece)):
                self.sent[self.path] += self.connection.send(framed)
        self.close_connection = True

    def ask_for_signature(self, verifier: RequestVerifier) -> None:
        """Say who is here."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", verifier.me.challenge)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


class Member(NamedTuple):
    """Who a greedy peer is.

    Attributes:
        name: without what tells apart its two forms.
        key: with which it signs.
        folder: of the key, and of its certificate.
    """

    name: str
    key: NodeKey
    folder: Path


@contextmanager
def greedy(
    stated: bool, verifier: RequestVerifier | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[int, Counter[str]]]:
    """Such a peer: its port, and the bytes that were taken of its answers, by path.

    Args:
        verifier: signs its answers; None in an open mesh.
        tls: of a pinned mesh.
    """
    sent: Counter[str] = Counter()
    handler = type("Peer", (Greedy,), {"stated": stated, "sent": sent, "verifier": verifier})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    server.socket = tls.wrap_socket(server.socket, server_side=True) if tls else server.socket
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], sent
    finally:
        server.shutdown()
        server.server_close()


def verifier_of(key: NodeKey, mesh: MeshKey | None) -> RequestVerifier:
    """Signs the answers of a member."""
    return RequestVerifier(key, mesh, lambda: secrets.token_hex(16))


def tls_of(folder: Path) -> ssl.SSLContext:
    """TLS with the key in this folder."""
    ensure_certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE)
    return context


class Besieged(NamedTuple):
    """A node, the greedy peers that it lets in, and what ends them after the node."""

    mode: Mode
    node: RealNode
    members: list[Member]
    servers: ExitStack


@pytest.fixture(scope="module", params=["open", "keyed", "pinned"])
def besieged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    members = []
    for number in range(2 * PEERS):
        folder = tmp_path_factory.mktemp(f"greedy{number}")
        own_key(folder)
        members.append(Member(f"greedy{number}", load_signer(folder), folder))
    keys, folder = [member.key for member in members], tmp_path_factory.mktemp("answers")
    watchful = "tests.processes.watchful"  # it soon asks those again that have failed
    with ExitStack() as servers, mesh_of(request.param, folder, 1, *keys, module=watchful) as mesh:
        yield Besieged(request.param, mesh.nodes[0], members, servers)


@pytest.mark.parametrize("stated", [True, False])
def test_huge_answers_of_members_are_not_read(besieged: Besieged, stated: bool) -> None:
    node = besieged.node
    all_sent = announced_peers(besieged, stated)
    before = peak(node)
    wait_until(lambda: all(sent["/probe"] or sent["/announce"] for sent in all_sent), "a request to each")
    for _ in range(3):
        node.get("/mesh")
        assert node.get("/health")
    assert peak(node) - before < 32 * MEGA
    assert max(sum(sent.values()) for sent in all_sent) < MOST_TAKEN


def announced_peers(besieged: Besieged, stated: bool) -> list[Counter[str]]:
    """Greedy peers that have announced themselves to the node: what was taken of the answers of each."""
    mode, members = besieged.mode, besieged.members[:PEERS] if stated else besieged.members[PEERS:]
    all_sent = []
    for member in members:
        verifier = (
            verifier_of(member.key, MeshKey(SECRET) if mode == "keyed" else None) if mode != "open" else None
        )
        tls = tls_of(member.folder) if mode == "pinned" else None
        port, sent = besieged.servers.enter_context(greedy(stated, verifier, tls))
        announced = {"iAm": {"id": member.name, "ip": "127.0.0.1", "port": port}, "myKnownPeers": []}
        assert Insider(mode, member.key).post(besieged.node, "/announce", announced) == (201, "")
        all_sent.append(sent)
    return all_sent
