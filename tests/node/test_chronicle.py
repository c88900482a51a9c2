"""The records of rounds: measured, saved with what was measured, and found again in the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from flnet.errors import LocalError, UnknownTrainer
from flnet.events import RoundTriggered
from flnet.jobs import HELD_ROUNDS
from flnet.node import NodeRuntime
from flnet.params import TrainerId
from flnet.store import USUAL, MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh


class Spied(MemoryStore):
    """Counts how often it is asked for records, and gives none when it is out of order."""

    def __init__(self) -> None:
        super().__init__(replace(USUAL, rounds=HELD_ROUNDS + 20))
        self.asked, self.broken = 0, False

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        self.asked += 1
        if self.broken:
            raise LocalError("out of order")
        return await super().records(trainer, last, until)


def numbers(records: Sequence[Mapping[str, Any]]) -> list[int]:
    return [record["round"] for record in records]


@pytest.fixture
def store() -> Spied:
    return Spied()


@pytest.fixture
async def mesh(store: Spied) -> AsyncIterator[Mesh]:
    mesh = Mesh()
    await mesh.add("a", Linear(1.0))
    await mesh.add("b", Linear(2.0), ("a",), store=store)
    await mesh.full()
    yield mesh
    await mesh.stop()


async def rounds(mesh: Mesh, count: int) -> NodeRuntime:
    node = mesh.nodes["b"]
    first = node.job(MNIST_3_7)["current_round"] + 1
    for number in range(first, first + count):
        node.deliver(MNIST_3_7, RoundTriggered())
        await mesh.idle(number)
    return node


async def test_the_newest_come_from_memory_and_all_of_them_from_the_store(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 3)
    asked = store.asked
    assert numbers(node.history(MNIST_3_7)) == [0, 1, 2]
    assert numbers(await node.records(MNIST_3_7, 2)) == [1, 2]
    assert store.asked == asked
    node.core.jobs[MNIST_3_7].state.history.popleft()  # as if there had been HELD_ROUNDS more
    assert numbers(await node.records(MNIST_3_7)) == [0, 1, 2]
    assert numbers(await node.records(MNIST_3_7, 3)) == [0, 1, 2]
    assert store.asked == asked + 2
    assert await node.records(MNIST_3_7) == await store.records(MNIST_3_7)
    with pytest.raises(UnknownTrainer):
        await node.records(TrainerId("NONE"))


async def test_seconds_and_bytes_are_saved_and_known_after_a_restart(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    (record,) = node.history(MNIST_3_7)
    assert record["bytes"]["sent"] > 0
    assert record["seconds"].keys() >= {"train", "wait", "average", "measure", "exchange"}
    await node.stop()
    await mesh.add("b", Linear(2.0), ("a",), store=store)
    await mesh.full()
    assert list(mesh.nodes["b"].history(MNIST_3_7)) == [record]


async def test_without_the_store_what_is_held_is_told(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 2)
    store.broken = True
    assert numbers(await node.records(MNIST_3_7)) == [0, 1]


async def test_a_record_that_an_older_version_saved_has_moved_no_bytes(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    old = {name: value for name, value in (await store.records(MNIST_3_7))[0].items() if name != "bytes"}
    saved = await store.load(MNIST_3_7)
    assert saved is not None
    await store.save(MNIST_3_7, replace(saved, records=(old,)))
    node.core.jobs[MNIST_3_7].state.history.clear()
    (found,) = await node.records(MNIST_3_7)
    assert found["bytes"] == {"sent": 0, "received": 0}


async def test_a_job_holds_a_bounded_number_of_records(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    state = node.core.jobs[MNIST_3_7].state
    for number in range(1, HELD_ROUNDS + 10):
        state.remember(replace(state.history[0], key=replace(state.history[0].key, number=number)))
    node.deliver(MNIST_3_7, RoundTriggered())
    await mesh.idle(1)
    assert len(node.history(MNIST_3_7)) == HELD_ROUNDS
    assert len(await node.records(MNIST_3_7)) == HELD_ROUNDS + 10  # none was lost between job and store
    assert numbers(await node.records(MNIST_3_7, HELD_ROUNDS + 2))[0] == 8
