"""What happened on this node, kept in a bounded ring and fanned out to whoever watches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flnet.node.base import FeedItem


class RingFeed:
    """Keeps the last items; a watcher that falls behind the ring goes on with the oldest that is kept."""

    def __init__(self, now: Callable[[], float], keep: int = 1000) -> None:
        """Args:
        now: seconds since the epoch, for people to read.
        keep: how many items the ring holds.
        """
        self._now, self.keep = now, keep
        self._items: deque[FeedItem] = deque(maxlen=keep)
        self._last_id = 0
        self._more = asyncio.Event()
        self._closed = False

    @property
    def last_id(self) -> int:
        """Of the newest item, or of what earlier runs had."""
        return self._last_id

    def go_on(self, earlier: Sequence[FeedItem], last_id: int) -> None:
        """Begin with what earlier runs told; before anybody reads here.

        Args:
            last_id: no id up to it is used again; what was published here meanwhile gets ids behind it.
        """
        own = list(self._items)
        self._items.clear()
        self._items += [*earlier, *(replace(item, id=last_id + n) for n, item in enumerate(own, 1))]
        self._last_id = last_id + len(own)

    async def news(self, after: int) -> None:
        """Wait until there is an item behind this id."""
        while self._last_id <= after:
            await self._more.wait()

    def publish(self, kind: str, text: str, trainer: str = "", data: Mapping[str, Any] | None = None) -> FeedItem:
        """Add an item and wake the watchers."""
        self._last_id += 1
        item = FeedItem(self._last_id, self._now(), kind, text, trainer, dict(data or {}))
        self._items.append(item)
        self._wake()
        return item

    def recent(self, after: int = 0) -> Sequence[FeedItem]:
        """Items with an id greater than `after` that are still kept, oldest first."""
        return [item for item in self._items if item.id > after]

    async def watch(self, after: int | None = None) -> AsyncIterator[FeedItem]:
        """Items as they happen, those after `after` first (None: only new ones); ends when the feed closes."""
        # An id from before a restart may lie ahead of ours: then everything that is kept is news.
        seen = self._last_id if after is None else after if after <= self._last_id else 0
        while True:
            more = self._more
            for item in self.recent(seen):
                seen = item.id
                yield item
            if self._closed:
                return
            if seen == self._last_id:
                await more.wait()

    def close(self) -> None:
        """End all watchers once they have read what is here."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()
