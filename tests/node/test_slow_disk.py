"""A node whose disk takes its time, or is full: it hears further events, and shows nothing that is not saved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flnet.errors import LocalError, NotReady
from flnet.node.performer import MOST_WAITING
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.events import HyperParamsEdited, RoundTriggered, UpdateReceived
from flnet.protocol.updates import Update
from flnet.rounds.steps import Phase
from flnet.store.base import SavedJob
from flnet.store.memory import MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, mesh_of, until


def kinds(node: NodeRuntime) -> list[str]:
    return [item.kind for item in node.feed.recent()]


PEERS = [PeerId(f"p{i}") for i in range(6)]


class SlowDisk(MemoryStore):
    """Saves when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.saves, self.full = asyncio.Event(), 0, False
        self.free.set()

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        await self.free.wait()
        if self.full:
            raise LocalError("state cannot be written: No space left on device")
        self.saves += 1
        await super().save(trainer, job)


@asynccontextmanager
async def gathering(disk: SlowDisk) -> AsyncIterator[NodeRuntime]:
    """A node that waits for the updates of PEERS, and for one more; its disk takes its time from now on."""
    async with mesh_of(1.0, store=disk) as mesh:
        node = mesh.nodes["a"]
        node.core.jobs[MNIST_3_7].peers.here |= {*PEERS, PeerId("late")}
        await node._queue.ask(MNIST_3_7, RoundTriggered())
        await until(lambda: node.core.jobs[MNIST_3_7].phase is Phase.GATHERING)
        disk.free.clear()
        yield node


def pushes(node: NodeRuntime) -> list[asyncio.Task[object]]:
    """All of PEERS push an update."""
    job = node.core.jobs[MNIST_3_7]
    assert job.key is not None
    shared = job.held.current.shared
    events = [UpdateReceived(Update(peer, job.key, Params(shared), 10)) for peer in PEERS]
    return [asyncio.create_task(node._queue.ask(MNIST_3_7, event)) for event in events]


async def test_updates_that_come_while_the_disk_is_at_work_are_saved_at_once_and_then_answered() -> None:
    disk = SlowDisk()
    async with gathering(disk) as node:
        edited = asyncio.create_task(node._queue.ask(MNIST_3_7, HyperParamsEdited({"e": 7})))
        pushed = pushes(node)
        await until(lambda: len(node.job(MNIST_3_7).received) == 1 + len(PEERS))  # it has heard them all
        assert not any(task.done() for task in (edited, *pushed))
        assert "params_edited" not in [item.kind for item in node.feed.recent()]
        before = disk.saves
        disk.free.set()
        await asyncio.gather(edited, *pushed)
        assert 1 <= disk.saves - before <= 2
        told = [
            item.data.get("peer")
            for item in node.feed.recent()
            if item.kind in ("params_edited", "update_received")
        ]
        assert told == [None, *PEERS]
        saved = await disk.load(MNIST_3_7)
        assert saved is not None
        assert [kept.update.peer for kept in saved.updates] == PEERS


async def test_where_they_cannot_be_saved_every_one_of_them_is_asked_to_come_again() -> None:
    disk = SlowDisk()
    async with gathering(disk) as node:
        disk.full = True
        pushed = pushes(node)
        await until(lambda: len(node.job(MNIST_3_7).received) == 1 + len(PEERS))
        disk.free.set()
        for task in pushed:
            with pytest.raises(NotReady, match="No space left"):
                await task
        disk.full = False
        await asyncio.gather(*pushes(node))  # they come again
        saved = await disk.load(MNIST_3_7)
        assert saved is not None
        assert [kept.update.peer for kept in saved.updates] == PEERS


async def test_a_node_that_is_much_faster_than_its_disk_takes_no_further_events() -> None:
    disk = SlowDisk()
    async with gathering(disk) as node:
        edits = [HyperParamsEdited({"e": n}) for n in range(1, 3 * MOST_WAITING)]
        edited = [asyncio.create_task(node._queue.ask(MNIST_3_7, edit)) for edit in edits]
        await until(lambda: node.job(MNIST_3_7).as_json()["hyper"]["e"] >= MOST_WAITING)
        for _ in range(20):
            await asyncio.sleep(0)
        assert node.job(MNIST_3_7).as_json()["hyper"]["e"] <= 2 * MOST_WAITING  # at the disk, and behind it
        disk.free.set()
        await asyncio.gather(*edited)
        assert node.job(MNIST_3_7).as_json()["hyper"]["e"] == 3 * MOST_WAITING - 1


async def test_a_node_that_ends_saves_what_it_has_heard() -> None:
    disk = SlowDisk()
    async with gathering(disk) as node:
        pushed = pushes(node)
        await until(lambda: len(node.job(MNIST_3_7).received) == 1 + len(PEERS))
        ending = asyncio.create_task(node.stop())
        disk.free.set()
        await ending
        await asyncio.gather(*pushed)
        saved = await disk.load(MNIST_3_7)
        assert saved is not None
        assert [kept.update.peer for kept in saved.updates] == PEERS


async def test_with_a_full_disk_rounds_go_on_and_nothing_false_is_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.node.performer.RETRY_SECONDS", 0.01)
    disk = SlowDisk()
    async with mesh_of(1.0) as mesh:
        a, b = mesh.nodes["a"], await mesh.add("b", Linear(2.0), ("a",), store=disk)
        await mesh.full()
        disk.full = True
        await mesh.train()
        assert a.history(MNIST_3_7)[0]["contributors"] == ["a"]  # b gave none that it could not give again
        assert "peer_declined" in kinds(a)
        assert kinds(b).count("state_not_written") == 1
        assert b.ready()["reasons"] == ["state cannot be written: No space left on device"]
        assert not b.ready()["ready"]
        disk.full = False
        await until(lambda: bool(b.ready()["ready"]))
        assert "state_written" in kinds(b)
        await mesh.train()
        assert a.history(MNIST_3_7)[1]["contributors"] == ["a", "b"]
        saved = await disk.load(MNIST_3_7)
        assert saved is not None
        assert [record["round"] for record in saved.records] == [0, 1]
