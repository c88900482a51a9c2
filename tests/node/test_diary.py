"""The feed over restarts: it goes on with ids that were never used, on what is kept."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError
from flnet.node import RingFeed
from flnet.node.diary import Diary
from flnet.store import USUAL, MemoryStore
from flnet.store.disk import DiskStore, happenings


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


def feed_of(keep: int = 100) -> RingFeed:
    clock = itertools.count(100)
    return RingFeed(lambda: float(next(clock)), keep=keep)


def ids(feed: RingFeed) -> list[int]:
    return [item.id for item in feed.recent()]


async def begun(store: Any, feed: RingFeed) -> Diary:
    diary = Diary(feed, store)
    await diary.begin()
    return diary


async def test_the_feed_goes_on_where_it_ended() -> None:
    store, before = MemoryStore(), feed_of()
    diary = await begun(store, before)
    before.publish("kind", "a", "MNIST", {"n": 1, "path": Path("x"), "bad": float("nan")})
    before.publish("kind", "b")
    await diary.end()
    after = feed_of()
    after.publish("kind", "published before the beginning")
    await begun(store, after)
    after.publish("kind", "c")
    assert ids(after) == [1, 2, 3, 4]
    assert after.recent()[1] == before.recent()[1]
    assert after.recent()[0] == replace(before.recent()[0], data={"n": 1, "path": "x", "bad": "NaN"})
    assert [item.text for item in after.recent(2)] == ["published before the beginning", "c"]


async def test_the_ring_takes_the_newest_and_all_that_is_kept_can_be_read() -> None:
    store, before = MemoryStore(replace(USUAL, events=5)), feed_of()
    diary = await begun(store, before)
    for n in range(8):
        before.publish("kind", str(n))
    await diary.end()
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
    await store.close()  # the diary was not ended: as after a kill
    again, store = feed_of(), DiskStore(tmp_path)
    await begun(store, again)
    assert again.publish("kind", "new").id == happenings.RANGE + 1
    await store.close()


async def test_what_happens_is_written_in_batches_and_again_when_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.node.diary.BATCH_SECONDS", 0.0)
    monkeypatch.setattr("flnet.node.diary.RETRY_SECONDS", 0.0)
    store, feed = Full(), feed_of()
    diary = Diary(feed, store, now=lambda: 5000.0)
    await diary.begin()
    writing = asyncio.create_task(diary.write())
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
    await diary.end()
    assert await store.begin_events() == 5_000_002


async def test_a_diary_that_never_began_writes_nothing() -> None:
    store = MemoryStore()
    await Diary(feed_of(), store).end()
    assert await store.begin_events() == 0
