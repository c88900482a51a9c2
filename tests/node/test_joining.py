"""A node that joins a mesh with a large model downloads parts of it from all that have it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from flnet.errors import RangeIgnored
from flnet.node.runtime import NodeRuntime
from flnet.params.blob import Landing
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Fetch, FetchAlso
from flnet.protocol.events import Fetched
from flnet.rounds.parts import LARGE_BYTES, PART_BYTES
from flnet.store.memory import MemoryStore
from flnet.store.partial_downloads import MemoryDownloads, PartialDownload
from flnet.wire.memory import MemoryTransport
from flnet.wire.transport import Reply
from tests.helpers import key
from tests.node.mesh import MNIST_3_7, PARAMS, Linear, Mesh, mesh_of, until

NUMBERS = 1_500_000  # four bytes each
BYTES = 4 * (NUMBERS + 1)
PARTS = BYTES // PART_BYTES + 1


def large(target: float) -> Linear:
    return Linear(target, numbers=NUMBERS)


class Served:
    """Counts who serves how many parts, and lets nodes serve something else, or fall silent."""

    def __init__(self, mesh: Mesh) -> None:
        self.asked = Counter[str]()
        self.wrong: set[str] = set()
        self.first: set[str] = set()  # after the first part nobody serves before these have been asked
        self.silent_after: dict[str, int] = {}  # parts
        self._mesh = mesh
        for name, node in mesh.nodes.items():
            self._watch(name, node.me.address)

    def _watch(self, name: str, address: str) -> None:
        network = self._mesh.network
        real = network._receivers[address]

        async def receive(path: str, body: bytes, kind: str, caller: str, headers: Mapping[str, str]) -> Reply:
            reply = await real(path, body, kind, caller, headers)
            if not path.startswith(PARAMS) or body or reply.status != 200:
                return reply
            if self.asked[name] >= self.silent_after.get(name, 10**9):
                await asyncio.Event().wait()
            self.asked[name] += 1
            if sum(self.asked.values()) > 1:
                await until(lambda: self.first <= self.asked.keys())
            if name not in self.wrong:
                return reply
            return Reply(200, reply.body[:PART_BYTES] + bytes(len(reply.body) - PART_BYTES), reply.content_type)

        network.register_signed(address, receive)


def in_use(store: MemoryStore) -> Iterable[PartialDownload]:
    """The downloads that a node is at."""
    downloads = store.downloads
    assert isinstance(downloads, MemoryDownloads)
    return list(downloads._in_use.values())


async def joins(mesh: Mesh, store: MemoryStore | None = None) -> NodeRuntime:
    """A node d that takes the average of the others."""
    node = await mesh.add("d", large(4.0), ("a", "b", "c"), store)
    await until(lambda: node.job(MNIST_3_7).digest == mesh.nodes["a"].job(MNIST_3_7).digest)
    return node


async def test_each_of_the_others_serves_parts_and_none_of_them_all() -> None:
    assert BYTES > LARGE_BYTES
    async with mesh_of(large(1.0), large(2.0), large(3.0)) as mesh:
        await mesh.train()
        served = Served(mesh)
        served.first = {"a", "b", "c"}
        await joins(mesh)
        assert set(served.asked) == {"a", "b", "c"}
        assert sum(served.asked.values()) == PARTS


async def test_a_peer_that_serves_something_else_is_named() -> None:
    async with mesh_of(large(1.0), large(2.0), large(3.0)) as mesh:
        await mesh.train()
        served = Served(mesh)
        served.wrong = served.first = {"b"}
        node = await joins(mesh)

        def told() -> list[str]:
            return [item.text for item in node.feed.recent() if item.kind == "parts_wrong"]

        await until(lambda: bool(told()))
        (words,) = told()
        assert words.startswith("b served other bytes than those of ")
        assert sum(served.asked.values()) <= 3 * PARTS


async def test_a_peer_that_is_met_at_the_moment_when_the_download_begins_serves_parts_too() -> None:
    async with mesh_of(large(1.0), large(2.0), large(3.0)) as mesh:
        await mesh.train()
        served, post = Served(mesh), mesh.nodes["a"]._performer._outbox
        served.first = {"b", "c"}
        digest = Digest(str(mesh.nodes["b"].job(MNIST_3_7).digest))
        fetch = asyncio.create_task(post.fetch(MNIST_3_7, Fetch(key(), PeerId("b"), digest)))
        again = asyncio.create_task(post.fetch(MNIST_3_7, Fetch(key(1), PeerId("b"), digest)))
        await asyncio.create_task(post.fetch_also(MNIST_3_7, FetchAlso(PeerId("c"), digest)))
        came = await fetch
        assert isinstance(came, Fetched)
        assert (came.params.digest, came.wrong, set(served.asked)) == (digest, (), {"b", "c"})
        assert await again == replace(came, key=key(1))
        assert sum(served.asked.values()) == PARTS


async def test_peers_that_know_no_ranges_serve_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryTransport.download

    async def download(transport: MemoryTransport, address: str, path: str, landing: Landing) -> None:
        if landing.stop is not None:
            raise RangeIgnored("the whole body came")
        await real(transport, address, path, landing)

    monkeypatch.setattr(MemoryTransport, "download", download)
    async with mesh_of(large(1.0), large(2.0), large(3.0)) as mesh:
        await mesh.train()
        served = Served(mesh)
        await joins(mesh)
        assert sum(served.asked.values()) == 1


async def test_what_came_before_a_restart_is_not_downloaded_again() -> None:
    async with mesh_of(large(1.0), large(2.0), large(3.0)) as mesh:
        await mesh.train()
        served, store = Served(mesh), MemoryStore()
        served.silent_after = dict.fromkeys("abc", 1)
        node = await mesh.add("d", large(4.0), ("a", "b", "c"), store)
        await until(lambda: any(len(download.parts) == 3 for download in in_use(store)))
        assert node.job(MNIST_3_7).digest != mesh.nodes["a"].job(MNIST_3_7).digest
        await node.stop()
        served.silent_after.clear()
        await joins(mesh, store)
        assert sum(served.asked.values()) == PARTS
