"""Threat 25: somebody floods what a node writes down, to fill its disk or to push out what others did."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes.harness import RealNode, harness
from tests.threats.stranger import post, wait_until

pytestmark = pytest.mark.slow
KEPT, FLOOD = 50, 300
UPGRADE = (
    b"GET /%d HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def test_a_flood_leaves_few_lines_and_what_the_operator_did(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        made.go()
        node = made.start(KEEP_EVENTS=str(KEPT))
        made.ready()
        assert node.http.post("/jobs/SLOW/pause").status_code == 200
        before = node.log.stat().st_size
        for number in range(FLOOD):
            flood(node, number)
        wait_until(lambda: len(events(node)) > 2 * KEPT, "a full event log")
        assert node.log.stat().st_size - before < 300_000
        node.process.terminate()
        node.process.wait()
        made.again(node)
        made.up(node)
        assert "paused" in [event["kind"] for event in events(node)]
        assert "Traceback" not in node.log.read_text()


def flood(node: RealNode, number: int) -> None:
    """One of each request that once left lines behind."""
    talk_to(node, UPGRADE % number)
    talk_to(node, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    talk_to(node, b"POST /announce HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    me = {"id": f"loud{number}", "ip": "127.0.0.1", "port": 1024 + number}
    post(node, "/announce", json.dumps({"iAm": me, "myKnownPeers": []}).encode())


def talk_to(node: RealNode, request: bytes) -> None:
    """Send a request, and wait until the node closes the connection."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=60) as sock, suppress(ConnectionError):
        sock.sendall(request)
        while sock.recv(65_536):
            pass


def events(node: RealNode) -> list[dict[str, str]]:
    """All events that are kept."""
    return [json.loads(line) for line in node.http.get("/events.jsonl").text.splitlines()]
