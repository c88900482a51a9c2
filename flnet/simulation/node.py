"""One node of a simulated mesh. Its core, commit queue and saving are those of a real node; all else is simulated.

Its trainer has a model of seven numbers, which a training moves at random.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import cast

import numpy as np

from flnet.compute.secure_sums import SecureSums
from flnet.errors import LocalError, PeerError
from flnet.names import DEFAULT_MESH
from flnet.node.core import NodeCore, Owned
from flnet.node.performer import RETRY_SECONDS, CommitQueue, StateSaver, Step
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    Effect,
    Evaluate,
    Fetch,
    FetchSegments,
    Fold,
    KeepIncarnation,
    Publish,
    Refuse,
    Save,
    SecureStep,
    Send,
    SendAnnounce,
    SendProbe,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    Declaration,
    Event,
    Prepared,
    RolledBack,
    SecureStepDone,
    TimerFired,
    Trained,
    TrainingFailed,
)
from flnet.protocol.messages import HyperParams, Packet, VersionReply
from flnet.protocol.secure_sum import MaskUpdate, StepFailed
from flnet.protocol.updates import RoundKey, Update
from flnet.security.claims import ClaimSigner
from flnet.simulation.clock import Died, LocalClock, Pause, Promise, Tasks, VirtualClock
from flnet.simulation.invariants import Ledger, SegmentLedger
from flnet.simulation.network import Answered, Calls, SimulatedNetwork
from flnet.simulation.schedule import Faults
from flnet.store.base import SavedJob
from flnet.store.memory import MemoryStore

THRESHOLD = 0.02  # by how much a peer's model must be better to be adopted


def declared() -> Declaration:
    """The trainer's declaration."""
    return Declaration("Simulated", HyperParams(e=1, u=0.1, b=8), THRESHOLD, ("w", "b"))


def initial(index: int) -> Params:
    """Initial parameters: four weights and three biases, different on every node."""
    return Params({"w": np.full((2, 2), index, np.float32), "b": np.zeros(3, np.float32)})


def prepared(index: int) -> Event:
    """The event of a trainer that has been loaded."""
    return Prepared(declared(), initial(index))


def train(rng: Random, faults: Faults, effect: Train, slowness: float) -> tuple[float, Event]:
    """How many seconds a training takes, and its result."""
    seconds = rng.uniform(*faults.training) * slowness
    if rng.random() < faults.fail_training:
        return seconds, TrainingFailed(effect.key, "the weather")
    pull = np.float32(rng.uniform(-1, 1))
    trained = Params({name: value * np.float32(0.9) + pull for name, value in effect.params.items()})
    return seconds, Trained(effect.key, trained, rng.randint(1, 500), rng.random(), seconds=seconds)


def accuracy(node: PeerId, digest: Digest) -> float:
    """The accuracy of a model on a node's own test data: arbitrary, but always the same."""
    return zlib.crc32(f"{node} {digest}".encode()) / 2**32


TRAINER = TrainerId("SIMULATED")
AT_ONCE = (
    CancelWork,
    Train,
    Fold,
    Average,
    SecureStep,
    Evaluate,
    SetTimer,
    CancelTimer,
)  # performed before anything is saved


def _is_update(effect: Effect) -> bool:
    return isinstance(effect, SecureStep) and isinstance(effect.request, MaskUpdate)


class Disk(MemoryStore):
    """The disk of a node, with the state of its one job: it survives a crash, takes time, and can break.

    Attributes:
        saved: what a restart finds.
        incarnation: with which a restart begins.
        fails: whether saves fail at present.
        has_failed: whether any save has failed since the node started.
    """

    def __init__(self, takes: Callable[[], tuple[float, float]]) -> None:
        """Args:
        takes: seconds until saved data would survive a crash, and from then until the node is told so.
        """
        super().__init__()
        self.saved = SavedJob()
        self.incarnation = 0
        self.fails = self.has_failed = False
        self._takes = takes
        self._requested = self._done = 0  # saves by number: a later one includes an earlier one that failed

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Save the state of the job.

        Raises:
            LocalError: the disk is broken.
        """
        before, after = self._takes()
        self._requested += 1
        number = self._requested
        await Pause(before)
        if self.fails:
            self.has_failed = True
            raise LocalError("no space is left on the disk")
        if number > self._done:  # a real store has one thread, so no save overtakes another
            self.saved, self._done = self.saved.then(job), number
        await Pause(after)


class Environment(ABC):
    """The environment that the nodes of one simulation share.

    Attributes:
        calls: carries what nodes send each other.
        ledger: checks the invariants.
    """

    clock: VirtualClock
    rng: Random
    network: SimulatedNetwork
    calls: Calls
    ledger: Ledger

    @property
    def faults(self) -> Faults:
        """The random faults at present."""
        return self.network.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self.network.faults = faults

    @abstractmethod
    def accuracy_of(self, node: PeerId, digest: Digest) -> float:
        """The accuracy of a model on the test data of a node."""

    @abstractmethod
    def mesh_average(
        self, node: SimulatedNode, number: int, updates: Sequence[Update], base: Params
    ) -> tuple[Params, Collection[PeerId]]:
        """What a node of a full mesh makes of whole updates in a round from a base, and whose it leaves out."""

    @abstractmethod
    def begins(self, node: SimulatedNode, owner: TrainerId | None, effect: Train | Average | Evaluate) -> None:
        """Start a piece of work for a node, which is told the result later."""

    @abstractmethod
    def does_step(self, node: SimulatedNode, owner: TrainerId | None, effect: SecureStep) -> None:
        """Do a step of a secure sum for a node, which is told the result later."""

    @abstractmethod
    def is_now_busy(self, node: SimulatedNode, is_busy: bool) -> None:
        """A node reports whether it has an open round."""

    @abstractmethod
    def publishes(self, node: SimulatedNode, text: str) -> None:
        """A node publishes an event."""


class SimulatedKey:
    """A key pair of which both halves are the same: a simulated node signs with its own one only."""

    def __init__(self, key: str) -> None:
        self.text = key

    def sign(self, data: bytes) -> bytes:
        """64 bytes that depend on the key and the data."""
        return hashlib.sha512(self.text.encode() + data).digest()

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        """Whether this key made the signature."""
        return SimulatedKey(key).sign(data) == signature


class SimulatedNode:
    """A node of a simulated mesh: hands events to its core, and performs the effects that the core asks for.

    Attributes:
        job: its only job.
        slowness: factor by which its trainings take longer.
        models: models that it has held, which a rollback can return to.
        sums: updates that were added up in rounds that have not been averaged yet.
        spoilt: updates of sums that have to be computed again.
        is_busy: whether it has an open round, as its environment counts.
    """

    def __init__(self, core: NodeCore, environment: Environment) -> None:
        self.core, self.job = core, core.jobs[TRAINER]
        self.address = core.me.address
        self.id = PeerId(core.me.id)
        key, members = core.members.key, core.members
        self.claims = ClaimSigner(SimulatedKey(key), members, DEFAULT_MESH) if key is not None else None
        self._environment = environment
        self.local = LocalClock(environment.clock)
        self.disk = Disk(self._save_times)
        self.saver = StateSaver(self.disk, lambda kind, text: environment.publishes(self, text))
        self.sums: dict[RoundKey, list[Update]] = {}
        self.spoilt: dict[RoundKey, list[Update]] = {}
        self.models: dict[Digest, RolledBack] = {}
        self.secrets = SecureSums(self.id, DEFAULT_MESH, environment.rng.randbytes)
        self.slowness = 1.0
        self.is_dead = False
        self.is_busy = False
        self._inbox: deque[tuple[TrainerId | None, Event, Answered]] = deque()
        self._tasks = Tasks(environment.clock)
        self._queue = CommitQueue(self._save, self._finish, self._tasks.spawn)
        self._stalls = 0

    @property
    def saved(self) -> SavedJob:
        """The state on its disk."""
        return self.disk.saved

    @saved.setter
    def saved(self, saved: SavedJob) -> None:
        self.disk.saved = saved

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """Pass an event on without waiting for its reply or refusal."""
        self.ask(owner, event, lambda reply: None)

    def hear(self, owner: TrainerId | None, event: Event) -> Packet | None:
        """Hand over a user's event, and return the reply; None if the event has to wait.

        Raises:
            PeerError: the event was refused.
        """
        replies: list[Packet | PeerError | Died | None] = []
        self.ask(owner, event, replies.append)
        reply = replies[0] if replies else None
        if isinstance(reply, PeerError):
            raise reply
        return reply if isinstance(reply, Packet) else None

    def ask(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Handle an event when its turn comes, and pass on the reply or the refusal."""
        if self.is_dead:
            answered(Died())
        elif self._stalls or self._queue.is_long or self._inbox:
            self._inbox.append((owner, event, answered))
        else:
            self._handle(owner, event, answered)

    def stall(self, seconds: float) -> None:
        """Stop its event loop for a while: it handles nothing, and its timers and saves are late."""
        self._stalls += 1
        self.local.stop()
        self._tasks.stop()
        self._environment.clock.after(seconds, self._end_stall)

    def end(self) -> None:
        """Kill it: nothing that is in progress comes to an end."""
        self.is_dead = True
        self.local.close()
        self._tasks.close()
        self._queue.close()
        while self._inbox:
            self._inbox.popleft()[2](Died())
        self._environment.is_now_busy(self, False)

    def _end_stall(self) -> None:
        self._stalls -= 1
        if self.is_dead or self._stalls:
            return
        waiting, self._inbox = self._inbox, deque()
        self._stalls = 1  # late timers come before what arrived meanwhile
        self.local.resume()
        self._stalls = 0
        self._inbox += waiting
        self._tasks.resume()
        self._handle_next()

    def _handle_next(self) -> None:
        while self._inbox and not (self._stalls or self.is_dead or self._queue.is_long):
            self._handle(*self._inbox.popleft())

    def _handle(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Pass an event to the core and perform what it asks for, in the order of flnet.node.performer."""
        if isinstance(event, Trained):
            self._environment.ledger.trained(self.job, event)
        try:
            owned = self.core.hear(owner, event)
        except PeerError as exc:
            answered(exc)
            return
        saves, visible = self._begin(owned)
        if saves:
            self._check_model(owned)
        ledger, job = self._environment.ledger, self.job
        ledger.stepped(job)
        number, accepted = job.number, None if owner is None else ledger.accepted(job, event)

        def saved(reply: Packet | PeerError | None) -> None:
            ledger.entered_round(self.id, number)
            if isinstance(reply, Packet) and isinstance(reply.message, VersionReply):
                ledger.told_version(self.id, reply.message.round, reply.message)
            if accepted is not None:
                ledger.acknowledged_update(self.id, accepted, self.saved)
            answered(reply)
            if self._inbox:
                self._handle_next()

        if saves or self.saver.trouble or not self._queue.is_empty:
            promise = Promise(saved, lambda reason: self._refuse(reason, answered))
            self._queue.add(Step(saves, (), visible, (owner, event), cast(Future[Packet | None], promise)))
        else:
            saved(self._show(visible) if visible else None)
        if owner is not None or owned:
            self._environment.is_now_busy(self, self.job.busy)

    def _begin(self, owned: Sequence[Owned]) -> tuple[list[tuple[TrainerId, Save]], list[Owned]]:
        """Perform the effects that nobody else sees; return the saves, and the effects that others may see then."""
        saves: list[tuple[TrainerId, Save]] = []
        visible = []
        for item in owned:
            effect = item.effect
            if isinstance(effect, AT_ONCE) and not _is_update(effect):
                self._perform(item.owner, effect)
            elif isinstance(effect, Save) and item.owner is not None:
                saves.append((item.owner, effect))
            else:
                visible.append(item)
        return saves, visible

    async def _save(self, steps: Sequence[Step]) -> None:
        """Save what these steps ask for, as one."""
        worked = not self.saver.trouble
        await self.saver.save(TRAINER, *(save for step in steps for _, save in step.saves))
        if worked and self.saver.trouble:
            self._tasks.spawn(self._retry_saving(), background=True)

    async def _finish(self, step: Step) -> Packet | None:
        reply = self._show(step.effects)
        if step.heard is not None:
            await self.saver.ensure_saved(*step.heard)
        if isinstance(reply, PeerError):
            raise reply
        return reply

    def _show(self, visible: Sequence[Owned]) -> Packet | PeerError | None:
        """Perform what others may see, and return the reply if there is one."""
        reply: Packet | PeerError | None = None
        for item in visible:
            effect = item.effect
            if isinstance(effect, Answer):
                reply = Packet(effect.message, effect.params)
            elif isinstance(effect, Refuse):
                reply = effect.error
            elif isinstance(effect, Send) and item.owner is not None:
                self._perform(item.owner, self.saver.allowed(item.owner, effect))
            else:
                self._perform(item.owner, effect)
        return reply

    def _refuse(self, reason: Exception, answered: Answered) -> None:
        """A step has no reply: it is refused, its node was killed, or there is a bug."""
        if not isinstance(reason, PeerError | Died):
            raise reason
        answered(reason)
        self._handle_next()

    def _check_model(self, owned: Sequence[Owned]) -> None:
        """Remember the model that the job holds now; if it was adopted from a peer, check that it is better."""
        effects, model = [item.effect for item in owned], self.job.held.model
        environment, ledger = self._environment, self._environment.ledger
        if model is not None and model.round >= 0:
            self.models[model.shared.digest] = RolledBack(model.shared, Params(), model.round, model.contributors)
        for effect in effects:
            if isinstance(effect, Publish) and effect.kind == "averaged" and isinstance(ledger, SegmentLedger):
                made = self.job.record_of(effect.data["round"])
                assert made is not None
                ledger.joined(self.job, made, partial(environment.mesh_average, self, made.key.number))
            if isinstance(effect, Publish) and effect.kind == "average_taken":
                ledger.took_average(self.id, effect.data["round"], effect.data["digest"])
        exchanged = [e.data["round"] for e in effects if isinstance(e, Publish) and e.kind == "exchanged"]
        if not exchanged:
            return
        adopted = next(e.params for e in effects if isinstance(e, Save) and e.params is not None)
        record = self.job.record_of(exchanged[0])
        assert record is not None and record.digest is not None
        own = record.digest
        before, after = environment.accuracy_of(self.id, own), environment.accuracy_of(self.id, adopted.digest)
        ledger.adopted(self.id, own, before, after, THRESHOLD)

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        environment = self._environment
        match effect:
            case Publish(_, text):
                environment.publishes(self, text)
            case CancelTimer(name):
                self.local.cancel((owner, name))
            case SetTimer(name, seconds, margin):
                wait = seconds + (environment.rng.random() * margin if margin else 0.0)
                self.local.set((owner, name), wait, self._fires(owner, name), background=owner is None)
            case SendProbe():
                environment.calls.probe(self, effect)
            case KeepIncarnation(incarnation):
                self.disk.incarnation = incarnation
            case Send() if owner is not None:
                environment.calls.send(self, owner, effect)
            case SendAnnounce():
                environment.calls.announce(self, effect)
            case Fetch() if owner is not None:
                environment.calls.fetch(self, owner, effect)
            case FetchSegments() if owner is not None:
                environment.calls.fetch_segments(self, owner, effect)
            case Fold(key, updates):
                self.sums.setdefault(key, []).extend(updates)
            case SecureStep(key, attempt, MaskUpdate()) if owner is not None and self.saver.is_unsaved(owner):
                self.tell(owner, SecureStepDone(key, attempt, StepFailed("no space")))
            case SecureStep():
                environment.does_step(self, owner, effect)
            case Train() | Average() | Evaluate():
                environment.begins(self, owner, effect)
            case _:
                pass  # CancelWork: the result comes too late

    def _fires(self, owner: TrainerId | None, name: str) -> Callable[[float], None]:
        return lambda late: self.tell(owner, TimerFired(name, late))

    def _save_times(self) -> tuple[float, float]:
        shortest, longest = self._environment.faults.saving
        if longest <= 0:
            return 0.0, 0.0
        rng = self._environment.rng
        seconds, part = rng.uniform(shortest, longest), rng.random()
        return seconds * part, seconds * (1 - part)

    async def _retry_saving(self) -> None:
        while self.saver.trouble:
            await Pause(RETRY_SECONDS)
            await self.saver.retry()
