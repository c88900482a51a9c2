"""The event log: what happened on this node, in a bounded buffer that many watchers follow, and in the store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flnet.errors import LocalError
from flnet.store.base import Store
from flnet.store.event_retention import KeptEvent, about, dropped, surplus
from flnet.text import CODES, codes_of, with_codes

T = TypeVar("T")
BATCH_SECONDS = 1.0  # in which things that happen are collected
RETRY_SECONDS = 10.0  # after a batch that could not be kept
EVERYTHING = 10**9
_FIELDS = ("id", "at", "kind", "text", "trainer")


@dataclass(frozen=True)
class FeedItem:
    """One thing that happened: ids rise, by one while a node runs; `text` is a plain sentence.

    Attributes:
        at: seconds since the epoch by this node's own clock, for people only.
        trainer: the job it belongs to; empty for the mesh.
    """

    id: int
    at: float
    kind: str
    text: str
    trainer: str
    data: Mapping[str, Any]


class EventLog:
    """The last items; a watcher that falls behind continues with the oldest item that is left.

    What is most frequent is forgotten first (`flnet.store.event_retention`).
    """

    def __init__(self, now: Callable[[], float], keep: int = 1000) -> None:
        """Args:
        now: seconds since the epoch.
        keep: how many items are held.
        """
        self._now, self.keep = now, keep
        self._items: list[FeedItem] = []
        self._last_id = 0
        self._more = asyncio.Event()
        self._closed = False

    @property
    def last_id(self) -> int:
        """Id of the newest item, of this run or an earlier one."""
        return self._last_id

    def continue_from(self, earlier: Sequence[FeedItem], last_id: int) -> None:
        """Start with the items of earlier runs; called before anybody reads.

        Args:
            last_id: ids up to this one are taken; items that were published meanwhile get later ones.
        """
        own = self._items
        self._items = [*earlier, *(replace(item, id=last_id + n) for n, item in enumerate(own, 1))]
        self._last_id = last_id + len(own)
        self._forget()

    async def wait_after(self, after: int) -> None:
        """Wait until there is an item with a greater id."""
        while self._last_id <= after:
            await self._more.wait()

    def publish(self, kind: str, text: str, trainer: str = "", data: Mapping[str, Any] | None = None) -> FeedItem:
        """Add an item and wake the watchers."""
        self._last_id += 1
        item = FeedItem(self._last_id, self._now(), kind, _sayable(text), trainer, _sayable(dict(data or {})))
        self._items.append(item)
        self._forget()
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
            more, newest = self._more, self._last_id
            for item in self.recent(seen):
                seen = item.id
                yield item
            if self._closed:
                return
            seen = max(seen, newest)  # which may have been forgotten already
            if seen == self._last_id:
                await more.wait()

    def close(self) -> None:
        """End all watchers once they have read what is here."""
        self._closed = True
        self._wake()

    def _forget(self) -> None:
        too_many = surplus(len(self._items), self.keep)
        if too_many:
            gone = set(
                dropped((KeptEvent(item.id, item.kind, about(item.data)) for item in self._items), too_many)
            )
            self._items = [item for item in self._items if item.id not in gone]

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()


def _sayable(value: T) -> T:
    """The same, with letters that cannot be written as UTF-8, as some file names have, as escapes."""
    made: Any = value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            made = value.encode("utf-8", "backslashreplace").decode()
    elif isinstance(value, dict):
        made = {_sayable(name): _sayable(one) for name, one in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(map(_sayable, value)) if type(value) in (list, tuple) else value
    kept: T = made
    return kept


class EventLogStore:
    """Writes the event log to the store in batches. A loss of power may take the last ones; no save waits for it."""

    def __init__(self, feed: EventLog, store: Store, now: Callable[[], float] = time.time) -> None:
        """Args:
        now: seconds since the epoch.
        """
        self._feed, self._store, self._now = feed, store, now
        self._saved: int | None = None  # id of the newest item that is kept; None before the beginning

    async def begin(self) -> None:
        """Load the newest items of earlier runs; new ids follow theirs."""
        kept: Sequence[Mapping[str, Any]] = ()
        try:
            last = await self._store.begin_events()
            kept = await self._store.events(self._feed.keep)
        except LocalError:  # behind all ids that can have been used
            last = int(self._now() * 1000)
        self._feed.continue_from([_read(fields) for fields in kept], last)
        self._saved = last

    async def write(self) -> None:
        """Write new items, until cancelled."""
        assert self._saved is not None
        while True:
            await self._feed.wait_after(self._saved)
            await asyncio.sleep(BATCH_SECONDS if await self._flush() else RETRY_SECONDS)

    async def all(self) -> Sequence[FeedItem]:
        """All items, of the store and of the log, oldest first."""
        items: dict[int, FeedItem] = {}
        with contextlib.suppress(LocalError):  # what is in the feed can be told all the same
            items = await asyncio.to_thread(_read_all, await self._store.events(EVERYTHING))
        items |= {item.id: item for item in self._feed.recent()}
        return [items[number] for number in sorted(items)]

    async def end(self) -> None:
        """Write the last items, when no more come."""
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
    """The item as JSON data; the codes of its texts stand in `data`, for which the store has a column."""
    data = json.loads(json.dumps(dict(item.data), default=str), parse_constant=str)
    if codes := codes_of({"text": item.text, "data": item.data}):
        data[CODES] = codes
    return {**{name: getattr(item, name) for name in _FIELDS}, "data": data}


def _read_all(events: Sequence[Mapping[str, Any]]) -> dict[int, FeedItem]:
    return {event["id"]: _read(event) for event in events}


def _read(fields: Mapping[str, Any]) -> FeedItem:
    data = dict(fields["data"])
    codes = data.pop(CODES, None)
    return FeedItem(**with_codes({**{name: fields[name] for name in _FIELDS}, "data": data}, codes))
