"""Threat 9: members that describe themselves with lies, with too much, or with what is no description at all.

Nodes that meet ask each other what they state of their jobs, and so do pages that show the mesh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from flnet.node import meeting
from flnet.node.runtime import NodeRuntime
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, until
from tests.node.test_meeting import Columns, differs, told

JSON = "application/json"
MEGA = 1024 * 1024


def described(**stated: object) -> bytes:
    """The description of a node that states this of its job."""
    job = {"trainer_id": MNIST_3_7, "phase": "IDLE", **stated}
    return json.dumps({"version": "0.1.0", "jobsInfo": [job]}).encode()


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


BROKEN = {
    "no-json": b"{",
    "no-object": b"[]",
    "no-text": b"\xff\xfe",
    "deep": b"[" * 200_000,
    "huge": b'{"version": "' + b"1" * (2 * MEGA) + b'"}',
    "many-jobs": b'{"jobsInfo": [' + b"{}," * 300_000 + b"{}]}",
    "jobs-in-words": b'{"jobsInfo": "MNIST_3_7"}',
    "half-a-character": described(agreement={"columns": "\ud800"}),
    "half-a-name": described(agreement={"\udfff": "x"}),
    "nested": described(agreement={"columns": nested(400)}),
    "no-number": described(agreement={"columns": float("nan")}, current_round=float("inf")),
    "long-number": described(agreement={"columns": 10**4000}, schema_digest=10**4000),
    "many-lists": described(agreement={f"list{number}": "x" for number in range(5000)}),
    "long-list": described(agreement={"columns": "x" * (MEGA // 2)}),
    "markup": described(agreement={"columns": "\u202e<script>\nalert(1)</script>"}),
    "digest": described(agreement={}, schema_digest={"a": ["b"]}),
}


class Liar:
    """A member that answers whoever asks with this description, or with another one each time."""

    def __init__(self, port: int, description: bytes | None) -> None:
        self.port, self.description, self.asked = port, description, 0
        self._numbers = count()

    async def receive(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        if path != "/info":
            return Reply(200, b"")
        self.asked += 1
        return Reply(200, self.description or described(agreement={"columns": f"column{next(self._numbers)}"}))

    async def join(self, name: str, mesh: Mesh, node: NodeRuntime) -> None:
        mesh.network.register(f"127.0.0.1:{self.port}", self.receive)
        announced = {"iAm": {"id": name, "ip": "127.0.0.1", "port": self.port}, "myKnownPeers": []}
        reply = await node.receive("/announce", json.dumps(announced).encode(), JSON, "127.0.0.1")
        assert reply.status == 201


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK_SECONDS", "AGAIN_SECONDS"):  # a peer that has answered is asked again after a minute
        monkeypatch.setattr(meeting, name, 0.01)


async def met(mesh: Mesh, descriptions: Mapping[str, bytes | None]) -> dict[str, Liar]:
    """Members with these descriptions, each of which the first node has asked."""
    liars = {name: Liar(5000 + number, said) for number, (name, said) in enumerate(descriptions.items())}
    for name, liar in liars.items():
        await liar.join(name, mesh, mesh.nodes["a"])
    await until(lambda: all(liar.asked for liar in liars.values()))
    return liars


async def test_no_description_keeps_a_node_from_comparing_itself_with_others() -> None:
    async with mesh_of(Columns("x", "y"), Columns("x", "y")) as mesh:
        node = mesh.nodes["a"]
        await met(mesh, BROKEN)
        await mesh.add("c", Columns("x"), ("a",))
        await until(lambda: "c" in differs(node))
        assert differs(node) == {"c": "columns missing there: y"}
        assert told(node) == [f"c and this node cannot train {Columns.label} together: columns missing there: y"]


async def test_the_mesh_is_shown_whatever_its_members_say() -> None:
    async with mesh_of(Columns("x", "y"), Columns("x", "y")) as mesh:
        await met(mesh, BROKEN)
        infos = {info.id: info for info in await mesh.nodes["a"].peer_infos()}
        assert infos.keys() == {"b", *BROKEN}
        assert infos["b"].jobs[0].agreement == {"columns": "x, y"}


async def test_a_lie_that_is_well_formed_is_one_event_of_few_words_however_often_it_changes() -> None:
    lies = {"long": described(agreement={f"{n:040}": "y" * 2000 for n in range(16)}), "other-each-time": None}
    async with mesh_of(Columns("x", "y"), Columns("x", "y")) as mesh:
        node = mesh.nodes["a"]
        liars = await met(mesh, lies)
        await until(lambda: differs(node).keys() == lies.keys())
        for _ in range(50):
            await node._meeting.check()
        assert [liar.asked for liar in liars.values()] == [1, 1]
        assert len(told(node)) == 2
        assert max(map(len, told(node))) < 2000
