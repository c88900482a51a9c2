"""Whole nodes that are started again on their state, and whose disk is full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flnet.errors import LocalError
from flnet.node.runtime import NodeRuntime
from flnet.params.params import TrainerId
from flnet.protocol.events import RoundTriggered
from flnet.store.base import SavedJob
from flnet.store.memory import MemoryStore
from flnet.store.sqlite_store import DiskStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, until


class Disk(MemoryStore):
    """A store on a disk that may be full."""

    full = False

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        if self.full:
            raise LocalError("state cannot be written: No space left on device")
        await super().save(trainer, job)


def kinds(node: NodeRuntime) -> list[str]:
    return [item.kind for item in node.feed.recent()]


async def one_round(mesh: Mesh, number: int) -> None:
    mesh.nodes["a"].deliver(MNIST_3_7, RoundTriggered())
    await mesh.idle(number)


async def test_a_node_on_the_same_folder_goes_on_with_its_model_and_history(tmp_path: Path) -> None:
    mesh = Mesh()
    await mesh.add("a", Linear(1.0))
    await mesh.add("b", Linear(2.0), ("a",), store=DiskStore(tmp_path))
    await mesh.full()
    await one_round(mesh, 0)
    before, past = mesh.nodes["b"].job(MNIST_3_7).as_json(), mesh.nodes["b"].history(MNIST_3_7)
    (model, *_) = await mesh.nodes["b"].models(MNIST_3_7)
    await mesh.nodes["b"].stop()
    await mesh.add("b", Linear(2.0), ("a",), store=DiskStore(tmp_path))
    await mesh.full()
    after = mesh.nodes["b"].job(MNIST_3_7).as_json()
    same = ("current_round", "digest", "fed_learn_done", "post_fedavg_accuracy", "hyper", "outcome")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert [one["outcome"] for one in mesh.nodes["b"].history(MNIST_3_7)] == [one["outcome"] for one in past]
    assert (await mesh.nodes["b"].models(MNIST_3_7))[0] == model
    assert "restored" in kinds(mesh.nodes["b"])
    await one_round(mesh, 1)
    assert len({node.job(MNIST_3_7).as_json()["digest"] for node in mesh.nodes.values()}) == 1
    assert mesh.nodes["b"].history(MNIST_3_7)[-1]["contributors"] == ["a", "b"]
    await mesh.stop()


async def test_the_feed_goes_on_with_what_earlier_runs_told(tmp_path: Path) -> None:
    mesh = Mesh()
    node = await mesh.add("a", Linear(1.0), store=DiskStore(tmp_path))
    await mesh.full()
    await one_round(mesh, 0)
    await node.stop()
    told = node.feed.recent()
    assert [item.id for item in told] == list(range(1, len(told) + 1))
    again = await mesh.add("a", Linear(1.0), store=DiskStore(tmp_path))
    await mesh.full()
    assert [item.id for item in again.feed.recent()][: len(told) + 1] == list(range(1, len(told) + 2))
    assert [(item.id, item.text) for item in await again.events()][: len(told)] == [(t.id, t.text) for t in told]
    await mesh.stop()


async def test_a_node_finds_its_mesh_again_without_a_bootstrap_peer(tmp_path: Path) -> None:
    mesh, store = Mesh(), DiskStore(tmp_path)
    await mesh.add("a", Linear(1.0))
    await mesh.add("b", Linear(2.0), ("a",), store=store)
    await mesh.full()
    async with asyncio.timeout(30):
        while not await store.load_peers():  # beside the rounds, and soon
            await asyncio.sleep(0.005)
    await mesh.nodes["b"].stop()
    await mesh.add("b", Linear(2.0), store=DiskStore(tmp_path))
    await mesh.full()
    await mesh.stop()


async def test_with_a_full_disk_rounds_go_on_and_nothing_false_is_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.node.performer.RETRY_SECONDS", 0.01)
    mesh, disk = Mesh(), Disk()
    await mesh.add("a", Linear(1.0), wait_time_in_seconds_to_force_fedavg=1.0)
    await mesh.add("b", Linear(2.0), ("a",), store=disk, wait_time_in_seconds_to_force_fedavg=1.0)
    await mesh.full()
    disk.full = True
    await one_round(mesh, 0)
    a, b = mesh.nodes["a"], mesh.nodes["b"]
    assert a.history(MNIST_3_7)[0]["contributors"] == ["a"]  # b gave none that it could not give again
    assert "peer_declined" in kinds(a)
    assert kinds(b).count("state_not_written") == 1
    assert b.ready()["reasons"] == ["state cannot be written: No space left on device"]
    assert not b.ready()["ready"]
    disk.full = False
    await until(lambda: bool(b.ready()["ready"]))
    assert "state_written" in kinds(b)
    await one_round(mesh, 1)
    assert a.history(MNIST_3_7)[1]["contributors"] == ["a", "b"]
    saved = await disk.load(MNIST_3_7)
    assert saved is not None
    assert [record["round"] for record in saved.records] == [0, 1]
    await mesh.stop()


@pytest.mark.parametrize("goal", [None, "accuracy>=1"])
async def test_a_series_goes_on_when_all_nodes_were_stopped_at_once(tmp_path: Path, goal: str | None) -> None:
    mesh = Mesh()
    for name, target in (("a", 1.0), ("b", 2.0)):
        await mesh.add(name, Linear(target), tuple(mesh.nodes), store=DiskStore(tmp_path / name))
    await mesh.full()
    mesh.nodes["a"].deliver(MNIST_3_7, RoundTriggered(15, until=goal))
    await until(lambda: all(node.job(MNIST_3_7).as_json()["current_round"] >= 2 for node in mesh.nodes.values()))
    await asyncio.gather(*(node.stop() for node in mesh.nodes.values()))
    assert max(node.job(MNIST_3_7).as_json()["current_round"] for node in mesh.nodes.values()) < 14
    for name, target in (("b", 2.0), ("a", 1.0)):  # by the peers that they knew
        await mesh.add(name, Linear(target), store=DiskStore(tmp_path / name))
    await mesh.full()
    await mesh.idle(14, seconds=120.0)  # a dozen rounds, each of which waits for its disk some times
    histories = [await node.records(MNIST_3_7) for node in mesh.nodes.values()]
    assert [len(history) for history in histories] == [15, 15]
    assert [node.job(MNIST_3_7).as_json()["rounds_left"] for node in mesh.nodes.values()] == [0, 0]
    await mesh.stop()
