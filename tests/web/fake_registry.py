"""The model registry of a twin node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from flnet.node.event_log import FeedItem
from flnet.node.interface import View
from flnet.node.trust import Trust
from flnet.params.params import TrainerId
from flnet.rounds.view import JobView
from flnet.security.signing import RequestVerifier


class FakeRegistry:
    """Notes what was to be done with which model."""

    signing: RequestVerifier | None = None  # of a mesh with keys
    trust: Trust | None = None  # `Trust(key)` for a pinned mesh

    def __init__(self) -> None:
        self.feed: Any
        self.orders: list[tuple[str, str, str]] = []
        self.failure: Exception | None = None
        self.forgotten: list[str] = []  # peers

    def job(self, trainer: TrainerId) -> JobView:
        """The job's view; refuses unknown trainers."""
        raise NotImplementedError("FakeNode has the jobs")

    def history(self, trainer: TrainerId) -> Sequence[View]:
        """All records."""
        raise NotImplementedError("FakeNode has the records")

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[View]:
        kept = [record for record in self.history(trainer) if until is None or record["round"] <= until]
        return kept[-(last or 0) :]

    async def record_pages(self, trainer: TrainerId, last: int | None = None) -> AsyncIterator[Sequence[View]]:
        for record in await self.records(trainer, last):
            yield [record]

    async def thinned_records(self, trainer: TrainerId, most: int, last: int | None = None) -> Sequence[View]:
        return await self.records(trainer, last)

    async def forget(self, peer: str) -> Sequence[View]:
        if self.failure is not None:
            raise self.failure
        self.forgotten.append(peer)
        return []

    async def events(self) -> Sequence[FeedItem]:
        kept: Sequence[FeedItem] = self.feed.recent()
        return kept

    async def restore(self, trainer: TrainerId, digest: str) -> JobView:
        return self._ordered("restore", trainer, digest).model_copy(update={"digest": digest})

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        self._ordered("pin" if pinned else "unpin", trainer, digest)
        return {"digest": digest, "pinned": pinned}

    def _ordered(self, order: str, trainer: TrainerId, digest: str) -> JobView:
        job = self.job(trainer)
        if self.failure:
            raise self.failure
        self.orders.append((order, trainer, digest))
        return job
