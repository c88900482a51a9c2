"""The feed: rising ids, a bounded ring, watchers that resume."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from flnet.node import RingFeed


@pytest.fixture
def feed() -> RingFeed:
    clock = itertools.count(100)
    return RingFeed(lambda: float(next(clock)), keep=3)


def texts(feed: RingFeed, after: int = 0) -> list[str]:
    return [item.text for item in feed.recent(after)]


async def read(feed: RingFeed, after: int | None, count: int) -> list[str]:
    got: list[str] = []
    async for item in feed.watch(after):
        got.append(item.text)
        if len(got) == count:
            break
    return got


def test_ids_rise_by_one_and_the_ring_forgets_the_oldest(feed: RingFeed) -> None:
    for name in "abcd":
        feed.publish("kind", name, "MNIST", {"n": 1})
    assert [item.id for item in feed.recent()] == [2, 3, 4]
    assert texts(feed) == ["b", "c", "d"]
    assert texts(feed, after=3) == ["d"]
    last = feed.recent()[-1]
    assert (last.at, last.kind, last.trainer, last.data) == (103.0, "kind", "MNIST", {"n": 1})


async def test_a_watcher_reads_what_it_missed_and_then_what_happens(feed: RingFeed) -> None:
    feed.publish("kind", "a")
    feed.publish("kind", "b")
    reading = asyncio.create_task(read(feed, after=1, count=3))
    await asyncio.sleep(0)
    feed.publish("kind", "c")
    feed.publish("kind", "d")
    assert await reading == ["b", "c", "d"]


async def test_a_new_watcher_sees_only_what_is_new(feed: RingFeed) -> None:
    feed.publish("kind", "old")
    reading = asyncio.create_task(read(feed, after=None, count=1))
    await asyncio.sleep(0)
    feed.publish("kind", "new")
    assert await reading == ["new"]


async def test_an_id_from_before_a_restart_reads_everything_kept(feed: RingFeed) -> None:
    feed.publish("kind", "a")
    assert await read(feed, after=999, count=1) == ["a"]


async def test_all_watchers_end_when_the_feed_closes(feed: RingFeed) -> None:
    readings = [asyncio.create_task(read(feed, after=0, count=99)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.publish("kind", "last words")
    feed.close()
    assert await asyncio.gather(*readings) == [["last words"]] * 3
