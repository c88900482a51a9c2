"""A job on the bench: it hears events, and what it asked for last can be looked at and carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import pytest

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.errors import PeerError
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import Average, Effect, Evaluate, Publish, Send
from flnet.protocol.events import (
    Averaged,
    ClaimReceived,
    Declaration,
    DeclineReceived,
    Evaluated,
    Event,
    PeerSeen,
    Prepared,
    RoundTriggered,
    Trained,
    TrainingAsked,
    UpdateReceived,
)
from flnet.protocol.messages import JobMessage
from flnet.protocol.updates import Claim, Update
from flnet.rounds.base_job import AnyJob
from flnet.rounds.job import Job
from flnet.rounds.round import Round
from flnet.rounds.settings import JobSettings, Rules, Waits
from flnet.rounds.steps import LEGAL, Phase
from tests.helpers import HYPER, frozen, key, params, peer

E = TypeVar("E", bound=Effect)
M = TypeVar("M", bound=JobMessage)
J = TypeVar("J", bound=AnyJob)
WAITS = Waits(average=30, margin=4, start=3, claims=35)


def declaration(**changed: Any) -> Declaration:
    """A trainer that shares all it has, "w", and wants to be beaten by more than 0.02."""
    return Declaration(
        **{"label": "T", "defaults": HYPER, "exchange_threshold": 0.02, "shared": ("w",), **changed}
    )


def asked(by: str, number: int = 0, w: Sequence[float] = (9, 9), **more: Any) -> TrainingAsked:
    """A start by a peer."""
    more = {"hyper": HYPER, "initiator": by, **more}
    at = key(number, more.pop("initiator"))
    return TrainingAsked(PeerId(by), at, params(w=w), **more)


def came(
    by: str, number: int = 0, initiator: str = "a", w: Sequence[float] = (1, 1), **more: Any
) -> UpdateReceived:
    """An update of a peer."""
    return UpdateReceived(Update(PeerId(by), key(number, initiator), params(w=w), **{"examples": 1, **more}))


def declined(by: str, number: int = 0, initiator: str = "a", reason: str = "no time") -> DeclineReceived:
    """A peer's refusal to take part."""
    return DeclineReceived(PeerId(by), key(number, initiator), reason)


def claim(
    by: str, number: int = 0, accuracy: float = 0.5, w: Sequence[float] = (5, 5), contributors: int = 1
) -> Claim:
    """What a peer says of its average."""
    model = params(w=w)
    return Claim(PeerId(by), number, accuracy, model.digest, contributors, model)


def settings(me: str = "b", rules: Rules | None = None, **more: Any) -> JobSettings:
    """Of a job of the trainer "T"."""
    return JobSettings(peer(me), TrainerId("T"), WAITS, rules or Rules(), **more)


def is_comparison(effect: Evaluate) -> bool:
    """Whether a measurement decides between a peer's start and the own model."""
    return effect.split == "validation"


class AnyBench(Generic[J]):
    """A job that hears events, and the effects of the last one."""

    def __init__(self, job: J) -> None:
        self.job, self.effects = job, list[Effect]()
        self.start_accuracy: float | None = 0.3  # of a peer's start on validation rows; None: the test measures it

    @property
    def phase(self) -> Phase:
        return self.job.phase

    @property
    def w(self) -> list[float]:
        """The model held."""
        held: list[float] = self.job.held.current.shared["w"].tolist()
        return held

    def hear(self, event: Event) -> list[Effect]:
        self.effects = self.job.receive(event)
        while self.start_accuracy is not None and (asked := [e for e in self.all(Evaluate) if is_comparison(e)]):
            rest = [effect for effect in self.effects if effect not in asked]
            self.effects = rest + self.job.receive(self.compared(asked[0]))
        return self.effects

    def compared(self, effect: Evaluate) -> Evaluated:
        """What the comparison of a peer's start with the own model gives; the own one has an accuracy of 0.4."""
        assert self.start_accuracy is not None
        is_own = effect.shared.digest == self.job.held.digest
        accuracy = 0.4 if is_own else self.start_accuracy
        return Evaluated(effect.key, effect.shared.digest, accuracy, split=effect.split)

    def all(self, kind: type[E]) -> list[E]:
        """The effects of this kind that the last event brought."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def one(self, kind: type[E]) -> E:
        effects = self.all(kind)
        assert len(effects) == 1, (kind.__name__, self.effects)
        return effects[0]

    @property
    def published(self) -> dict[str, str]:
        """The texts that the last event published, by kind."""
        return {effect.kind: effect.text for effect in self.all(Publish)}

    def said(self, kind: type[M]) -> M:
        """The message of this kind that the last event made the job send."""
        sent = [effect.message for effect in self.all(Send) if isinstance(effect.message, kind)]
        assert len(sent) == 1, (kind.__name__, self.effects)
        return sent[0]

    def train(self, w: Sequence[float] = (2, 4), examples: int = 1, accuracy: float = 0.5) -> list[Effect]:
        """End the training that is under way."""
        assert self.job.key is not None
        return self.hear(Trained(self.job.key, params(w=w), examples, accuracy))

    def average(self, remembered: Params | None = None) -> list[Effect]:
        """Carry out the average that the last event asked for, by a rule that remembers this."""
        effect = self.one(Average)
        merged = fed_avg().merge(None, RoundStart(self.job.held.current.schema, Params()), effect.updates).params
        return self.hear(Averaged(effect.key, merged, remembered=remembered))

    def measure(self, accuracy: float = 0.8) -> list[Effect]:
        """Carry out the measurement that the last event asked for."""
        effect = self.one(Evaluate)
        return self.hear(Evaluated(effect.key, effect.shared.digest, accuracy))


class Bench(AnyBench[Job]):
    """A job, by default "b" with the peers "a" and "c", prepared and idle."""

    def __init__(
        self,
        me: str = "b",
        peers: Sequence[str] = ("a", "c"),
        prepare: bool = True,
        rules: Rules | None = None,
        **declared: Any,
    ) -> None:
        super().__init__(Job(settings(me, rules)))
        for name in peers:
            self.hear(PeerSeen(PeerId(name)))
        if prepare:
            self.hear(prepared(**declared))

    @property
    def round(self) -> Round:
        """The open round, or the last one."""
        assert self.job.round is not None
        return self.job.round

    def through_average(self, number: int = 0, by: Sequence[str] = ("a", "c"), accuracy: float = 0.8) -> Bench:
        """Start a round, take the peers' updates, average and measure: EXCHANGING if there are peers."""
        self.hear(RoundTriggered())
        self.train()
        for name in by:
            self.hear(came(name, number, "b"))
        self.average()
        self.measure(accuracy)
        return self

    def through_round(self, number: int = 0, by: Sequence[str] = ("a", "c")) -> Bench:
        """A whole round; the peers' claims win nothing."""
        self.through_average(number, by)
        for name in by:
            self.hear(ClaimReceived(claim(name, number, accuracy=0.1)))
        assert self.phase is Phase.IDLE
        return self


def refuses(bench: AnyBench[J], event: Event, error: type[PeerError]) -> PeerError:
    """The refusal of this event; the job is left exactly as it was."""
    before = frozen(bench.job)
    with pytest.raises(error) as refusal:
        bench.hear(event)
    assert frozen(bench.job) == before
    return refusal.value


def prepared(w: Sequence[float] = (0, 0), **declared: Any) -> Prepared:
    """The trainer is loaded."""
    return Prepared(declaration(**declared), params(w=w))


def listed() -> set[tuple[Phase, type, Phase]]:
    """The table as triples."""
    return {
        (before, event, after) for before, row in LEGAL.items() for event, ends in row.items() for after in ends
    }
