"""One node of a simulated mesh: its core and its keeper are the real ones; loop, disk and clock are simulated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from flnet.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    Effect,
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
from flnet.errors import PeerError
from flnet.events import Event, RolledBack, TimerFired, UpdateOffered, UpdateReceived
from flnet.jobs import Job
from flnet.messages import Packet
from flnet.node.core import NodeCore, Owned
from flnet.node.keeper import RETRY_SECONDS, Keeper
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId, Update
from flnet.simulation.disk import Disk
from flnet.simulation.local_clock import LocalClock
from flnet.simulation.work import THRESHOLD, accuracy
from flnet.store import SavedJob

if TYPE_CHECKING:
    from flnet.simulation.cluster import Cluster

TRAINER = TrainerId("SIMULATED")
WORK = (CancelWork, Train, Fold, Average, Evaluate)  # begins before anything is saved


class Died(Exception):
    """The node was killed before it answered."""


Answered = Callable[[Packet | PeerError | Died | None], None]
Step = tuple[TrainerId | None, Event, Answered]


def nobody(_: object) -> None:
    """Whoever waits for no answer."""


class SimulatedNode:
    """One node of the cluster: its core, and who performs what it asks for.

    Attributes:
        slowness: how many times longer its trainings take.
        shelf: the models that it held, for people who go back to one.
    """

    def __init__(self, core: NodeCore, cluster: Cluster) -> None:
        self.core = core
        self.address = core.me.address
        self.id = PeerId(core.me.id)
        self._cluster = cluster
        self.local = LocalClock(cluster.clock)
        self.disk = Disk(self._save_times)
        self.keeper = Keeper(self.disk, self._tells)
        self.sums: dict[RoundKey, list[Update]] = {}  # what was folded in rounds that are not averaged yet
        self.shelf: dict[Digest, RolledBack] = {}
        self.slowness = 1.0
        self.is_dead = False
        self.is_busy = False  # a round is open, as the cluster counts it
        self._line: deque[Step] = deque()
        self._step: Coroutine[float, None, None] | None = None
        self._waiting: Answered = nobody  # for the step that waits for the disk
        self._stalls = 0
        self._is_held = False  # that step could go on, but the loop stands still

    @property
    def saved(self) -> SavedJob:
        """What its disk holds."""
        return self.disk.saved

    @saved.setter
    def saved(self, saved: SavedJob) -> None:
        self.disk.saved = saved

    @property
    def job(self) -> Job:
        """The node's only job."""
        return self.core.jobs[TRAINER]

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """An event that nobody waits for; a refusal ends there, and so does all when the node was killed."""
        self.ask(owner, event, nobody)

    def hear(self, owner: TrainerId | None, event: Event) -> Packet | None:
        """An event of a person: its answer, None if it has to wait.

        Raises:
            PeerError: it was refused.
        """
        answers: list[Packet | PeerError | Died | None] = []
        self.ask(owner, event, answers.append)
        answer = answers[0] if answers else None
        if isinstance(answer, PeerError):
            raise answer
        return answer if isinstance(answer, Packet) else None

    def ask(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Put an event in line, and hand on the answer to it, or the refusal."""
        if self.is_dead:
            answered(Died())
        elif self._step is not None or self._stalls or self._line:
            self._line.append((owner, event, answered))
        else:
            self._take(owner, event, answered)

    def stall(self, seconds: float) -> None:
        """Its loop stands still for so long: it hears nothing, and its timers are late."""
        self._stalls += 1
        self.local.stop()
        self._cluster.clock.after(seconds, self._wake)

    def end(self) -> None:
        """It was killed: nothing that it has under way comes to an end."""
        self.is_dead = True
        self.local.close()
        if self._step is not None:
            self._step.close()
            self._step = None
            self._waiting(Died())
        while self._line:
            self._line.popleft()[2](Died())
        self._cluster.notes(self, is_busy=False)

    def _wake(self) -> None:
        self._stalls -= 1
        if self.is_dead or self._stalls:
            return
        came, self._line = self._line, deque()
        self._stalls = 1  # late timers stand in line before what came meanwhile
        self.local.go_on()
        self._stalls = 0
        self._line += came
        if self._is_held:
            self._is_held = False
            self._go_on()
        else:
            self._next()

    def _take(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        self._step, self._waiting = self._handle(owner, event, answered), answered
        self._go_on()

    def _go_on(self) -> None:
        if self._step is None:
            return
        if self._stalls:
            self._is_held = True
            return
        try:
            seconds = self._step.send(None)
        except StopIteration:
            self._step = None
            self._next()
        else:
            self._cluster.clock.after(seconds, self._go_on)

    def _next(self) -> None:
        if self._line and self._step is None and not self._stalls:
            self._take(*self._line.popleft())

    async def _handle(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Pass an event to the core and perform what it asks for, in the order of flnet.node.perform."""
        try:
            owned = self.core.hear(owner, event)
            self._look_at_adoption(owned)
            answer = await self._perform_all(owned)
            await self.keeper.must_be_kept(owner, event)
        except PeerError as exc:
            answered(exc)
            return
        self._cluster.ledger.look(self.id, self.core.jobs.values())
        if isinstance(event, UpdateReceived | UpdateOffered):
            self._cluster.ledger.acknowledges(self.id, self.job.state, event, self.saved)
        self._cluster.notes(self, self.job.busy)
        answered(answer)

    async def _perform_all(self, owned: Sequence[Owned]) -> Packet | None:
        answer = None
        for item in owned:
            if isinstance(item.effect, WORK):
                self._perform(item.owner, item.effect)
        for item in owned:
            match item.effect:
                case effect if isinstance(effect, WORK):
                    pass
                case Save() as effect if item.owner is not None:
                    await self._save(item.owner, effect)
                case Answer(message, params):
                    answer = Packet(message, params)
                case Send() as effect if item.owner is not None:
                    self._perform(item.owner, self.keeper.allowed(item.owner, effect))
                case effect:
                    self._perform(item.owner, effect)
        return answer

    def _look_at_adoption(self, owned: Sequence[Owned]) -> None:
        effects = [item.effect for item in owned]
        told = [e.data["round"] for e in effects if isinstance(e, Publish) and e.kind == "exchanged"]
        if not told:
            return
        taken = next(e.params for e in effects if isinstance(e, Save) and e.params is not None)
        state = self.job.state
        records = [*state.history, *([state.record] if state.record else [])]
        left = next(r.digest for r in reversed(records) if r.key.number == told[0] and r.digest is not None)
        before, after = accuracy(self.id, left), accuracy(self.id, taken.digest)
        self._cluster.ledger.adopts(self.id, before, after, THRESHOLD)

    async def _save(self, owner: TrainerId, effect: Save) -> None:
        was_well = not self.keeper.trouble
        await self.keeper.save(owner, effect)
        if was_well and self.keeper.trouble:
            self._mend_later()
        model = self.job.state.model
        if model is not None and model.round >= 0:
            back = RolledBack(model.shared, Params(), model.round, model.contributors)
            self.shelf[model.shared.digest] = back

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        cluster = self._cluster
        match effect:
            case SetTimer(name, seconds, margin):
                wait = seconds + (cluster.rng.random() * margin if margin else 0.0)
                self.local.set((owner, name), wait, self._fires(owner, name), background=owner is None)
            case CancelTimer(name):
                self.local.cancel((owner, name))
            case Send() if owner is not None:
                cluster.calls.send(self, owner, effect)
            case SendAnnounce():
                cluster.calls.announce(self, effect)
            case SendProbe():
                cluster.calls.probe(self, effect)
            case Fetch() if owner is not None:
                cluster.calls.fetch(self, owner, effect)
            case Fold(key, updates):
                self.sums.setdefault(key, []).extend(updates)
            case Train() | Average() | Evaluate():
                seconds, event = cluster.work(self, effect)
                cluster.clock.after(seconds, lambda: self.tell(owner, event))
            case Publish(_, text):
                cluster.publishes(self, text)
            case _:
                pass  # CancelWork: what it gives comes late

    def _fires(self, owner: TrainerId | None, name: str) -> Callable[[float], None]:
        return lambda late: self.tell(owner, TimerFired(name, late))

    def _save_times(self) -> tuple[float, float]:
        shortest, longest = self._cluster.weather.saving
        if longest <= 0:
            return 0.0, 0.0
        seconds, part = self._cluster.rng.uniform(shortest, longest), self._cluster.rng.random()
        return seconds * part, seconds * (1 - part)

    def _tells(self, kind: str, text: str) -> None:
        self._cluster.publishes(self, text)

    def _mend_later(self) -> None:
        self._cluster.clock.after(RETRY_SECONDS, lambda: self._run(self._mend()), background=True)

    async def _mend(self) -> None:
        await self.keeper.retry()
        if self.keeper.trouble:
            self._mend_later()

    def _run(self, beside: Coroutine[Any, None, None]) -> None:
        """Run something beside the line."""
        if self.is_dead:
            beside.close()
            return
        try:
            seconds = beside.send(None)
        except StopIteration:
            return
        self._cluster.clock.after(seconds, lambda: self._run(beside), background=True)
