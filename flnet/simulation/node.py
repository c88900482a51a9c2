"""One node of a simulated mesh: its core, line and keeper are the real ones, all else is simulated."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

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
from flnet.events import Event, RolledBack, TimerFired
from flnet.messages import Packet, VersionReply
from flnet.node.core import NodeCore, Owned
from flnet.node.keeper import RETRY_SECONDS, Keeper
from flnet.node.line import Line, Step
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId, Update
from flnet.simulation.disk import Disk, Pause
from flnet.simulation.local_clock import LocalClock
from flnet.simulation.tasks import Died, Promise, Tasks
from flnet.simulation.work import THRESHOLD, accuracy
from flnet.store import SavedJob

if TYPE_CHECKING:
    from flnet.simulation.cluster import Cluster

TRAINER = TrainerId("SIMULATED")
AT_ONCE = (CancelWork, Train, Fold, Average, Evaluate, SetTimer, CancelTimer)  # before anything is saved


Answered = Callable[[Packet | PeerError | Died | None], None]


def nobody(_: object) -> None:
    """Whoever waits for no answer."""


class SimulatedNode:
    """One node of the cluster: its core, and who performs what it asks for.

    Attributes:
        job: its only one.
        slowness: how many times longer its trainings take.
        shelf: the models that it held, for people who go back to one.
    """

    def __init__(self, core: NodeCore, cluster: Cluster) -> None:
        self.core, self.job = core, core.jobs[TRAINER]
        self.address = core.me.address
        self.id = PeerId(core.me.id)
        self._cluster = cluster
        self.local = LocalClock(cluster.clock)
        self.disk = Disk(self._save_times)
        self.keeper = Keeper(self.disk, self._tells)
        self.sums: dict[RoundKey, list[Update]] = {}  # what was folded in rounds that are not averaged yet
        self.spoilt: dict[RoundKey, list[Update]] = {}  # what sums held that have to be made again
        self.shelf: dict[Digest, RolledBack] = {}
        self.slowness = 1.0
        self.is_dead = False
        self.is_busy = False  # a round is open, as the cluster counts it
        self._inbox: deque[tuple[TrainerId | None, Event, Answered]] = deque()
        self._tasks = Tasks(cluster.clock)
        self._line = Line(self._save, self._finish, self._tasks.spawn)
        self._stalls = 0

    @property
    def saved(self) -> SavedJob:
        """What its disk holds."""
        return self.disk.saved

    @saved.setter
    def saved(self, saved: SavedJob) -> None:
        self.disk.saved = saved

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
        """Take an event when its turn comes, and hand on the answer to it, or the refusal."""
        if self.is_dead:
            answered(Died())
        elif self._stalls or self._line.is_long or self._inbox:
            self._inbox.append((owner, event, answered))
        else:
            self._take(owner, event, answered)

    def stall(self, seconds: float) -> None:
        """Its loop stands still for so long: it hears nothing, its timers are late, and so is what it saves."""
        self._stalls += 1
        self.local.stop()
        self._tasks.stop()
        self._cluster.clock.after(seconds, self._wake)

    def end(self) -> None:
        """It was killed: nothing that it has under way comes to an end."""
        self.is_dead = True
        self.local.close()
        self._tasks.close()
        self._line.close()
        while self._inbox:
            self._inbox.popleft()[2](Died())
        self._cluster.notes(self, is_busy=False)

    def _wake(self) -> None:
        self._stalls -= 1
        if self.is_dead or self._stalls:
            return
        came, self._inbox = self._inbox, deque()
        self._stalls = 1  # late timers stand in line before what came meanwhile
        self.local.go_on()
        self._stalls = 0
        self._inbox += came
        self._tasks.go_on()
        self._take_next()

    def _take_next(self) -> None:
        while self._inbox and not (self._stalls or self.is_dead or self._line.is_long):
            self._take(*self._inbox.popleft())

    def _take(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Pass an event to the core and perform what it asks for, in the order of flnet.node.perform."""
        try:
            owned = self.core.hear(owner, event)
        except PeerError as exc:
            answered(exc)
            return
        saves, shown = self._begin(owned)
        if saves:
            self._look_at(owned)
        ledger, state = self._cluster.ledger, self.job.state
        ledger.made(state)
        number, taken = state.number, None if owner is None else ledger.takes(state, event)

        def kept(answer: Packet | None) -> None:
            ledger.look(self.id, number)
            if answer is not None and isinstance(answer.message, VersionReply):
                ledger.tells(self.id, answer.message.round, answer.message)
            if taken is not None:
                ledger.acknowledges(self.id, taken, self.saved)
            answered(answer)
            if self._inbox:
                self._take_next()

        if saves or self.keeper.trouble or not self._line.is_empty:
            promise = Promise(kept, lambda why: self._broken(why, answered))
            self._line.add(Step(saves, (), shown, (owner, event), cast(Future[Packet | None], promise)))
        else:
            kept(self._show(shown) if shown else None)
        if owner is not None or owned:
            self._cluster.notes(self, self.job.busy)

    def _begin(self, owned: Sequence[Owned]) -> tuple[list[tuple[TrainerId, Save]], list[Owned]]:
        """Begin what nobody else sees; what is to be saved, and then what is to be shown."""
        saves: list[tuple[TrainerId, Save]] = []
        shown = []
        for item in owned:
            effect = item.effect
            if isinstance(effect, AT_ONCE):
                self._perform(item.owner, effect)
            elif isinstance(effect, Save) and item.owner is not None:
                saves.append((item.owner, effect))
            else:
                shown.append(item)
        return saves, shown

    async def _save(self, steps: Sequence[Step]) -> None:
        """Keep what these steps want kept, as one."""
        was_well = not self.keeper.trouble
        await self.keeper.save(TRAINER, *(save for step in steps for _, save in step.saves))
        if was_well and self.keeper.trouble:
            self._tasks.spawn(self._mend(), background=True)

    async def _finish(self, step: Step) -> Packet | None:
        answer = self._show(step.effects)
        if step.heard is not None:
            await self.keeper.must_be_kept(*step.heard)
        return answer

    def _show(self, shown: Sequence[Owned]) -> Packet | None:
        """Perform what others may see; the answer among it."""
        answer = None
        for item in shown:
            effect = item.effect
            if isinstance(effect, Answer):
                answer = Packet(effect.message, effect.params)
            elif isinstance(effect, Send) and item.owner is not None:
                self._perform(item.owner, self.keeper.allowed(item.owner, effect))
            else:
                self._perform(item.owner, effect)
        return answer

    def _broken(self, why: Exception, answered: Answered) -> None:
        """A step has no answer: it is refused, its node was killed, or there is a bug."""
        if not isinstance(why, PeerError | Died):
            raise why
        answered(why)
        self._take_next()

    def _look_at(self, owned: Sequence[Owned]) -> None:
        """Note the model that the job holds now, and check why, if it is a peer's."""
        effects, state = [item.effect for item in owned], self.job.state
        if state.model is not None and state.model.round >= 0:
            held = state.model
            self.shelf[held.shared.digest] = RolledBack(held.shared, Params(), held.round, held.contributors)
        told = [e.data["round"] for e in effects if isinstance(e, Publish) and e.kind == "exchanged"]
        if not told:
            return
        taken = next(e.params for e in effects if isinstance(e, Save) and e.params is not None)
        records = [*state.history, *([state.record] if state.record else [])]
        left = next(r.digest for r in reversed(records) if r.key.number == told[0] and r.digest is not None)
        before, after = accuracy(self.id, left), accuracy(self.id, taken.digest)
        self._cluster.ledger.adopts(self.id, left, before, after, THRESHOLD)

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        cluster = self._cluster
        match effect:
            case Publish(_, text):
                cluster.publishes(self, text)
            case CancelTimer(name):
                self.local.cancel((owner, name))
            case SetTimer(name, seconds, margin):
                wait = seconds + (cluster.rng.random() * margin if margin else 0.0)
                self.local.set((owner, name), wait, self._fires(owner, name), background=owner is None)
            case SendProbe():
                cluster.calls.probe(self, effect)
            case Send() if owner is not None:
                cluster.calls.send(self, owner, effect)
            case SendAnnounce():
                cluster.calls.announce(self, effect)
            case Fetch() if owner is not None:
                cluster.calls.fetch(self, owner, effect)
            case Fold(key, updates):
                self.sums.setdefault(key, []).extend(updates)
            case Train() | Average() | Evaluate():
                cluster.begins(self, owner, effect)
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

    async def _mend(self) -> None:
        while self.keeper.trouble:
            await Pause(RETRY_SECONDS)
            await self.keeper.retry()
