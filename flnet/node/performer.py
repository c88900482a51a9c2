"""Performs the effects that the core asks for: one branch for each effect; what takes time ends in an event.

Work and timers, which nobody else sees, begin at once. What others may see waits in the commit queue until its
step and all steps before it are saved: nothing overtakes, and nothing is promised before it is on the disk. While
the disk is busy the node handles further events, and all steps that came meanwhile are saved together.

A save that fails is tried again with the next one, and when a peer that waits for it asks again. Until then the
rounds go on in memory: this node acknowledges no update, and hands out none of its own; see docs/state.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flnet.compute.tasks import ComputeTasks
from flnet.errors import IllegalStep, LocalError, NotReady, PeerError, without_frames
from flnet.membership.state import KEPT_AHEAD
from flnet.node.core import Owned
from flnet.node.event_log import EventLog
from flnet.node.event_queue import Deliver, Timers
from flnet.node.id_predictions import IdPredictions
from flnet.node.model_registry import ModelRegistry, SelectedModel
from flnet.node.outbox import Outbox
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    ComputeOutputs,
    ComputePrediction,
    Effect,
    Evaluate,
    Fetch,
    FetchAlso,
    FetchSegments,
    Fold,
    KeepIncarnation,
    OpenEpoch,
    Publish,
    Refuse,
    Save,
    SecureStep,
    Send,
    SendAnnounce,
    SendProbe,
    SetTimer,
    Talk,
    TellPrediction,
    Train,
)
from flnet.protocol.events import Event, Restored, SecureStepDone, UpdateOffered, UpdateReceived, VersionReceived
from flnet.protocol.messages import MAX_INCARNATION, AskVersion, ModelParams, Packet
from flnet.protocol.secure_sum import MaskUpdate, StepFailed
from flnet.rounds.history import HELD_ROUNDS
from flnet.store.base import KeptModel, SavedJob, Store
from flnet.text import text

MOST_WAITING = 64  # steps; a node that is faster than its disk waits for it
Answered = asyncio.Future[Packet | None]
log = logging.getLogger(__name__)
Tell = Callable[[str, str], object]
RETRY_SECONDS = 10.0  # until what could not be saved is tried again, if nothing else is saved before
# What the compute queue does.
WORK = (CancelWork, Train, Fold, Average, SecureStep, Evaluate, OpenEpoch, Talk, ComputeOutputs, ComputePrediction)
SAVE_SECONDS = 10.0  # for what is to be saved when this node ends


def _begins_at_once(effect: Effect) -> bool:
    """Whether an effect waits for no save. A masked update does: it is on its way to peers then."""
    is_update = isinstance(effect, SecureStep) and isinstance(effect.request, MaskUpdate)
    return isinstance(effect, WORK) and not is_update


@dataclass(frozen=True)
class Step:
    """The effects of one event that remain to be performed.

    Attributes:
        saves: what must be on the disk first, with the job that asks for it.
        models: that jobs held then, for the registry.
        effects: those that others may see.
        heard: the event, and its owner.
    """

    saves: Sequence[tuple[TrainerId, Save]] = ()
    models: Sequence[SelectedModel] = ()
    effects: Sequence[Owned] = ()
    heard: tuple[TrainerId | None, Event] | None = None
    answered: Answered = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CommitQueue:
    """Steps that wait for the disk; all that are waiting when it is free are saved at once."""

    def __init__(
        self,
        save: Callable[[Sequence[Step]], Awaitable[None]],
        finish: Callable[[Step], Awaitable[Packet | None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Args:
        save: saves what steps need saved; `finish` sees what could not be saved.
        finish: performs a step's effects, and returns the answer among them.
        spawn: runs a task.
        """
        self._save, self._finish, self._spawn = save, finish, spawn
        self._waiting: list[Step] = []
        self._under_way: list[Step] = []
        self._runs = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, so that a new step overtakes no other."""
        return not self._runs

    @property
    def is_long(self) -> bool:
        """Whether the disk is so far behind that no further events should be handled for now."""
        return len(self._waiting) >= MOST_WAITING

    def add(self, step: Step) -> Answered:
        """Add a step; the future gets the answer when it may be given, or the error."""
        self._waiting.append(step)
        if not self._runs:
            self._runs = True
            self._spawn(self._run())
        return step.answered

    async def settle(self, seconds: float) -> None:
        """Wait until the queue is empty, for at most this long."""
        last = [step.answered for step in (*self._under_way, *self._waiting)]
        if last:
            await asyncio.wait(last, timeout=seconds)

    def close(self) -> None:
        """Cancel all steps that still wait."""
        for step in (*self._under_way, *self._waiting):
            step.answered.cancel()
        self._under_way, self._waiting = [], []

    async def _run(self) -> None:
        while self._waiting:
            self._under_way, self._waiting = self._waiting, []
            try:
                await self._save(self._under_way)
            except Exception as exc:  # a bug: nothing of these steps is promised
                for step in self._under_way:
                    step.answered.set_exception(exc)
                continue
            for step in self._under_way:
                await self._end(step)
        self._under_way, self._runs = [], False

    async def _end(self, step: Step) -> None:
        try:
            answer = await self._finish(step)
        except Exception as exc:  # a refusal, or a bug: for the task that waits
            if not step.answered.done():
                step.answered.set_exception(without_frames(exc) if isinstance(exc, PeerError) else exc)
        else:
            if not step.answered.done():
                step.answered.set_result(answer)


class StateSaver:
    """Saves the states of jobs, and remembers what could not be saved."""

    def __init__(self, store: Store, tell: Tell) -> None:
        """Args:
        tell: publishes an event: its kind and a sentence.
        """
        self._store, self._tell = store, tell
        self._unsaved: dict[TrainerId, SavedJob] = {}
        self._given: dict[TrainerId, SavedJob] = {}  # to the store last, until it answers; with all unsaved
        self._peers: dict[str, str] = {}  # addresses by id, as they are kept
        self.keys: dict[str, str] = {}  # public keys by id, likewise
        self._incarnation = self._kept_incarnation = 0  # for the next start: as it is wanted, and as it is kept
        self._keeping = asyncio.Lock()
        self.trouble = ""  # why state cannot be kept; empty while all is well

    async def load(self, trainer: TrainerId) -> Restored | None:
        """Load the state that an earlier run saved of this job, if any."""
        try:
            saved = await self._store.load(trainer, HELD_ROUNDS)
        except LocalError as exc:
            self._tell("state_damaged", text("what was kept of {trainer} cannot be read: {error}", trainer, exc))
            return Restored({}, is_lost=True)
        finally:
            self.publish_notices()
        return None if saved is None else restored_of(saved)

    def publish_notices(self) -> None:
        """Publish what the store found damaged."""
        for notice in self._store.notices():
            log.warning("%s", notice)
            self._tell("state_damaged", notice)

    async def save(self, trainer: TrainerId, *effects: Save, models: Sequence[KeptModel] = ()) -> bool:
        """Save the state after these effects, as one; return whether that worked.

        Args:
            models: new models of the job, saved with them.
        """
        job = self._unsaved.get(trainer)
        for effect in effects:
            job = SavedJob.of(effect) if job is None else job.then(SavedJob.of(effect))
        job = job.with_models(*job.models, *models) if job and models else job
        return job is None or await self._try(trainer, job)

    async def addresses(self) -> Sequence[str]:
        """Addresses of the peers that an earlier run knew; with them a node rejoins without a bootstrap peer."""
        try:
            peers = await self._store.load_peers()
        except LocalError as exc:
            self.failed(str(exc))
            return ()
        self._incarnation = max((int(peer.get("incarnation", 0)) for peer in peers), default=0)
        self._peers = {str(peer["id"]): str(peer["address"]) for peer in peers if peer["address"]}
        self.keys = {str(peer["id"]): str(peer["key"]) for peer in peers if peer.get("key")}
        return tuple(self._peers.values())

    async def save_peers(self, peers: Sequence[Mapping[str, Any]], keys: Mapping[PeerId, str]) -> None:
        """Save the addresses of the peers that did not leave, and the keys of all names, if they changed.

        If there are no peers, the known addresses are kept.
        """
        known = {str(peer["id"]): str(peer["address"]) for peer in peers if peer["state"] != "left"}
        now, before = (known or self._peers, {str(id): key for id, key in keys.items()}), (self._peers, self.keys)
        if now == before:
            return
        self._peers, self.keys = now
        try:
            await self._write_peers()
        except LocalError:  # nothing is promised by it; the next news of a peer tries again
            self._peers, self.keys = before

    async def begin_incarnation(self) -> int:
        """The incarnation of this run: above all that earlier runs used. A higher one is kept for the next run."""
        first = self._incarnation
        await self.keep_incarnation(min(first + KEPT_AHEAD, MAX_INCARNATION))
        return first

    async def keep_incarnation(self, incarnation: int = 0) -> None:
        """Save the incarnation with which the next run begins, if it is not saved yet."""
        self._incarnation = max(self._incarnation, incarnation)
        async with self._keeping:
            wanted = self._incarnation
            if wanted <= self._kept_incarnation:
                return
            with contextlib.suppress(LocalError):  # the next one, or the end of this node, tries again
                await self._write_peers()
                self._kept_incarnation = wanted

    async def _write_peers(self) -> None:
        at, kept = self._peers, self.keys
        rows: list[dict[str, Any]] = [
            {"id": id, "address": at.get(id, ""), "key": kept.get(id)} for id in sorted({*at, *kept})
        ]
        if self._incarnation:  # this node's own row has no name, which no peer can have
            rows.append({"id": "", "address": "", "key": None, "incarnation": self._incarnation})
        await self._store.save_peers(rows)

    async def ensure_saved(self, trainer: TrainerId | None, event: Event) -> None:
        """Try once more to save what could not be saved, before a peer's update or version is acknowledged.

        Raises:
            NotReady: it cannot be saved now; the peer may try again.
        """
        if (
            trainer not in self._unsaved
            or trainer is None
            or not isinstance(event, UpdateReceived | UpdateOffered | VersionReceived)
        ):
            return
        if not await self._try(trainer, self._unsaved[trainer]):
            if isinstance(event, VersionReceived):
                raise NotReady(text("the own version cannot be kept here now ({error}); ask again", self.trouble))
            raise NotReady(text("the update cannot be kept here now ({error}); ask again", self.trouble))

    async def retry(self) -> None:
        """Try once more to save what could not be saved."""
        for trainer in list(self._unsaved):
            if (job := self._unsaved.get(trainer)) is not None:  # as it is by now, after the others
                await self._try(trainer, job)
        if not self._unsaved:
            self._is_well()

    def is_unsaved(self, trainer: TrainerId) -> bool:
        """Whether something of this job could not be saved."""
        return trainer in self._unsaved

    def allowed(self, trainer: TrainerId, effect: Send) -> Send:
        """The message that may be sent: an own update that is not saved is withheld, because it could not be repeated."""
        message = effect.message
        if trainer in self._unsaved and isinstance(message, AskVersion):
            return replace(effect, to=())  # nobody shall merge a version that a restart would forget
        if trainer not in self._unsaved or not isinstance(message, ModelParams) or effect.params is None:
            return effect
        why = text("its update could not be saved there: {error}", self.trouble)[:500]
        declined = message.model_copy(update={"examples": 0, "declined": why, "digest": None, "accuracy": None})
        return replace(effect, message=declined, params=None)

    async def _try(self, trainer: TrainerId, job: SavedJob) -> bool:
        self._given[trainer] = job
        why = ""
        try:
            await self._store.save(trainer, job)
        except LocalError as exc:
            why = str(exc)
            self.failed(why)
        if self._given.get(trainer) is job:  # else a newer state that holds this one was given meanwhile
            del self._given[trainer]
            if why:
                self._unsaved[trainer] = job
            else:
                self._unsaved.pop(trainer, None)
        if why:
            return False
        if not self._unsaved:
            self._is_well()
        return True

    def failed(self, why: str) -> None:
        """Publish that something could not be saved, once for each cause."""
        if why != self.trouble:
            self.trouble = why
            self._tell("state_not_written", text("{error}; rounds go on in memory, and it is tried again", why))

    def _is_well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._tell("state_written", text("state can be written again; nothing is left unsaved"))


def restored_of(saved: SavedJob) -> Restored:
    """The event that restores a job from what an earlier run saved."""
    words = tuple(
        UpdateReceived(kept.update) if kept.digest is None else UpdateOffered(kept.update, kept.digest)
        for kept in saved.updates
    )
    params, private, sent, remembered = saved.parts
    return Restored(saved.snapshot, params, private, sent, words, saved.records, remembered)


class Performer:
    """Performs the effects that the core asks for, in their order."""

    def __init__(
        self,
        store: Store,
        registry: ModelRegistry,
        outbox: Outbox,
        compute: ComputeTasks,
        timers: Timers,
        feed: EventLog,
        deliver: Deliver,
        predictions: IdPredictions,
    ) -> None:
        """Args:
        predictions: of rows by id; hears how they end.
        """
        self.saver = StateSaver(store, feed.publish)
        self._predictions = predictions
        self._registry, self._outbox, self._compute = registry, outbox, compute
        self._timers, self._feed, self._deliver = timers, feed, deliver
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving: set[asyncio.Task[None]] = set()  # those of them that carry something to or from a peer
        self._commits = CommitQueue(self._save_all, self._finish, self._spawn)

    async def perform(
        self, owned: Sequence[Owned], heard: tuple[TrainerId | None, Event] | None = None
    ) -> Answered:
        """Perform the effects of one event in order; the future gets the answer among them when it may be given.

        Work and timers begin at once. All else waits until this step and all steps before it are saved. This
        returns earlier, unless the disk is far behind.

        Args:
            heard: the event that caused them, and its owner.

        Returns:
            The answer, or NotReady: a peer's update could not be saved, so it is not acknowledged.
        """
        for item in owned:
            if item.owner is not None and _begins_at_once(item.effect):
                self._for_job(item.owner, item)
            elif isinstance(item.effect, SetTimer | CancelTimer):
                self._for_anyone(item)
        step = self._step(owned, heard)
        if step.saves or self.saver.trouble or not self._commits.is_empty:
            self._commits.add(step)
            if self._commits.is_long:
                await asyncio.wait([step.answered])
        else:
            try:
                step.answered.set_result(self._show(step))
            except PeerError as exc:
                step.answered.set_exception(without_frames(exc))
        return step.answered

    def prepare(self, trainer: TrainerId) -> None:
        """Restore the job from what was saved, and load its trainer; ends in Prepared or PrepareFailed."""

        async def prepare() -> Event:
            if (restored := await self.saver.load(trainer)) is not None:
                self._deliver(trainer, restored)
            return await self._compute.prepare(trainer)

        self._later(trainer, prepare())

    async def settle(self, seconds: float) -> None:
        """Wait for transfers to and from peers, for at most this long."""
        if self._moving:
            await asyncio.wait(self._moving, timeout=seconds)

    async def close(self) -> None:
        """Save what is left to save, and stop all tasks; no event comes afterwards."""
        self._timers.close()
        await self._commits.settle(SAVE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._commits.close()

    def _step(self, owned: Sequence[Owned], heard: tuple[TrainerId | None, Event] | None) -> Step:
        saves = [
            (item.owner, item.effect) for item in owned if item.owner is not None and isinstance(item.effect, Save)
        ]
        # Updates of peers change nothing about a model; later events do, so it is looked at now.
        changed = {owner for owner, save in saves if not save.updates}
        models = [model for owner in sorted(changed) if (model := self._registry.held_model(owner)) is not None]
        shown = [
            item
            for item in owned
            if not (_begins_at_once(item.effect) or isinstance(item.effect, SetTimer | CancelTimer | Save))
        ]
        return Step(saves, models, shown, heard)

    async def _save_all(self, steps: Sequence[Step]) -> None:
        """Save what these steps need saved, with one save for each job."""
        was_well, saves = not self.saver.trouble, [save for step in steps for save in step.saves]
        for trainer in dict.fromkeys(owner for owner, _ in saves):
            models = await self._news(
                [model for step in steps for model in step.models if model.trainer == trainer]
            )
            wanted = [save for owner, save in saves if owner == trainer]
            if await self._save(trainer, wanted, models):
                self._registry.mark_saved(models)
        if was_well and self.saver.trouble:
            self._spawn(self._mend())

    async def _save(self, owner: TrainerId, saves: Sequence[Save], models: Sequence[SelectedModel]) -> bool:
        return await self.saver.save(owner, *saves, models=[model.to_keep for model in models])

    async def _news(self, models: Sequence[SelectedModel]) -> Sequence[SelectedModel]:
        try:
            return await self._registry.unsaved(models)
        except LocalError as exc:
            self.saver.failed(str(exc))
            return ()

    async def _finish(self, step: Step) -> Packet | None:
        answer = self._show(step)
        if step.heard is not None:
            await self.saver.ensure_saved(*step.heard)
        return answer

    def _show(self, step: Step) -> Packet | None:
        """Perform what others may see, and return the answer.

        Raises:
            PeerError: the answer is a refusal.
        """
        answer, refusal = None, None
        for item in step.effects:
            if isinstance(item.effect, Answer):
                answer = Packet(item.effect.message, item.effect.params)
            elif isinstance(item.effect, Refuse):
                refusal = item.effect.error
            elif item.owner is None or isinstance(item.effect, Publish):
                self._for_anyone(item)
            else:
                self._for_job(item.owner, item)
        if refusal is not None:
            raise refusal
        return answer

    async def _mend(self) -> None:
        while self.saver.trouble:
            await asyncio.sleep(RETRY_SECONDS)
            await self.saver.retry()

    def _for_anyone(self, item: Owned) -> None:
        match item.effect:
            case SetTimer() as effect:
                self._timers.set(item.owner, effect)
            case CancelTimer(name):
                self._timers.cancel(item.owner, name)
            case Publish(kind, text, data):
                log.info("%s%s", f"{item.owner}: " if item.owner else "", text, extra={"job": item.owner})
                self._feed.publish(kind, text, item.owner or "", data)
                if kind.startswith("peer_") and item.owner is None:
                    self._spawn(self.saver.save_peers(self._outbox.peers(), self._outbox.keys()))
            case SendAnnounce() as effect:
                self._spawn(self._outbox.announce(effect))
            case SendProbe() as effect:
                self._move(self._outbox.probe(effect))
            case KeepIncarnation(incarnation):
                self._spawn(self.saver.keep_incarnation(incarnation))
            case effect:
                raise IllegalStep(f"the membership cannot ask for {type(effect).__name__}")

    def _for_job(self, owner: TrainerId, item: Owned) -> None:
        match item.effect:
            case CancelWork() as effect:
                self._compute.cancel(owner, effect)
            case Train() as effect:
                self._later(owner, self._compute.train(owner, effect))
            case Fold() as effect:
                self._spawn(self._compute.fold(owner, effect))
            case Average() as effect:
                self._later(owner, self._compute.average(owner, effect))
            case SecureStep(key, attempt, MaskUpdate()) if self.saver.is_unsaved(owner):
                failed = StepFailed(text("its update could not be saved here: {error}", self.saver.trouble))
                self._deliver(owner, SecureStepDone(key, attempt, failed))
            case SecureStep() as effect:
                self._spawn(self._does_step(owner, effect))
            case Evaluate() as effect:
                self._later(owner, self._compute.evaluate(owner, effect))
            case OpenEpoch() | Talk() as effect:
                self._later(owner, self._compute.take_turn(owner, effect))
            case ComputeOutputs() | ComputePrediction() as effect:
                self._later(owner, self._compute.predict(owner, effect))
            case TellPrediction() as effect:
                self._predictions.end(effect)
            case Fetch() as effect:
                self._move(self._ends(owner, self._outbox.fetch(owner, effect)))
            case FetchSegments() as effect:
                self._move(self._fetch_segments(owner, effect))
            case FetchAlso() as effect:
                self._move(self._outbox.fetch_also(owner, effect))
            case Send() as effect:
                self._move(self._outbox.send(owner, self.saver.allowed(owner, effect)))
            case effect:
                raise IllegalStep(f"a job cannot ask for {type(effect).__name__}")

    def _later(self, owner: TrainerId, work: Coroutine[Any, Any, Event]) -> None:
        self._spawn(self._ends(owner, work))

    async def _ends(self, owner: TrainerId, work: Coroutine[Any, Any, Event]) -> None:
        self._deliver(owner, await work)

    async def _fetch_segments(self, owner: TrainerId, effect: FetchSegments) -> None:
        for event in await self._outbox.fetch_segments(owner, effect):
            self._deliver(owner, event)

    async def _does_step(self, owner: TrainerId, effect: SecureStep) -> None:
        if (event := await self._compute.secure_step(owner, effect)) is not None:
            self._deliver(owner, event)

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
