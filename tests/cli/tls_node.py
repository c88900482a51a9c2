"""A stand-in for a node of a pinned mesh: TLS with the certificates of a real one, and a refusal of plain HTTP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flnet.security.keys import PRIVATE, ensure
from flnet.security.tls import CERTIFICATE, NODE_NAME, PAGE_CERTIFICATE, PAGE_KEY, ensure_certificates
from tests.cli.fake_node import FakeNode, _handler, serving

REFUSAL = b'{"error": "tls_needed", "message": "this node answers with TLS only"}'


class PinnedNode(FakeNode):
    """A fake node; `plain` are the heads of requests that came without TLS, `names` those that were asked for."""

    def __init__(self, key: str) -> None:
        super().__init__("")
        self.key = key
        self.plain: list[bytes] = []
        self.names: list[str | None] = []


@contextmanager
def running_pinned_node(folder: Path) -> Iterator[PinnedNode]:
    """A node of a pinned mesh whose key is made in this folder."""
    node = PinnedNode(ensure(folder))
    ensure_certificates(folder)
    page, nodes = _context(folder, PAGE_CERTIFICATE, PAGE_KEY), _context(folder, CERTIFICATE, PRIVATE)

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        node.names.append(name)
        connection.context = nodes if name == NODE_NAME else page

    page.sni_callback = choose

    class Server(ThreadingHTTPServer):
        def get_request(self) -> tuple[Any, Any]:
            arrived, address = super().get_request()
            if arrived.recv(1, socket.MSG_PEEK) == b"\x16":  # the handshake of TLS (RFC 8446, 5.1)
                return page.wrap_socket(arrived, server_side=True), address
            node.plain.append(arrived.recv(65536))
            head = f"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: {len(REFUSAL)}\r\n\r\n"
            arrived.sendall(head.encode() + REFUSAL)
            arrived.close()
            raise OSError("no TLS")

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), _handler(node)) as server:
        node.address = f"127.0.0.1:{server.server_address[1]}"
        with serving(server):
            yield node


def _context(folder: Path, certificate: str, key: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / certificate, folder / key)
    return made
