"""Whole nodes that are started again on their state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flnet.protocol.events import RoundTriggered
from flnet.store.sqlite_store import DiskStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """One node, which forgets what it did."""
    async with mesh_of(1.0) as made:
        yield made


async def test_a_node_on_the_same_folder_goes_on_with_its_model_its_history_and_its_events(
    mesh: Mesh, tmp_path: Path
) -> None:
    node = await mesh.add("b", Linear(2.0), ("a",), store=DiskStore(tmp_path))
    await mesh.full()
    await mesh.train()
    before, past = node.job(MNIST_3_7).as_json(), node.history(MNIST_3_7)
    (model, *_) = await node.models(MNIST_3_7)
    await node.stop()
    told = node.feed.recent()
    assert [item.id for item in told] == list(range(1, len(told) + 1))

    again = await mesh.add("b", Linear(2.0), ("a",), store=DiskStore(tmp_path))
    await mesh.full()
    after = again.job(MNIST_3_7).as_json()
    same = ("current_round", "digest", "fed_learn_done", "post_fedavg_accuracy", "hyper", "outcome")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert [one["outcome"] for one in again.history(MNIST_3_7)] == [one["outcome"] for one in past]
    assert (await again.models(MNIST_3_7))[0] == model
    assert [item.id for item in again.feed.recent()][: len(told) + 1] == list(range(1, len(told) + 2))
    assert [(item.id, item.text) for item in await again.events()][: len(told)] == [(t.id, t.text) for t in told]
    assert "restored" in [item.kind for item in again.feed.recent(len(told))]
    await mesh.train()
    assert len(mesh.digests()) == 1
    assert again.history(MNIST_3_7)[-1]["contributors"] == ["a", "b"]


async def test_a_node_finds_its_mesh_again_without_a_bootstrap_peer(mesh: Mesh, tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    await mesh.add("b", Linear(2.0), ("a",), store=store)
    await mesh.full()
    async with asyncio.timeout(30):
        while not await store.load_peers():  # beside the rounds, and soon
            await asyncio.sleep(0.005)
    await mesh.nodes["b"].stop()
    await mesh.add("b", Linear(2.0), store=DiskStore(tmp_path))
    await mesh.full()


@pytest.mark.parametrize("goal", [None, "accuracy>=1"])
async def test_a_series_goes_on_when_all_nodes_were_stopped_at_once(tmp_path: Path, goal: str | None) -> None:
    async with mesh_of() as mesh:
        for name, target in (("a", 1.0), ("b", 2.0)):
            await mesh.add(name, Linear(target), tuple(mesh.nodes), store=DiskStore(tmp_path / name))
        await mesh.full()
        mesh.nodes["a"].deliver(MNIST_3_7, RoundTriggered(15, until=goal))
        await until(lambda: all(node.job(MNIST_3_7).current_round >= 2 for node in mesh.nodes.values()))
        await asyncio.gather(*(node.stop() for node in mesh.nodes.values()))
        assert max(node.job(MNIST_3_7).current_round for node in mesh.nodes.values()) < 14
        for name, target in (("b", 2.0), ("a", 1.0)):  # by the peers that they knew
            await mesh.add(name, Linear(target), store=DiskStore(tmp_path / name))
        await mesh.full()
        await mesh.idle(14, seconds=120.0)  # a dozen rounds, each of which waits for its disk some times
        histories = [await node.records(MNIST_3_7) for node in mesh.nodes.values()]
        assert [len(history) for history in histories] == [15, 15]
        assert [node.job(MNIST_3_7).rounds_left for node in mesh.nodes.values()] == [0, 0]
