"""Keeps what happened in the store, in batches, so that the feed goes on where an earlier run ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flnet.errors import LocalError
from flnet.node.base import FeedItem
from flnet.node.feed import RingFeed
from flnet.store import Store

BATCH_SECONDS = 1.0  # in which things that happen are collected
RETRY_SECONDS = 10.0  # after a batch that could not be kept
EVERYTHING = 10**9


class Diary:
    """The feed on the disk. It promises nothing: who waits for a save never waits for this."""

    def __init__(self, feed: RingFeed, store: Store, now: Callable[[], float] = time.time) -> None:
        """Args:
        now: seconds since the epoch.
        """
        self._feed, self._store, self._now = feed, store, now
        self._saved: int | None = None  # id of the newest item that is kept; None before the beginning

    async def begin(self) -> None:
        """Put the newest items of earlier runs into the feed; its ids go on behind theirs."""
        kept: Sequence[Mapping[str, Any]] = ()
        try:
            last = await self._store.begin_events()
            kept = await self._store.events(self._feed.keep)
        except LocalError:  # behind all ids that can have been used
            last = int(self._now() * 1000)
        self._feed.go_on([_read(fields) for fields in kept], last)
        self._saved = last

    async def write(self) -> None:
        """Keep what happens, until this is cancelled."""
        assert self._saved is not None
        while True:
            await self._feed.news(self._saved)
            await asyncio.sleep(BATCH_SECONDS if await self._flush() else RETRY_SECONDS)

    async def all(self) -> Sequence[FeedItem]:
        """All that is kept here or in the feed, oldest first."""
        found: dict[int, FeedItem] = {}
        with contextlib.suppress(LocalError):  # what is in the feed can be told all the same
            found = {one["id"]: _read(one) for one in await self._store.events(EVERYTHING)}
        found |= {item.id: item for item in self._feed.recent()}
        return [found[number] for number in sorted(found)]

    async def end(self) -> None:
        """Keep the last items, when no more come."""
        if self._saved is None:
            return
        await self._flush()
        with contextlib.suppress(LocalError):  # then the next run leaves a gap
            await self._store.end_events(self._feed.last_id)
        self._saved = None

    async def _flush(self) -> bool:
        items = self._feed.recent(self._saved or 0)
        if not items:
            return True
        try:
            await self._store.add_events([_written(item) for item in items])
        except LocalError:
            return False
        self._saved = items[-1].id
        return True


def _written(item: FeedItem) -> Mapping[str, Any]:
    data = json.loads(json.dumps(dict(item.data), default=str), parse_constant=str)
    fields = {"id": item.id, "at": item.at, "kind": item.kind, "text": item.text, "trainer": item.trainer}
    return {**fields, "data": data}


def _read(fields: Mapping[str, Any]) -> FeedItem:
    return FeedItem(**{name: fields[name] for name in ("id", "at", "kind", "text", "trainer", "data")})
