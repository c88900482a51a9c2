"""What a real node answers is what its description says; and schemathesis can tell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.fake_node import running_fake_node
from tests.fuzz.api import started
from tests.fuzz.contract import compared
from tests.processes.harness import harness


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_node_answers_as_it_describes(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        for each in compared(started(made), tmp_path, 25):
            assert each.is_fine, each.told
            assert each.cases > 200
        assert "Traceback" not in made.log(0).read_text("utf-8")


@pytest.mark.slow
def test_an_answer_that_is_not_described_is_found(tmp_path: Path) -> None:
    answers = {
        "200": {"description": "a number", "content": {"application/json": {"schema": {"type": "integer"}}}}
    }
    described: dict[str, Any] = {"openapi": "3.1.0", "info": {"title": "one path", "version": "1"}}
    described["paths"] = {"/number": {"get": {"responses": answers}}}
    with running_fake_node() as node:
        node.get = lambda path: (200, described if path == "/openapi.json" else "no number")  # type: ignore[method-assign]
        one, _ = compared(SimpleNamespace(port=int(node.address.rpartition(":")[2])), tmp_path, 3)  # type: ignore[arg-type]
    assert not one.is_fine
    assert "GET /number" in one.told
