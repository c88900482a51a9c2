"""Somebody asks for rounds without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.harness import Harness, harness, until
from tests.threats.conftest import TOKEN
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

FAR: Any = {"client": ("192.0.2.7", 5)}
STRANGER: Any = {"client": ("192.0.2.8", 5)}


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness(tmp_path_factory.mktemp("triggers")) as h:
        h.start(COMPUTE="thread")
        h.ready()
        yield h


@pytest.mark.slow
def test_hundreds_of_triggers_are_one_round(nodes: Harness) -> None:
    (node,) = nodes.nodes
    found = Counter(node.trigger().status_code for _ in range(300))
    assert found[202] == 1
    assert found.keys() <= {202, 409, 429}
    assert node.http.get("/health").status_code == 200
    nodes.go()
    until(lambda: node.job()["phase"] == "IDLE", "the end of the round")
    assert [record["round"] for record in node.history()] == [0]


async def test_who_may_not_act_does_not_even_reach_the_node(client: Client, node: FakeNode) -> None:
    for _ in range(1000):
        answer = await client.post("/training/trigger", json={"trainerId": "MNIST"}, scope_base=STRANGER)
        assert answer.status_code == 401
    assert node.received == []


async def test_one_callers_haste_does_not_hold_up_another(client: Client, node: FakeNode) -> None:
    ask: Any = {"json": {"trainerId": "MNIST"}, "headers": {"Authorization": f"Bearer {TOKEN}"}}
    found = Counter(
        [(await client.post("/training/trigger", scope_base=FAR, **ask)).status_code for _ in range(1000)]
    )
    assert found == {202: 1, 409: 199, 429: 800}
    assert len(node.received) == 200
    answer = await client.post("/training/trigger", json={"trainerId": "MNIST_3_7"})
    assert answer.status_code == 202
