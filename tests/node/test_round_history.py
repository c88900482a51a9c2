"""The records of rounds: measured, saved with what was measured, and found again in the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import LocalError, PeerUnreachable, UnknownTrainer
from flnet.node import round_history as module
from flnet.node.interface import PeerInfo, Points
from flnet.node.round_history import (
    MOST_PEERS,
    PAGE_ROUNDS,
    PEER_BYTES,
    PEER_ROUNDS,
    PeerHistory,
    PerRound,
    Stopwatch,
    Traffic,
    read_history,
)
from flnet.node.runtime import NodeRuntime
from flnet.params.params import TrainerId
from flnet.protocol.events import RoundTriggered
from flnet.protocol.updates import RoundKey
from flnet.rounds.history import HELD_ROUNDS
from flnet.rounds.steps import Phase
from flnet.store.base import USUAL, RecordKey
from flnet.store.memory import MemoryStore
from flnet.wire.transport import CONTROL_BYTES, Reply, too_large
from tests.helpers import key
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of


class Spied(MemoryStore):
    """Counts how often it is asked for records, and gives none when it is out of order."""

    def __init__(self) -> None:
        super().__init__(replace(USUAL, rounds=HELD_ROUNDS + 20))
        self.asked, self.broken = 0, False

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        self.asked += 1
        self._check()
        return await super().records(trainer, last, until)

    async def records_after(
        self, trainer: TrainerId, after: RecordKey, most: int, skip: int = 0
    ) -> Sequence[Mapping[str, Any]]:
        self._check()
        return await super().records_after(trainer, after, most, skip)

    async def count_records(self, trainer: TrainerId) -> int:
        self._check()
        return await super().count_records(trainer)

    def _check(self) -> None:
        if self.broken:
            raise LocalError("out of order")


def numbers(records: Sequence[Mapping[str, Any]]) -> list[int]:
    return [record["round"] for record in records]


def but_messages(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records without their count of requests: one that is made after the last save is counted in memory only."""
    return [{name: value for name, value in record.items() if name != "messages"} for record in records]


@pytest.fixture
def store() -> Spied:
    return Spied()


@pytest.fixture
async def mesh(store: Spied) -> AsyncIterator[Mesh]:
    async with mesh_of(1.0) as made:
        await made.add("b", Linear(2.0), ("a",), store=store)
        await made.full()
        yield made


async def rounds(mesh: Mesh, count: int) -> NodeRuntime:
    for _ in range(count):
        await mesh.train("b")
    return mesh.nodes["b"]


async def test_the_newest_come_from_memory_and_all_of_them_from_the_store(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 3)
    asked = store.asked
    assert numbers(node.history(MNIST_3_7)) == [0, 1, 2]
    assert numbers(await node.records(MNIST_3_7, 2)) == [1, 2]
    assert store.asked == asked
    node.core.jobs[MNIST_3_7].history.records.popleft()  # as if there had been HELD_ROUNDS more
    assert numbers(await node.records(MNIST_3_7)) == [0, 1, 2]
    assert numbers(await node.records(MNIST_3_7, 3)) == [0, 1, 2]
    assert store.asked == asked + 2
    assert but_messages(await node.records(MNIST_3_7)) == but_messages(await store.records(MNIST_3_7))
    with pytest.raises(UnknownTrainer):
        await node.records(TrainerId("NONE"))


async def test_seconds_and_bytes_are_saved_and_known_after_a_restart(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    (record,) = node.history(MNIST_3_7)
    assert record["bytes"]["sent"] > 0 and record["messages"] > 0
    assert record["seconds"].keys() >= {"train", "wait", "average", "measure", "exchange"}
    await node.stop()
    await mesh.add("b", Linear(2.0), ("a",), store=store)
    await mesh.full()
    assert but_messages(mesh.nodes["b"].history(MNIST_3_7)) == but_messages([record])


async def test_without_the_store_what_is_held_is_told(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 2)
    store.broken = True
    assert numbers(await node.records(MNIST_3_7)) == [0, 1]
    assert [numbers(page) async for page in node.record_pages(MNIST_3_7)] == [[0, 1]]
    assert numbers(await node.thinned_records(MNIST_3_7, 1)) == [0, 1]


async def test_a_record_that_an_older_version_saved_has_moved_no_bytes(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    old = {name: value for name, value in (await store.records(MNIST_3_7))[0].items() if name != "bytes"}
    saved = await store.load(MNIST_3_7)
    assert saved is not None
    await store.save(MNIST_3_7, replace(saved, records=(old,)))
    node.core.jobs[MNIST_3_7].history.records.clear()
    (found,) = await node.records(MNIST_3_7)
    assert found["bytes"] == {"sent": 0, "received": 0}


async def test_a_job_holds_a_bounded_number_of_records(mesh: Mesh, store: Spied) -> None:
    node = await rounds(mesh, 1)
    history = node.core.jobs[MNIST_3_7].history
    first = history.records[0]
    for number in range(1, HELD_ROUNDS + 10):
        history.add(replace(first, key=replace(first.key, number=number)))
    node.deliver(MNIST_3_7, RoundTriggered())
    await mesh.idle(1)
    assert len(node.history(MNIST_3_7)) == HELD_ROUNDS
    assert len(await node.records(MNIST_3_7)) == HELD_ROUNDS + 10  # none was lost between job and store
    assert numbers(await node.records(MNIST_3_7, HELD_ROUNDS + 2))[0] == 8


async def test_a_long_history_comes_in_pages_or_thinned(mesh: Mesh, store: Spied) -> None:
    store._retention = replace(USUAL, rounds=1000)
    node = await rounds(mesh, 1)
    history, first = node.core.jobs[MNIST_3_7].history, (await store.records(MNIST_3_7))[0]
    saved, count = await store.load(MNIST_3_7), 3 * PAGE_ROUNDS + 5
    assert saved is not None
    records = tuple({**first, "round": number} for number in range(count))
    await store.save(MNIST_3_7, replace(saved, records=records))
    newest = history.records.pop()
    history.add(replace(newest, key=replace(newest.key, number=count)))  # as if the disk had no room for it
    pages = [numbers(page) async for page in node.record_pages(MNIST_3_7)]
    assert [number for page in pages for number in page] == list(range(count + 1))
    assert max(map(len, pages)) == PAGE_ROUNDS
    newest_pages = [numbers(page) async for page in node.record_pages(MNIST_3_7, 2 * PAGE_ROUNDS)]
    assert newest_pages[0][0] == count - 2 * PAGE_ROUNDS
    assert sum(map(len, newest_pages)) == 2 * PAGE_ROUNDS + 1
    assert [numbers(page) async for page in node.record_pages(MNIST_3_7, 2)] == [[count - 1, count]]
    thinned = numbers(await node.thinned_records(MNIST_3_7, 100))
    assert thinned == [*range(0, count, 4)]
    assert numbers(await node.thinned_records(MNIST_3_7, 100, 50)) == numbers(await node.records(MNIST_3_7, 50))


# Counters of rounds: made when they are needed, and bounded for each job.


T, U = TrainerId("T"), TrainerId("U")


def test_a_round_has_one_counter_and_jobs_are_kept_apart() -> None:
    counters = PerRound[list[int]](list)
    counters.of(T, key(0)).append(1)
    counters.of(T, key(0)).append(2)
    assert counters.of(T, key(0)) == [1, 2]
    assert counters.find(U, key(0)) is None
    assert counters.find(T, key(1)) is None  # asking makes none
    assert counters.of(U, key(0)) == []


def test_a_job_with_many_rounds_takes_nothing_from_another() -> None:
    counters = PerRound[list[int]](list, most=3)
    counters.of(U, key(0)).append(7)
    for number in range(10):
        counters.of(T, key(number)).append(number)
    assert [counters.find(T, key(number)) for number in range(5, 10)] == [None, None, [7], [8], [9]]
    assert counters.find(U, key(0)) == [7]


# Seconds of a round's parts, on a clock of the test's own.


class Watched:
    """A stopwatch, and what its clock says."""

    def __init__(self) -> None:
        self.at = 100.0
        self.watch = Stopwatch(lambda: self.at)

    def spend(self, seconds: float, phase: Phase, at: RoundKey | None = None, trainer: TrainerId = T) -> None:
        """A job is in this phase for a while."""
        self.watch.note(trainer, at, phase)
        self.at += seconds


def test_every_part_of_a_round_is_told() -> None:
    watched = Watched()
    watched.spend(5, Phase.IDLE)
    for seconds, phase in [
        *((1, Phase.FETCHING), (2, Phase.TRAINING), (4, Phase.GATHERING)),
        *((8, Phase.AVERAGING), (16, Phase.MEASURING), (32, Phase.EXCHANGING)),
    ]:
        watched.spend(seconds, phase, key(0))
    watched.spend(64, Phase.IDLE, key(0))
    watched.spend(128, Phase.GATHERING, key(1))
    assert watched.watch.seconds(T, key(0)) == {"fetch": 1, "wait": 4, "measure": 16, "exchange": 32}
    assert watched.watch.seconds(T, key(1)) == {}  # it goes on


def test_what_is_heard_in_between_does_not_count_twice_and_a_phase_may_come_again() -> None:
    watched = Watched()
    for phase in [Phase.GATHERING, Phase.GATHERING, Phase.TRAINING, Phase.GATHERING, Phase.AVERAGING]:
        watched.spend(1, phase, key(0))
    assert watched.watch.seconds(T, key(0)) == {"wait": 3}


def test_the_same_phase_of_the_next_round_is_another_one() -> None:
    watched = Watched()
    watched.spend(3, Phase.GATHERING, key(0))
    watched.spend(4, Phase.GATHERING, key(7))
    watched.spend(0, Phase.IDLE, key(7))
    assert (watched.watch.seconds(T, key(0)), watched.watch.seconds(T, key(7))) == (
        {"wait": 3},
        {"wait": 4},
    )


def test_jobs_are_kept_apart() -> None:
    watched = Watched()
    watched.spend(1, Phase.MEASURING, key(0), T)
    watched.spend(2, Phase.EXCHANGING, key(0), U)
    for trainer in (T, U):
        watched.spend(0, Phase.IDLE, key(0), trainer)
    assert watched.watch.seconds(T, key(0)) == {"measure": 3}
    assert watched.watch.seconds(U, key(0)) == {"exchange": 2}


# Bytes that rounds moved.


def test_what_goes_out_and_comes_in_is_added_up_by_job_and_round() -> None:
    traffic = Traffic()
    for nbytes in (10, 20):
        traffic.sent(T, key(0), nbytes)
        traffic.received(T, key(1), nbytes + 1)
    traffic.received(U, key(0), 5)
    assert traffic.view(T, key(0)) == {"sent": 30, "received": 0}
    assert traffic.view(T, key(1)) == {"sent": 0, "received": 32}
    assert traffic.view(U, key(0)) == {"sent": 0, "received": 5}
    assert traffic.view(U, key(9)) == {"sent": 0, "received": 0}
    for _ in range(3):
        traffic.asked(T, key(0))
    traffic.recall(T, key(0), {"sent": 1, "received": 2}, 4)
    assert [traffic.messages(*of) for of in ((T, key(0)), (T, key(1)), (U, key(0)))] == [7, 0, 0]
    assert traffic.view(T, key(0)) == {"sent": 31, "received": 2}


PATH = f"/jobs/AB/history?last={PEER_ROUNDS}"


def record(number: object, accuracy: object) -> dict[str, object]:
    return {"round": number, "post_fedavg_accuracy": accuracy}


class Told:
    """A transport on which peers have these histories."""

    def __init__(self, *records: dict[str, object]) -> None:
        self.reply: Reply | None = Reply(200, json.dumps(records).encode())
        self.asked: list[str] = []

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
        assert path == PATH
        self.asked.append(address)
        await asyncio.sleep(0)
        if self.reply is None:
            raise PeerUnreachable(f"{address} refused")
        if len(self.reply.body) > reply_limit:
            raise too_large(address, reply_limit, len(self.reply.body))
        return self.reply


def info(peer: str, round: object, accuracy: object = None, current: object = 9) -> PeerInfo:
    job = {"trainer_id": "AB", "current_round": current, **record(None, accuracy), "model_round": round}
    return PeerInfo.claimed(peer, f"{peer}:1", {"jobsInfo": [job]})


async def look(histories: PeerHistory, *infos: PeerInfo) -> dict[str, Points]:
    return dict(await histories.get("AB", infos))


def made(*records: dict[str, object]) -> tuple[Any, PeerHistory]:
    transport: Any = Told(*records)
    return transport, PeerHistory(transport)


async def test_a_history_is_asked_once_and_later_rounds_are_told_by_the_peers_info() -> None:
    transport, histories = made(record(0, 0.25), record(1, 0.5))
    assert await look(histories, info("b", 1, 0.5)) == {"b": ((0, 0.25), (1, 0.5))}
    assert await look(histories, info("b", 2, 0.75)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.75))}
    assert await look(histories, info("b", 2, 0.8)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.8))}  # after an exchange
    assert await look(histories, info("b", 2, None)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.8))}
    assert transport.asked == ["b:1"]


@pytest.mark.parametrize("newest", [5, 0])
async def test_rounds_that_passed_unseen_are_asked_for_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    transport, histories = made(record(1, 0.5))
    await look(histories, info("b", 1, 0.5))
    await look(histories, info("b", newest, 0.75))
    assert transport.asked == ["b:1"]  # not so soon
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    transport, histories = made(record(1, 0.5))
    await look(histories, info("b", 1, 0.5))
    transport.reply = Reply(200, json.dumps([record(newest, 0.75)]).encode())
    assert await look(histories, info("b", newest, 0.75)) == {"b": ((newest, 0.75),)}
    assert transport.asked == ["b:1"] * 2


@pytest.mark.parametrize(
    "reply",
    [None, Reply(404, b"{}"), Reply(200, b"{}"), Reply(200, b"[" * 90_000), Reply(200, b" " * PEER_BYTES + b"[]")],
)
async def test_a_peer_without_a_usable_history_is_left_in_peace_for_a_while(reply: Reply | None) -> None:
    transport, histories = made()
    transport.reply = reply
    for number in range(5):
        await look(histories, info("b", 3 + number, 0.5))
    assert (await look(histories, info("b", 7, 0.5)))["b"][-1] == (7, 0.5)
    assert transport.asked == ["b:1"]


async def test_who_never_trained_or_does_not_answer_is_not_asked() -> None:
    transport, histories = made()
    silent = PeerInfo("c", "c:1", error="no")
    found = await look(histories, info("b", -1, None, current=-1), silent, info("d", 0, 1, current="0"))
    assert (found, transport.asked) == ({}, [])


async def test_pages_that_look_at_once_ask_once_and_only_so_many_peers() -> None:
    transport, histories = made(record(0, 1))
    infos = [info(f"n{place}", 0, 1) for place in range(40)]
    found = await asyncio.gather(*(look(histories, *infos) for _ in range(10)))
    assert transport.asked == [f"n{place}:1" for place in range(MOST_PEERS)]
    assert all(one == {f"n{place}": ((0, 1.0),) for place in range(MOST_PEERS)} for one in found)


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    transport, histories = made(*(record(number, 0.5) for number in range(500)))
    points = (await look(histories, info("b", 500, 0.5)))["b"]
    assert (len(points), points[0][0], points[-1][0]) == (PEER_ROUNDS, 401, 500)
    monkeypatch.setattr(module, "MOST_KEPT", 1)
    await look(histories, info("c", 499, 0.5))
    await look(histories, info("b", 499, 0.5))
    assert transport.asked == ["b:1", "c:1", "b:1"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.binary()
    | st.lists(ANYTHING | st.builds(record, ANYTHING, ANYTHING)).map(lambda one: json.dumps(one).encode())
)
def test_whatever_a_peer_answers_only_rounds_and_accuracies_come_out(body: bytes) -> None:
    found = read_history(body)
    assert found is None or all(
        type(number) is int and number >= 0 and type(accuracy) is float and 0 <= accuracy <= 1
        for number, accuracy in found.items()
    )
