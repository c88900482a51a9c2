"""The event log of a twin node: no time passes in it, and it counts who watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

from flnet.node.event_log import EventLog, FeedItem


class FakeFeed(EventLog):
    """A small ring."""

    def __init__(self) -> None:
        super().__init__(count(1_700_000_000.0).__next__, keep=200)
        self.watchers = 0

    def publish(self, kind: str, text: str, trainer: str = "", data: Any = None, **more: Any) -> FeedItem:
        return super().publish(kind, text, trainer, data or more)

    async def watch(self, after: int | None = None) -> AsyncIterator[FeedItem]:
        self.watchers += 1
        try:
            async for item in super().watch(after):
                yield item
        finally:
            self.watchers -= 1
