"""Hundreds of requests drawn from the node's own description, sound and broken; and the fuzzer itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from tests.cli.fake_node import running_fake_node
from tests.fuzz.api import MODES, Api, Signature, fuzz, lines, started
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
    ("path", "is_signed"), [("/training", True), ("/training/trigger", False), ("/jobs", False)]
)
def test_nodes_sign_and_the_operator_shows_a_token(path: str, is_signed: bool) -> None:
    sent = requests.Request("POST", f"http://127.0.0.1:4000{path}", auth=Signature(None)).prepare()
    assert ("Flnet-Receiver" in sent.headers) is is_signed
    assert ("Authorization" in sent.headers) is not is_signed


@pytest.mark.parametrize(
    ("status", "body", "faulty"),
    [(500, {"error": "internal_error"}, True), (503, {"error": "not_ready"}, False), (404, {}, False)],
)
def test_a_fault_is_found_and_said(status: int, body: dict[str, Any], faulty: bool) -> None:
    parameter = {"name": "n", "in": "query", "schema": {"type": "integer"}}
    operation = {"parameters": [parameter], "responses": {"200": {"description": "fine"}}}
    described: dict[str, Any] = {"openapi": "3.0.3", "info": {"title": "one path", "version": "1"}}
    described["paths"] = {"/things": {"get": operation}}
    with running_fake_node() as node:
        node.get = lambda path: (status, body)  # type: ignore[method-assign]
        port = int(node.address.rpartition(":")[2])
        api = Api(SimpleNamespace(port=port, get=lambda path: described), 1)  # type: ignore[arg-type]
        fuzz(api, 3, 1)
    assert api.sent >= 3
    assert bool(api.faults) is faulty
    assert not faulty or "/things" in api.faults[0]
