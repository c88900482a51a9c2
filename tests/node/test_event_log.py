"""The feed: rising ids, a bounded ring, watchers that resume."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError
from flnet.node.event_log import EventLog, EventLogStore
from flnet.store import sqlite_tables as tables
from flnet.store.base import USUAL
from flnet.store.memory import MemoryStore
from flnet.store.sqlite_store import DiskStore
from flnet.text import Text, code_of, text


@pytest.fixture
def feed() -> EventLog:
    clock = itertools.count(100)
    return EventLog(lambda: float(next(clock)), keep=3)


def texts(feed: EventLog, after: int = 0) -> list[str]:
    return [item.text for item in feed.recent(after)]


async def read(feed: EventLog, after: int | None, count: int) -> list[str]:
    got: list[str] = []
    async for item in feed.watch(after):
        got.append(item.text)
        if len(got) == count:
            break
    return got


def test_ids_rise_by_one_and_the_ring_forgets_the_oldest(feed: EventLog) -> None:
    for name in "abcd":
        feed.publish("kind", name, "MNIST", {"n": 1})
    assert [item.id for item in feed.recent()] == [2, 3, 4]
    assert texts(feed) == ["b", "c", "d"]
    assert texts(feed, after=3) == ["d"]
    last = feed.recent()[-1]
    assert (last.at, last.kind, last.trainer, last.data) == (103.0, "kind", "MNIST", {"n": 1})


async def test_a_watcher_reads_what_it_missed_and_then_what_happens(feed: EventLog) -> None:
    feed.publish("kind", "a")
    feed.publish("kind", "b")
    reading = asyncio.create_task(read(feed, after=1, count=3))
    await asyncio.sleep(0)
    feed.publish("kind", "c")
    feed.publish("kind", "d")
    assert await reading == ["b", "c", "d"]


async def test_a_new_watcher_sees_only_what_is_new(feed: EventLog) -> None:
    feed.publish("kind", "old")
    reading = asyncio.create_task(read(feed, after=None, count=1))
    await asyncio.sleep(0)
    feed.publish("kind", "new")
    assert await reading == ["new"]


async def test_an_id_from_before_a_restart_reads_everything_kept(feed: EventLog) -> None:
    feed.publish("kind", "a")
    assert await read(feed, after=999, count=1) == ["a"]


async def test_all_watchers_end_when_the_feed_closes(feed: EventLog) -> None:
    readings = [asyncio.create_task(read(feed, after=0, count=99)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.publish("kind", "last words")
    feed.close()
    assert await asyncio.gather(*readings) == [["last words"]] * 3


class Full(MemoryStore):
    """Cannot be written while it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True
        self.tried = asyncio.Event()

    async def begin_events(self) -> int:
        if self.full:
            raise LocalError("full")
        return await super().begin_events()

    async def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.tried.set()
        if self.full:
            raise LocalError("full")
        await super().add_events(events)


def feed_of(keep: int = 100) -> EventLog:
    clock = itertools.count(100)
    return EventLog(lambda: float(next(clock)), keep=keep)


def ids(feed: EventLog) -> list[int]:
    return [item.id for item in feed.recent()]


async def begun(store: Any, feed: EventLog) -> EventLogStore:
    writer = EventLogStore(feed, store)
    await writer.begin()
    return writer


async def test_the_feed_goes_on_where_it_ended() -> None:
    store, before = MemoryStore(), feed_of()
    writer = await begun(store, before)
    before.publish("kind", "a", "MNIST", {"n": 1, "path": Path("x"), "bad": float("nan")})
    before.publish("kind", "b")
    await writer.end()
    after = feed_of()
    after.publish("kind", "published before the beginning")
    await begun(store, after)
    after.publish("kind", "c")
    assert ids(after) == [1, 2, 3, 4]
    assert after.recent()[1] == before.recent()[1]
    assert after.recent()[0] == replace(before.recent()[0], data={"n": 1, "path": "x", "bad": "NaN"})
    assert [item.text for item in after.recent(2)] == ["published before the beginning", "c"]


async def test_names_that_are_no_utf8_are_told_as_escapes_and_nothing_after_them_is_lost(tmp_path: Path) -> None:
    store, feed = DiskStore(tmp_path), feed_of()
    writer = await begun(store, feed)
    name = b"gr\xf6\xdfe.csv".decode("utf-8", "surrogateescape")
    feed.publish(
        "kind", text("{name} cannot be read: {reason}", name, "it is no number"), "T", {"files": [name, {"n": 1}]}
    )
    feed.publish("kind", "later")
    await writer.end()
    told, later = await writer.all()
    assert told.text == "gr\\udcf6\\udcdfe.csv cannot be read: it is no number"
    assert told.data == {"files": ["gr\\udcf6\\udcdfe.csv", {"n": 1}]} and later.text == "later"
    await store.close()


async def test_the_ring_takes_the_newest_and_all_that_is_kept_can_be_read() -> None:
    store, before = MemoryStore(replace(USUAL, events=5)), feed_of()
    writer = await begun(store, before)
    for n in range(8):
        before.publish("kind", str(n))
    await writer.end()
    after = feed_of(keep=3)
    again = await begun(store, after)
    assert ids(after) == [6, 7, 8]
    after.publish("kind", "new")
    assert [item.id for item in await again.all()] == [4, 5, 6, 7, 8, 9]


async def test_a_killed_run_leaves_a_gap_and_no_id_comes_twice(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    feed = feed_of()
    await begun(store, feed)
    feed.publish("kind", "seen by a client, and never written")
    await store.close()  # the writer was not ended: as after a kill
    again, store = feed_of(), DiskStore(tmp_path)
    await begun(store, again)
    assert again.publish("kind", "new").id == tables.RANGE + 1
    await store.close()


async def test_what_happens_is_written_in_batches_and_again_when_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.node.event_log.BATCH_SECONDS", 0.0)
    monkeypatch.setattr("flnet.node.event_log.RETRY_SECONDS", 0.0)
    store, feed = Full(), feed_of()
    writer = EventLogStore(feed, store, now=lambda: 5000.0)
    await writer.begin()
    writing = asyncio.create_task(writer.write())
    feed.publish("kind", "a")
    assert ids(feed) == [5_000_001]  # behind all that can have been used
    await store.tried.wait()
    assert await store.events(10) == []
    store.full = False
    feed.publish("kind", "b")
    async with asyncio.timeout(30):
        while len(await store.events(10)) < 2:
            await asyncio.sleep(0)
    writing.cancel()
    await writer.end()
    assert await store.begin_events() == 5_000_002


async def test_a_diary_that_never_began_writes_nothing() -> None:
    store = MemoryStore()
    await EventLogStore(feed_of(), store).end()
    assert await store.begin_events() == 0


@pytest.mark.parametrize("on_disk", [False, True])
async def test_sentences_can_be_translated_after_a_restart(tmp_path: Path, on_disk: bool) -> None:
    store = DiskStore(tmp_path) if on_disk else MemoryStore()
    before, after = feed_of(), feed_of()
    writer = await begun(store, before)
    reason = text("it does not answer")
    before.publish("peer_lost", text("{peer} does not answer: {reason}", "b", reason), data={"reason": reason})
    before.publish("kind", "plain", data={"n": 1})
    await writer.end()
    await begun(store, after)
    assert after.recent() == before.recent()
    lost, plain = after.recent()
    assert code_of(lost.text) == code_of(before.recent()[0].text)
    assert isinstance(lost.text, Text) and isinstance(lost.data["reason"], Text) and type(plain.text) is str
    await store.close()
