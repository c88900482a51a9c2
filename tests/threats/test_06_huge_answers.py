"""Threat 6: peers that answer with hundreds of megabytes. No more of an answer is read than its request needs."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import RealNode
from tests.threats.stranger import MEGA, peak, post, target, wait_until

pytestmark = pytest.mark.slow
PEERS, ANSWER_BYTES = 4, 500 * MEGA
MOST_TAKEN = 50 * MEGA  # by the node and the buffers of the system, of some dozen answers


class Greedy(BaseHTTPRequestHandler):
    """Answers every request with 500 MB of JSON, and counts what is taken of them."""

    protocol_version = "HTTP/1.1"
    stated = True
    sent: Counter[str]

    def answer(self) -> None:
        """As much as is taken of the answer."""
        with suppress(OSError):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            for name, value in MESH_HEADERS.items():  # else the node asks for no more than the name
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

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def greedy(stated: bool) -> Iterator[tuple[int, Counter[str]]]:
    """Such a peer: its port, and the bytes that were taken of its answers, by path."""
    sent: Counter[str] = Counter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Peer", (Greedy,), {"stated": stated, "sent": sent}))
    server.daemon_threads = True
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], sent
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with target(tmp_path_factory.mktemp("answers")) as made:
        yield made


@pytest.mark.parametrize("stated", [True, False])
def test_huge_answers_of_peers_are_not_read(node: RealNode, stated: bool) -> None:
    with peers(node, stated) as all_sent:
        before = peak(node)
        wait_until(lambda: all(sent["/probe"] or sent["/announce"] for sent in all_sent), "a request to each")
        for _ in range(3):
            node.get("/mesh")
            assert node.get("/health")
        assert peak(node) - before < 32 * MEGA
        assert max(sum(sent.values()) for sent in all_sent) < MOST_TAKEN


@contextmanager
def peers(node: RealNode, stated: bool) -> Iterator[list[Counter[str]]]:
    """Greedy peers that have announced themselves to the node."""
    with greedy(stated) as one, greedy(stated) as two, greedy(stated) as three, greedy(stated) as four:
        for number, (port, _) in enumerate((one, two, three, four)):
            name = f"greedy{number}{'s' if stated else 'c'}"
            body = f'{{"iAm": {{"id": "{name}", "ip": "127.0.0.1", "port": {port}}}, "myKnownPeers": []}}'
            assert post(node, "/announce", body.encode())[0] == 201
        yield [sent for _, sent in (one, two, three, four)]
