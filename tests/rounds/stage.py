"""A few jobs and the messages between them; what happens next is picked by the test, not by a clock.

Averages and measurements end at once, messages come across as soon as they are delivered. Time passes only when a
test says so, or (in `run`) when nothing else is left to happen, as if everything else were quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.errors import PeerError
from flnet.node.inbound import claim_of, to_event
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import (
    Answer,
    Average,
    CancelTimer,
    Effect,
    Evaluate,
    Fetch,
    Refuse,
    Send,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    Averaged,
    ClaimAnswered,
    Evaluated,
    Event,
    Fetched,
    FetchFailed,
    PeerLost,
    PeerSeen,
    RoundTriggered,
    SendFailed,
    SendRefused,
    TimerFired,
    Trained,
)
from flnet.protocol.messages import JobMessage, Packet
from flnet.protocol.updates import RoundKey
from flnet.rounds.job import Job
from tests.rounds.helpers import prepared, settings

T = TrainerId("T")


class Stage:
    """Jobs that know each other; a name is one letter."""

    def __init__(self, names: Sequence[str] = "abc") -> None:
        self.jobs: dict[str, Job] = {}
        self.due: list[Callable[[], None]] = []
        self.timers: dict[tuple[str, str], float] = {}
        self.now = 0.0
        self.cuts: set[frozenset[str]] = set()
        for name in names:
            self.join(name)

    def join(self, name: str) -> None:
        """A node comes, and everyone meets it."""
        self.jobs[name] = Job(settings(name))
        self.tell(name, prepared(w=(ord(name), 0)))
        for other in sorted(self.jobs.keys() - {name}):
            self.meet(name, other)

    def meet(self, one: str, other: str) -> None:
        """Both know that the other is there."""
        self.tell(one, PeerSeen(PeerId(other)))
        self.tell(other, PeerSeen(PeerId(one)))

    def trigger(self, name: str, rounds: int = 1) -> None:
        """A person asks for rounds."""
        self.tell(name, RoundTriggered(rounds))

    def run(self, order: Sequence[int] = ()) -> None:
        """Until nothing is left: `order` picks among what is due; after it, first come first served."""
        picks: Iterator[int] = iter(order)
        while self.due or self.timers:
            if self.due:
                self.due.pop(next(picks, 0) % len(self.due))()
            else:
                self.fire_next()

    def fire_next(self) -> None:
        """Let the time pass until the next timer."""
        name, timer = min(self.timers, key=lambda made: self.timers[made])
        self.now = self.timers.pop((name, timer))
        self.tell(name, TimerFired(timer))

    def tell(self, name: str, event: Event) -> list[Effect]:
        """An event for one job, and what follows of it.

        Raises:
            PeerError: it was refused.
        """
        effects = self.jobs[name].receive(event)
        for effect in effects:
            self._perform(name, effect)
        return effects

    def train(self, name: str, effect: Train) -> None:
        """Training ends as soon as it is that event's turn."""
        self.soon(name, learnt(name, effect))

    def soon(self, name: str, event: Event) -> None:
        """An event that is due."""

        def happen() -> None:
            self.tell(name, event)

        self.due.append(happen)

    def carry(self, sender: str, to: str, packet: Packet) -> None:
        """Take a message across."""
        self.due.append(lambda: self.arrive(sender, to, packet))

    def arrive(self, sender: str, to: str, packet: Packet) -> None:
        """Deliver a message and take its answer back; over a cut way, its sender learns that the other is gone."""
        message = packet.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or ""))
        if frozenset((sender, to)) in self.cuts:
            self.soon(sender, SendFailed(PeerId(to), message.path, key, "no way"))
            self.soon(sender, PeerLost(PeerId(to), "no way"))
            return
        try:
            effects = self.tell(to, to_event(packet, "127.0.0.1")[1])
            refusal = next((effect.error for effect in effects if isinstance(effect, Refuse)), None)
        except PeerError as exc:
            effects, refusal = [], exc
        if refusal is not None:
            current = refusal.details().get("round")
            number = current if isinstance(current, int) else None
            words = (refusal.status, refusal.code, str(refusal), number)
            self.soon(sender, SendRefused(PeerId(to), message.path, key, *words))
        for answer in (effect for effect in effects if isinstance(effect, Answer)):
            self.soon(sender, ClaimAnswered(claim_of(message.round, Packet(answer.message, answer.params))))

    def _perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Train():
                self.train(name, effect)
            case Average(key, updates):
                model = self.jobs[name].held.model
                assert model is not None
                self.soon(
                    name,
                    Averaged(key, fed_avg().merge(None, RoundStart(model.schema, model.shared), updates).params),
                )
            case Fetch(key, peer, digest):
                held = None if frozenset((name, peer)) in self.cuts else self.jobs[peer].held.find(digest)
                gone = FetchFailed(key, peer, digest, "no way")
                self.soon(name, gone if held is None else Fetched(key, peer, digest, held))
            case Evaluate(key, _, shared):
                self.soon(name, Evaluated(key, shared.digest, 0.5))
            case SetTimer(timer, seconds):
                self.timers[name, timer] = self.now + seconds
            case CancelTimer(timer):
                self.timers.pop((name, timer), None)
            case Send(to, message, params):
                for other in to:
                    self.carry(name, other, Packet(message, params))


def learnt(name: str, effect: Train) -> Trained:
    """What a node learns: every node something of its own."""
    return Trained(effect.key, Params({"w": effect.params["w"] + ord(name)}), ord(name), 0.5)
