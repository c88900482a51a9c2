"""A node whose address is granted by a relay, over the in-memory network and a relay in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flnet.node import runtime
from flnet.node.relay_client import Relayed
from flnet.node.runtime import NodeRuntime
from tests.node.mesh import Linear, Mesh, mesh_of, node_receiver, until
from tests.node.signed_receiver import signed_receiver

GONE = "the relay is gone"


class MemoryLink:
    """A relay that grants what a test says."""

    def __init__(self) -> None:
        self.trouble = GONE
        self.connections: asyncio.Queue[Relayed] = asyncio.Queue()
        self.grants: asyncio.Queue[int] = asyncio.Queue()
        self.is_over = False

    async def run(self, granted: Callable[[str, int], object]) -> None:
        try:
            while True:
                port = await self.grants.get()
                self.trouble = ""
                granted("127.0.0.1", port)
        finally:
            self.is_over = True


async def behind(mesh: Mesh, link: MemoryLink, *ports: int, **settings: Any) -> NodeRuntime:
    """A node that others reach at these ports only."""
    node = await mesh.add("z", Linear(3.0), ("a",), relay_link=link, **settings)
    mesh.network.unregister("127.0.0.1:4002")
    for port in ports:
        receiver = signed_receiver(node) if settings else node_receiver(node, "safetensors")
        mesh.network.register_signed(f"127.0.0.1:{port}", receiver)
    return node


def address_of_z(mesh: Mesh, at: str) -> str | None:
    return mesh.nodes[at].core.members.address_of(mesh.nodes["z"].core.members.state.my_id)


async def test_a_node_announces_the_address_that_its_relay_grants_and_takes_part_in_rounds() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        link = MemoryLink()
        link.grants.put_nowait(9202)
        node = await behind(mesh, link, 9202)
        await mesh.full()
        assert address_of_z(mesh, "a") == address_of_z(mesh, "b") == node.me.address == "127.0.0.1:9202"
        assert node.info()["iAm"]["port"] == "9202" and "unreached" not in node.info()
        await mesh.train("b")
        assert len(mesh.digests()) == 1
    assert link.is_over


@pytest.mark.parametrize("settings", [{}, {"mesh_key": "correct horse battery staple"}], ids=["open", "keyed"])
async def test_another_address_is_announced_to_all_who_know_the_node(settings: dict[str, Any]) -> None:
    async with mesh_of(1.0, 2.0, seed=0, **settings) as mesh:
        link = MemoryLink()
        link.grants.put_nowait(9202)
        await behind(mesh, link, 9202, 9203, **settings)
        await mesh.full()
        mesh.network.unregister("127.0.0.1:9202")
        link.grants.put_nowait(9203)
        await until(lambda: address_of_z(mesh, "a") == address_of_z(mesh, "b") == "127.0.0.1:9203")
        await mesh.train("z")


async def test_a_node_whose_relay_is_gone_joins_all_the_same_says_so_and_moves_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "RELAY_SECONDS", 0.01)
    async with mesh_of(1.0, 2.0) as mesh:
        link = MemoryLink()
        node = await behind(mesh, link, 9202)
        await until(lambda: len(node.core.members.alive) == 2)
        assert node.info()["unreached"] == GONE
        link.grants.put_nowait(9202)
        await until(lambda: address_of_z(mesh, "a") == address_of_z(mesh, "b") == "127.0.0.1:9202")
        assert "unreached" not in node.info()
