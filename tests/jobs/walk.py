"""A random walk of one job through everything that a node, its peers and strangers can do to it.

Ends of work, timers and answers come only for what the job asked for, late or never; messages of peers hold any
round near the job's own, from any initiator, with good and bad parameters. Seeded, so every walk repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from flnet.effects import Average, CancelTimer, Effect, Evaluate, Fetch, Send, SetTimer, Train
from flnet.errors import PeerError
from flnet.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DataChanged,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    Paused,
    PeerLost,
    PeerSeen,
    Prepared,
    PrepareFailed,
    Resumed,
    RolledBack,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
)
from flnet.jobs import Job, Phase, Rules
from flnet.messages import Accuracy, ChoiceMessage, JobMessage, StartTraining
from flnet.params import Claim, Params, PeerId, RoundKey, TrainerId, Update
from tests.helpers import HYPER, params, peer
from tests.jobs.helpers import declaration

ME, LOW, HIGH = PeerId("m"), PeerId("a"), PeerId("z")
PEERS = (LOW, HIGH)
Step = tuple[Phase, type, Phase]
NAN = float("nan")


@dataclass
class Outside:
    """What the job asked for and has not been told the end of."""

    work: list[Train | Average | Evaluate | Fetch] = field(default_factory=list)
    timers: set[str] = field(default_factory=set)
    sent: list[tuple[PeerId, JobMessage]] = field(default_factory=list)

    def note(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Train() | Average() | Evaluate() | Fetch():
                    self.work.append(effect)
                case SetTimer(name):
                    self.timers.add(name)
                case CancelTimer(name):
                    self.timers.discard(name)
                case Send(to, message):
                    assert isinstance(message, JobMessage)
                    self.sent += [(peer, message) for peer in to]


class Walk:
    """One job and what may happen to it next."""

    def __init__(self, seed: int, rules: Rules | None = None, is_slow: bool = False) -> None:
        self.rng = Random(seed)
        self.choices = Random(seed) if rules else None  # of who trains; apart, as the person is
        self.job = Job(peer("m"), TrainerId("T"), rules=rules)
        for name in (ME, LOW, HIGH) if is_slow else ():
            self.job.state.paces.note(name, 50.0 if name == ME else 1.0, 1)
        self.outside = Outside()
        self.steps: set[Step] = set()
        # Walks differ in what mostly happens in them: a mix of everything at once rarely gets anywhere.
        self.chatter = self.rng.choice([0.05, 0.15, 0.4])
        self.newest_first = self.rng.choice([0.0, 0.9])  # whether ends of old work come late, or in between
        self.failures = self.rng.choice([0.0, 0.2, 0.5])
        self.person = Random(~seed)  # apart, so that walks without a person are the same whatever a person may do
        self.steering = self.person.choice([0.0] * 5 + [0.2])
        self.talk = [self.rng.choice([0, 1, 4]) for _ in range(7)] + [1]

    def run(self, steps: int, around: Callable[[Job, Event], list[Effect]] = Job.receive) -> set[Step]:
        """Take steps; `around` passes the event to the job, and may look before and after."""
        for event in self._events(steps):
            before = self.job.phase
            try:
                effects = around(self.job, event)
            except PeerError:
                assert self.job.phase == before
                continue
            self.outside.note(effects)
            self.steps.add((before, type(event), self.job.phase))
        return self.steps

    def _events(self, steps: int) -> Iterator[Event]:
        for _ in range(self.rng.randrange(4)):
            yield self._from_peers()
        if self.rng.random() < 0.3:
            yield PrepareFailed("no data")
            if self.rng.random() < 0.3:
                yield PrepareFailed("still no data")
            for _ in range(self.rng.randrange(4)):
                yield self._from_peers()
        if self.steering and self.person.random() < 0.5:
            yield Paused()
        by_import = self.job.phase is Phase.NO_DATA and self.newest_first > 0
        yield (DataChanged if by_import else Prepared)(declaration(), self._params())
        for _ in range(steps):
            yield self._next()

    def _next(self) -> Event:
        if self.person.random() < self.steering:
            older = RolledBack(params(w=[self.person.randrange(50), 1.0]), Params(), 0, 1, 0.5)
            return self.person.choice([SeriesStopped(), Paused(), Resumed(), older])
        if self.rng.random() < self.chatter:
            return self._from_peers()
        roll = self.rng.random()
        if roll < 0.5 and self.outside.work:
            return self._end_of_work()
        if roll < 0.6 and self.outside.timers:
            name = self.rng.choice(sorted(self.outside.timers))
            self.outside.timers.discard(name)
            return TimerFired(name)
        if roll < 0.9 and self.outside.sent:
            return self._end_of_send()
        until = "accuracy>=0.9, no-gain 3, within 9" if self.person.random() < 0.3 else None
        return RoundTriggered(self.rng.choice([1, 9]), until=until)

    def _end_of_work(self) -> Event:
        last = len(self.outside.work) - 1
        work = self.outside.work.pop(last if self.rng.random() < self.newest_first else self.rng.randint(0, last))
        fails = self.rng.random() < self.failures
        match work:
            case Train(key):
                if fails:
                    return TrainingFailed(key, "out of memory")
                spoiled = self.rng.random() < 0.1
                return Trained(key, params(w=[NAN, 1]) if spoiled else self._params(), 5, self.rng.random())
            case Average(key):
                return AveragingFailed(key, "overflow") if fails else Averaged(key, self._params())
            case Fetch(key, peer, digest):
                if fails:
                    return FetchFailed(key, peer, digest, "gone")
                return Fetched(key, peer, digest, self._params(good=0.9))
            case Evaluate(key, _, shared):
                if fails:
                    return EvaluationFailed(key, shared.digest, "killed")
                return Evaluated(key, shared.digest, self.rng.random())

    def _end_of_send(self) -> Event:
        to, message = self.outside.sent.pop(self.rng.randrange(len(self.outside.sent)))
        key = RoundKey(message.round, PeerId(message.initiator or ""))
        roll = self.rng.random()
        if roll < 0.3:
            return SendFailed(to, message.path, key, "lost")
        if roll > 0.5 and isinstance(message, Accuracy):
            return ClaimAnswered(self._claim(to, message.round))
        status, code = self.rng.choice(
            [
                (404, "no_data"),
                (422, "params_refused"),
                (409, "stale_round"),
                (409, "round_lost"),
                (503, "not_ready"),
            ]
        )
        if isinstance(message, Accuracy):
            status, code = self.rng.choice([(400, "not_comparable"), (status, code)])
        ahead = message.round + self.rng.choice([0, 1, 3]) if isinstance(message, StartTraining) else None
        return SendRefused(to, message.path, key, status, code, "words", ahead)

    def _from_peers(self) -> Event:
        who = self.rng.choice(PEERS)
        key = self._key()
        match self.rng.choices(range(8), self.talk)[0]:
            case 0:
                if self.rng.random() < 0.4:
                    offer = Update(who, key, Params(), 3)
                    return UpdateOffered(offer, self._params().digest, choice=self._choice())
                return UpdateReceived(Update(who, key, self._params(good=0.9), 3), choice=self._choice())
            case 1:
                key = RoundKey(key.number, key.initiator or who)  # a start without an initiator is its sender's
                start = self._params(good=0.9)
                sent = None if self.rng.random() < 0.4 else start
                found, before = self._choice(), key.number - 1
                return TrainingAsked(who, key, sent, HYPER, before, 2, digest=start.digest, choice=found)
            case 2:
                return DeclineReceived(who, key, "no time")
            case 3:
                return ClaimReceived(self._claim(who, key.number))
            case 4:
                return PeerLost(who, "silent")
            case 5 | 6:
                return PeerSeen(who)
            case _:
                return HyperParamsEdited({"e": 3})

    def _key(self) -> RoundKey:
        state = self.job.state
        if state.key is not None and self.rng.random() < 0.5:
            return state.key
        number = max(0, state.number + self.rng.choice([-1, 0, 0, 1, 1, 2]))
        return RoundKey(number, self.rng.choice([LOW, LOW, ME, HIGH, PeerId("")]))

    def _choice(self) -> ChoiceMessage | None:
        if self.choices is None or self.choices.random() < 0.3:
            return None
        return ChoiceMessage(members=(LOW, ME, HIGH), take=self.choices.choice([1, 2]))

    def _claim(self, who: PeerId, round: int) -> Claim:
        model = self._params(good=0.9)
        sent = None if self.rng.random() < 0.4 else model
        return Claim(who, round, self.rng.random(), model.digest, self.rng.randrange(4), sent)

    def _params(self, good: float = 1.0) -> Params:
        if self.rng.random() > good:
            return self.rng.choice([params(w=[1.0]), params(w=[NAN, 1.0]), params(v=[1.0, 2.0])])
        return params(w=[self.rng.randrange(50), 1.0])
