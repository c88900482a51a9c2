"""Performs effects: one branch per effect; whatever takes time runs as a task and ends in an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from flnet.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    Evaluate,
    Fetch,
    Fold,
    Publish,
    Save,
    Send,
    SendAnnounce,
    SendProbe,
    SetTimer,
    Train,
)
from flnet.errors import IllegalStep, LocalError
from flnet.events import Event
from flnet.messages import Packet
from flnet.node.core import Owned
from flnet.node.feed import RingFeed
from flnet.node.keeper import RETRY_SECONDS, Keeper
from flnet.node.lane import Lane
from flnet.node.line import Answered, Line, Step
from flnet.node.post import Post
from flnet.node.shelf import Chosen, Shelf
from flnet.node.timers import Deliver, Timers
from flnet.params import TrainerId
from flnet.store import Store

log = logging.getLogger(__name__)

WORK = (CancelWork, Train, Fold, Average, Evaluate)  # what the lane does
SAVE_SECONDS = 10.0  # for what is to be saved when this node ends


class Performer:
    """Carries out what the core asked for, in the order given."""

    def __init__(
        self, store: Store, shelf: Shelf, post: Post, lane: Lane, timers: Timers, feed: RingFeed, deliver: Deliver
    ) -> None:
        self.keeper = Keeper(store, feed.publish)
        self._shelf, self._post, self._lane = shelf, post, lane
        self._timers, self._feed, self._deliver = timers, feed, deliver
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving: set[asyncio.Task[None]] = set()  # those of them that carry something to or from a peer
        self._line = Line(self._save_all, self._finish, self._spawn)

    async def perform(
        self, owned: Sequence[Owned], heard: tuple[TrainerId | None, Event] | None = None
    ) -> Answered:
        """Perform effects in order; the answer among them, if there is one, is in the future when it may be given.

        What nobody else sees begins at once: work and timers. All else waits until this step and all before it are
        saved, and for its turn; this returns before, unless the disk is far behind.

        Args:
            heard: the event behind them, and whose it is.

        Returns:
            The answer, or NotReady: a peer's update could not be saved, so it is not acknowledged.
        """
        for item in owned:
            if item.owner is not None and isinstance(item.effect, WORK):
                self._for_job(item.owner, item)
            elif isinstance(item.effect, SetTimer | CancelTimer):
                self._for_anyone(item)
        step = self._step(owned, heard)
        if step.saves or self.keeper.trouble or not self._line.is_empty:
            self._line.add(step)
            if self._line.is_long:
                await asyncio.wait([step.answered])
        else:
            step.answered.set_result(self._show(step))
        return step.answered

    def prepare(self, trainer: TrainerId) -> None:
        """Hand on what was kept, and start loading a trainer; ends in Prepared or PrepareFailed."""

        async def prepare() -> Event:
            if (found := await self.keeper.load(trainer)) is not None:
                self._deliver(trainer, found)
            return await self._lane.prepare(trainer)

        self._later(trainer, prepare())

    async def settle(self, seconds: float) -> None:
        """Let what is on its way to and from peers arrive, for so long at most."""
        if self._moving:
            await asyncio.wait(self._moving, timeout=seconds)

    async def close(self) -> None:
        """Save what there is to save, and stop all that runs; no event comes afterwards."""
        self._timers.close()
        await self._line.settle(SAVE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._line.close()

    def _step(self, owned: Sequence[Owned], heard: tuple[TrainerId | None, Event] | None) -> Step:
        saves = [
            (one.owner, one.effect) for one in owned if one.owner is not None and isinstance(one.effect, Save)
        ]
        # Updates of peers change nothing about a model; later events do, so it is looked at now.
        changed = {owner for owner, save in saves if not save.updates}
        models = [found for owner in sorted(changed) if (found := self._shelf.look(owner)) is not None]
        shown = [one for one in owned if not isinstance(one.effect, (*WORK, SetTimer, CancelTimer, Save))]
        return Step(saves, models, shown, heard)

    async def _save_all(self, steps: Sequence[Step]) -> None:
        """Keep what these steps want kept, all that belongs to one job at once."""
        was_well, saves = not self.keeper.trouble, [save for step in steps for save in step.saves]
        for trainer in dict.fromkeys(owner for owner, _ in saves):
            models = await self._news([one for step in steps for one in step.models if one.trainer == trainer])
            wanted = [save for owner, save in saves if owner == trainer]
            if await self._save(trainer, wanted, models):
                self._shelf.kept(models)
        if was_well and self.keeper.trouble:
            self._spawn(self._mend())

    async def _save(self, owner: TrainerId, saves: Sequence[Save], models: Sequence[Chosen]) -> bool:
        return await self.keeper.save(owner, *saves, models=[model.to_keep for model in models])

    async def _news(self, models: Sequence[Chosen]) -> Sequence[Chosen]:
        try:
            return await self._shelf.news(models)
        except LocalError as exc:
            self.keeper.failed(str(exc))
            return ()

    async def _finish(self, step: Step) -> Packet | None:
        answer = self._show(step)
        if step.heard is not None:
            await self.keeper.must_be_kept(*step.heard)
        return answer

    def _show(self, step: Step) -> Packet | None:
        """Perform what others may see."""
        answer = None
        for item in step.effects:
            if isinstance(item.effect, Answer):
                answer = Packet(item.effect.message, item.effect.params)
            elif item.owner is None or isinstance(item.effect, Publish):
                self._for_anyone(item)
            else:
                self._for_job(item.owner, item)
        return answer

    async def _mend(self) -> None:
        while self.keeper.trouble:
            await asyncio.sleep(RETRY_SECONDS)
            await self.keeper.retry()

    def _for_anyone(self, item: Owned) -> None:
        match item.effect:
            case SetTimer() as effect:
                self._timers.set(item.owner, effect)
            case CancelTimer(name):
                self._timers.cancel(item.owner, name)
            case Publish(kind, text, data):
                log.info("%s%s", f"{item.owner}: " if item.owner else "", text)
                self._feed.publish(kind, text, item.owner or "", data)
                if kind.startswith("peer_") and item.owner is None:
                    self._spawn(self.keeper.keep_peers(self._post.peers(), self._post.keys()))
            case SendAnnounce() as effect:
                self._spawn(self._post.announce(effect))
            case SendProbe() as effect:
                self._move(self._post.probe(effect))
            case effect:
                raise IllegalStep(f"the membership cannot ask for {type(effect).__name__}")

    def _for_job(self, owner: TrainerId, item: Owned) -> None:
        match item.effect:
            case CancelWork() as effect:
                self._lane.cancel(owner, effect)
            case Train() as effect:
                self._later(owner, self._lane.train(owner, effect))
            case Fold() as effect:
                self._spawn(self._lane.fold(owner, effect))
            case Average() as effect:
                self._later(owner, self._lane.average(owner, effect))
            case Evaluate() as effect:
                self._later(owner, self._lane.evaluate(owner, effect))
            case Fetch() as effect:
                self._move(self._ends(owner, self._post.fetch(owner, effect)))
            case Send() as effect:
                self._move(self._post.send(owner, self.keeper.allowed(owner, effect)))
            case effect:
                raise IllegalStep(f"a job cannot ask for {type(effect).__name__}")

    def _later(self, owner: TrainerId, work: Coroutine[Any, Any, Event]) -> None:
        self._spawn(self._ends(owner, work))

    async def _ends(self, owner: TrainerId, work: Coroutine[Any, Any, Event]) -> None:
        self._deliver(owner, await work)

    def _move(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()):
            log.error("an effect failed in a way that flnet does not know", exc_info=exc)
