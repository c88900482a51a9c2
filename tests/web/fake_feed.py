"""An in-memory twin of a node's feed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from flnet.node.base import FeedItem


class FakeFeed:
    """A bounded ring of what happened; `close` is what a stopping node does."""

    def __init__(self, keep: int = 200) -> None:
        self.keep = keep
        self.closed = False
        self.watchers = 0
        self._items: list[FeedItem] = []
        self._changed = asyncio.Condition()

    async def publish(self, kind: str, text: str, trainer: str = "", **data: Any) -> None:
        newest = self._items[-1].id if self._items else 0
        item = FeedItem(newest + 1, 1_700_000_000.0 + newest, kind, text, trainer, data)
        async with self._changed:
            self._items = [*self._items, item][-self.keep :]
            self._changed.notify_all()

    async def close(self) -> None:
        async with self._changed:
            self.closed = True
            self._changed.notify_all()

    def recent(self, after: int = 0) -> Sequence[FeedItem]:
        return [item for item in self._items if item.id > after]

    async def watch(self, after: int | None = None) -> AsyncIterator[FeedItem]:
        last = (self._items[-1].id if self._items else 0) if after is None else after
        self.watchers += 1
        try:
            while not self.closed:
                for item in self.recent(last):
                    last = item.id
                    yield item
                async with self._changed:
                    while not self.closed and not self.recent(last):
                        await self._changed.wait()
        finally:
            self.watchers -= 1
