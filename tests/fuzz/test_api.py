"""Hundreds of requests drawn from the node's own description, sound and broken; and the fuzzer itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fuzz.api import MODES, Api, fuzz, lines, started
from tests.processes.harness import harness

SOME, MANY = 200, 2000  # requests


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cases", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_no_request_is_answered_with_a_fault(tmp_path: Path, cases: int) -> None:
    with harness(tmp_path) as made:
        api = Api(started(made), 1)
        fuzz(api, cases, 1)
        assert api.faults == [], "\n".join(lines(api, 1))
        assert api.told[200] > cases / 20
        assert api.told[422] > cases / 20
        assert api.node.http.get("/health").status_code == 200
        assert "Traceback" not in (tmp_path / "n0.log").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("mode", ["keyed", pytest.param("pinned", marks=pytest.mark.long)])
def test_no_request_of_a_member_or_a_person_is_answered_with_a_fault(tmp_path: Path, mode: str) -> None:
    made = MODES[mode](tmp_path)
    try:
        api = Api(started(made), 1, mode)
        fuzz(api, 60, 1)
    finally:
        made.stop()
    assert api.faults == [], "\n".join(lines(api, 1))
    assert api.told[200] > 5
    assert 0 < api.told[401] < 10  # a signature is asked for once, and is right from then on
    assert "Traceback" not in (tmp_path / "n0.log").read_text()


@pytest.mark.parametrize(
    ("status", "body", "faulty"),
    [(500, {"error": "internal_error"}, True), (503, {"error": "not_ready"}, False), (404, {}, False)],
)
def test_a_fault_is_found_and_said(status: int, body: dict[str, Any], faulty: bool) -> None:
    with answering(status, body) as port:
        api = Api(_Node(port), 1)  # type: ignore[arg-type]
        fuzz(api, 3, 1)
    assert api.sent >= 3
    assert bool(api.faults) is faulty
    assert not faulty or "/things" in api.faults[0]


class _Node:
    """What the fuzzer needs of a node."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False).json()


@contextmanager
def answering(status: int, body: dict[str, Any]) -> Iterator[int]:
    """A server that describes one path, and answers there as it is told."""
    responses = {"200": {"description": "fine"}}
    parameter = {"name": "n", "in": "query", "schema": {"type": "integer"}}
    described = {
        "openapi": "3.0.3",
        "info": {"title": "one path", "version": "1"},
        "paths": {"/things": {"get": {"parameters": [parameter], "responses": responses}}},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            described_here = self.path == "/openapi.json"
            words = json.dumps(described if described_here else body).encode()
            self.send_response(200 if described_here else status)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
