"""Whole nodes with keys: what they show, keep, refuse and forget."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flnet.errors import StillThere, UnknownPeer
from flnet.fingerprints import key_text, short
from flnet.membership.names import NameTaken
from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import Announce
from flnet.store.memory import MemoryStore
from tests.node.mesh import Linear, Mesh, until

A, B, OTHER = (key_text(bytes([number]) * 32) for number in (1, 2, 3))


async def announce(node: NodeRuntime, name: str, port: int, key: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"iAm": {"id": name, "ip": "127.0.0.1", "port": port}, "myKnownPeers": []}
    if key:
        body |= {"incarnation": 0, "key": key}
    reply = await node.receive(Announce.path, json.dumps(body).encode(), "application/json", "127.0.0.1")
    answer: dict[str, Any] = json.loads(reply.body)
    return answer


def told(node: NodeRuntime, kind: str) -> list[str]:
    return [item.text for item in node.feed.recent() if item.kind == kind]


async def pair(mesh: Mesh, store: MemoryStore | None = None) -> tuple[NodeRuntime, NodeRuntime]:
    """Two nodes that know each other and have data."""
    a = await mesh.add("a", Linear(0.0), key=A, store=store)
    b = await mesh.add("b", Linear(1.0), ("a",), key=B)
    await until(lambda: len(a.peers()) == len(b.peers()) == 1)
    return a, b


@pytest.fixture
async def mesh() -> Any:
    made = Mesh()
    yield made
    await made.stop()


async def test_nodes_show_their_fingerprints_and_those_of_their_peers(mesh: Mesh) -> None:
    a, b = await pair(mesh)
    assert (a.info()["fingerprint"], b.info()["fingerprint"]) == (short(A), short(B))
    assert [peer["fingerprint"] for peer in (*a.peers(), *b.peers())] == [short(B), short(A)]


async def test_a_node_without_a_key_shows_none_and_is_served(mesh: Mesh) -> None:
    a, _ = await pair(mesh)
    thesis = await announce(a, "old", 4900)
    assert set(thesis) == {"announceYourselfToPeers", "iAm"}
    assert {peer["id"]: peer["fingerprint"] for peer in a.peers()} == {"b": short(B), "old": ""}


async def test_a_claimant_is_refused_and_told_of_once_and_a_person_decides(mesh: Mesh) -> None:
    a, b = await pair(mesh)
    with pytest.raises(StillThere):
        await a.forget("b")
    for _ in range(3):
        with pytest.raises(NameTaken):
            await announce(a, "b", 4999, OTHER)
    await until(lambda: bool(told(a, "identity_conflict")))
    with pytest.raises(UnknownPeer):  # also waits for what was on the queue
        await a.forget("nobody")
    assert len(told(a, "identity_conflict")) == 1
    assert not any("announce" in text for text in told(a, "refused_here"))
    assert [peer["address"] for peer in a.peers()] == [b.me.address]
    assert await a.forget("b") == []
    assert (await announce(a, "b", 4999, OTHER))["key"] == A


async def test_the_next_run_knows_whose_name_is_whose(mesh: Mesh) -> None:
    store = MemoryStore()
    a, b = await pair(mesh, store)
    await a.stop()  # what was to be kept is kept
    (kept,) = await store.load_peers()
    assert kept == {"id": "b", "address": b.me.address, "key": B}
    again = await mesh.add("a", Linear(0.0), key=A, store=store)
    with pytest.raises(NameTaken):
        await announce(again, "b", 4999, OTHER)
