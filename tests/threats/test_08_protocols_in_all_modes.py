"""Threat 8 against real nodes of each mode: other protocols and bodies of two sizes lead to a refusal, and no further."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.processes.harness import RealNode
from tests.threats.insider import Mode, mesh_of
from tests.threats.stranger import MEGA, peak
from tests.threats.test_08_other_protocols import HEALTH, PREFACE, SETTINGS_FRAME, UPGRADES
from tests.threats.test_08_smuggled_requests import BODY, BOTH, HIDDEN

pytestmark = pytest.mark.slow
SECONDS = 60.0
LINES = 80  # that speak HTTP/2 and never end
H2, SIZES = b"this node speaks HTTP/1.1 only", b"the size of the body is stated in two ways"


@pytest.fixture(scope="module", params=["open", "keyed", "pinned"])
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture(scope="module")
def node(mode: Mode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A node of which nothing is known but its port; nothing that is sent to it puts a traceback into its log."""
    with mesh_of(mode, tmp_path_factory.mktemp("protocols"), 1) as mesh:
        yield mesh.nodes[0]


def connected(node: RealNode, mode: Mode) -> socket.socket:
    """A connection that offers HTTP/2."""
    line = socket.create_connection(("127.0.0.1", node.port), timeout=SECONDS)
    if mode != "pinned":
        return line
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context.wrap_socket(line)


def answers(node: RealNode, mode: Mode, data: bytes) -> bytes:
    """All that the node sends until it closes the connection."""
    received = b""
    with connected(node, mode) as line, suppress(ConnectionError):
        line.sendall(data)
        while part := line.recv(65536):
            received += part
    return received


@pytest.mark.parametrize("before", [b"", HEALTH], ids=["at once", "later"])
def test_http_2_is_refused(node: RealNode, mode: Mode, before: bytes) -> None:
    told = answers(node, mode, before + PREFACE + SETTINGS_FRAME)
    assert told.count(b"HTTP/1.1 200") == (1 if before else 0)
    assert told.count(b"HTTP/1.1 400") == 1 and H2 in told


def test_many_lines_of_http_2_are_all_closed_and_take_little(node: RealNode, mode: Mode) -> None:
    before = peak(node)
    for _ in range(LINES):
        assert H2 in answers(node, mode, PREFACE + SETTINGS_FRAME * 100)
    assert peak(node) - before < 32 * MEGA
    assert node.http.get("/health").status_code == 200


@pytest.mark.parametrize("upgrade", range(len(UPGRADES)))
def test_upgrades_are_refused(node: RealNode, mode: Mode, upgrade: int) -> None:
    told = answers(node, mode, UPGRADES[upgrade])
    assert told.startswith(b"HTTP/1.1 400") and b"and no WebSocket" in told


@pytest.mark.parametrize("headers", range(len(BOTH)))
@pytest.mark.parametrize("path", [b"/announce", b"/training/trigger"])
def test_a_body_of_two_sizes_ends_the_connection(node: RealNode, mode: Mode, headers: int, path: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    told = answers(node, mode, head + BOTH[headers] + b"\r\n" + BODY + HIDDEN)
    assert told.startswith(b"HTTP/1.1 400") and SIZES in told
    assert told.count(b"HTTP/1.1") == 1
