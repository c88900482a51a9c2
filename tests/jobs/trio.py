"""A few jobs and the messages between them, delivered in whatever order a test picks.

No clock: a timer fires only when nothing else is left to happen, as if everything else were quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flnet.effects import Answer, Average, CancelTimer, Effect, Evaluate, Send, SetTimer, Train
from flnet.errors import PeerError
from flnet.events import (
    Averaged,
    ClaimAnswered,
    Evaluated,
    Event,
    PeerSeen,
    RoundTriggered,
    SendRefused,
    TimerFired,
    Trained,
)
from flnet.jobs import Job
from flnet.messages import JobMessage, Packet
from flnet.node.translate import claim_of, to_event
from flnet.params import Params, PeerId, RoundKey, TrainerId
from flnet.strategies import fed_avg
from tests.helpers import peer
from tests.jobs.helpers import prepared

T = TrainerId("T")


class Trio:
    """Jobs "a", "b", "c" that know each other; `happen` lets one thing happen."""

    def __init__(self, names: str = "abc") -> None:
        self.jobs = {name: Job(peer(name), T) for name in names}
        self.due: list[Callable[[], None]] = []
        self.timers: dict[tuple[str, str], None] = {}
        for name, job in self.jobs.items():
            for other in self.jobs.keys() - {name}:
                job.receive(PeerSeen(PeerId(other)))
            job.receive(prepared(w=(ord(name), 0)))

    def trigger(self, name: str) -> None:
        self._tell(name, RoundTriggered())

    def run(self, order: Sequence[int]) -> None:
        """Until nothing is left: `order` picks among what is due; after it, first come first served."""
        picks: Iterator[int] = iter(order)
        while self.due or self.timers:
            if self.due:
                self.due.pop(next(picks, 0) % len(self.due))()
            else:
                name, timer = next(iter(self.timers))
                del self.timers[name, timer]
                self._tell(name, TimerFired(timer))

    def _tell(self, name: str, event: Event) -> None:
        self._perform(name, self.jobs[name].receive(event))

    def _perform(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Train(key, base):
                    learnt = Params({"w": base["w"] + ord(name)})
                    self._soon(name, Trained(key, learnt, ord(name), 0.5))
                case Average(key, updates):
                    model = self.jobs[name].state.model
                    assert model is not None
                    self._soon(name, Averaged(key, fed_avg().merge(None, model.schema, updates)[0]))
                case Evaluate(key, _, shared):
                    self._soon(name, Evaluated(key, shared.digest, 0.5))
                case SetTimer(timer):
                    self.timers[name, timer] = None
                case CancelTimer(timer):
                    self.timers.pop((name, timer), None)
                case Send(to, message, sent):
                    assert isinstance(message, JobMessage)
                    for other in to:
                        self._post(name, other, Packet(message, sent))

    def _soon(self, name: str, event: Event) -> None:
        self.due.append(lambda: self._tell(name, event))

    def _post(self, sender: str, to: PeerId, packet: Packet) -> None:
        message = packet.message
        assert isinstance(message, JobMessage)

        def arrive() -> None:
            try:
                effects = self.jobs[to].receive(to_event(packet, "127.0.0.1")[1])
            except PeerError as exc:
                current = exc.details().get("round")
                key = RoundKey(message.round, PeerId(message.initiator or ""))
                number = current if isinstance(current, int) else None
                self._soon(sender, SendRefused(to, message.path, key, exc.status, exc.code, str(exc), number))
                return
            self._perform(to, effects)
            for answer in (effect for effect in effects if isinstance(effect, Answer)):
                self._soon(sender, ClaimAnswered(claim_of(message.round, Packet(answer.message, answer.params))))

        self.due.append(arrive)
