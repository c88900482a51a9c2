"""What a job knows: one record that the steps of a round read and change."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flnet.effects import Effect, KeptUpdate, Publish, Save, Send
from flnet.events import (
    DataChanged,
    Declaration,
    DeclineReceived,
    Restored,
    Trained,
    TrainingAsked,
    UpdateOffered,
    UpdateReceived,
)
from flnet.jobs.arriving import Arrived, Plan
from flnet.jobs.chance import NoChance
from flnet.jobs.keeping import Kept
from flnet.jobs.model import Model
from flnet.jobs.opening import Opening, Start, next_key
from flnet.jobs.pursuit import Pursuit
from flnet.jobs.record import RoundRecord
from flnet.jobs.rules import Rules
from flnet.jobs.showing import shown
from flnet.jobs.steps import Phase
from flnet.jobs.wake import Wake
from flnet.jobs.weights import Weights
from flnet.messages import MAX_PEERS, ChoiceMessage, HyperParams, JobMessage, ModelParams, Peer
from flnet.params import Claim, Digest, Params, PeerId, Rng, RoundKey, TrainerId, Update
from flnet.policies import chosen
from flnet.rounds import Averaging, Exchange, Paces, Versions
from flnet.strategies import MERGING
from flnet.topologies import Topology, full_mesh

M = TypeVar("M", bound=JobMessage)


Word = UpdateReceived | UpdateOffered | DeclineReceived  # what a peer has to say on a round


def key_of(word: Word) -> RoundKey:
    """The round that a peer speaks of."""
    return word.key if isinstance(word, DeclineReceived) else word.update.key


@dataclass(frozen=True)
class Waits:
    """How long a job waits for others, in seconds.

    Attributes:
        average: after the own update until the average is forced.
        margin: random part added to it.
        start: for the start of a round of which only an update told, before this node says it sits out.
        claims: for the peers' accuracies after the average.
        turn: between two peers that the membership looks at: what was lost is said again when all had their turn.
    """

    average: float = 60.0
    margin: float = 5.0
    start: float = 5.0
    claims: float = 65.0
    turn: float = 1.0


@dataclass(frozen=True)
class Behind:
    """A training that is under way for an earlier round, or one whose rounds do not wait for it."""

    key: RoundKey
    base: Digest


@dataclass(frozen=True)
class Late:
    """What came of it: the update as of that round, and the figures."""

    update: Update
    event: Trained


PAUSED = "paused by a person here"  # what peers read
WAY = 4.0  # seconds that an update is given beside two turns of each peer, between which it is looked at once
HELD_ROUNDS = 120  # newest records that a job holds (charts show 100); the store has the older ones
HOLD_BYTES = 128 * 1024 * 1024  # of updates that a round holds before it begins to fold them into a sum


@dataclass
class JobState:
    """Everything that changes in a job. `key` is the newest round this node has entered."""

    me: Peer
    trainer: TrainerId
    waits: Waits
    rules: Rules = field(default_factory=Rules)
    topology: Topology = full_mesh  # who gets the own update
    rng: Rng = field(default_factory=NoChance)
    phase: Phase = Phase.LOADING
    peers: set[PeerId] = field(default_factory=set)  # reachable now
    declaration: Declaration | None = None
    model: Model | None = None
    base: Start | None = None  # what training waits for while it is fetched
    sent: Params | None = None  # the newest own update, for peers that fetch it
    own: Update | None = None  # the same, with what is said of it
    kept: Kept = field(default_factory=Kept)
    restored: Restored | None = None  # what an earlier run saved, until the trainer is loaded
    away: dict[PeerId, RoundKey] = field(default_factory=dict)  # expected in that round, and not reachable since
    not_started: dict[PeerId, RoundKey] = field(default_factory=dict)  # whom our start of that round did not reach
    folds: bool = True  # whether the merging rule can add updates as they come
    hyper: HyperParams | None = None
    remembered: Params | None = None  # by the merging rule, between rounds
    accuracy: float | None = None  # of the model held, after averaging, on the own test split
    key: RoundKey | None = None
    run: str = ""  # no earlier run of this node had it
    started_in: str | None = None  # the run of its initiator in which the round was started, as far as is known
    paces: Paces = field(default_factory=Paces)
    behind: Behind | None = None  # a training that goes on over rounds
    late: Late | None = None  # what came of it, for the next round
    choice: ChoiceMessage | None = None  # as the start of the round had it, where not all nodes train
    averaging: Averaging | None = None
    exchange: Exchange | None = None
    record: RoundRecord | None = None
    history: deque[RoundRecord] = field(default_factory=lambda: deque(maxlen=HELD_ROUNDS))  # use `remember`
    pending: Opening | None = None  # opens as soon as the step in progress allows it
    asked_while_loading: TrainingAsked | None = None
    fresh: DataChanged | None = None  # other data, for when the round is over
    early: dict[PeerId, Word] = field(default_factory=dict)  # of a newer round
    rival: Claim | None = None  # the best differing average that the exchange showed
    rounds_left: int = 0  # rounds that this node was asked for and has not started yet
    regroups: set[PeerId] = field(default_factory=set)  # for whom a series waits after a restart
    pursuit: Pursuit = field(default_factory=Pursuit)  # of rounds that go on until a goal is reached
    paused: bool = False  # a person wants this node to sit rounds out
    unwilling: str = ""  # why this node takes no part in rounds of others now, by its schedule
    plan: Plan = field(default_factory=Plan)  # when rounds start by themselves here
    arrived: Arrived = field(default_factory=Arrived)  # examples since the last own training
    versions: Versions = field(default_factory=Versions)  # of peers, where there are no common rounds
    wake: Wake | None = None  # likewise: what is under way here
    weights: Weights = field(default_factory=Weights)  # how much the updates of each peer have counted
    rolled_back: bool = False  # a person went back to the model held, and no average came since
    error: str | None = None

    @property
    def my_id(self) -> PeerId:
        """This node's id."""
        return PeerId(self.me.id)

    @property
    def number(self) -> int:
        """The newest round entered; -1 before the first."""
        return self.key.number if self.key else -1

    @property
    def next_key(self) -> RoundKey:
        """The round that this node starts next."""
        return next_key(self.number, self.my_id, {key_of(word) for word in self.early.values()})

    @property
    def room(self) -> int | None:
        """How many updates a round may hold before it folds some; None for all."""
        if not self.folds or self.model is None:
            return None
        return max(1, HOLD_BYTES // max(1, self.model.shared.nbytes))

    def gather(self, key: RoundKey, peers: Collection[PeerId]) -> Averaging:
        """Begin to gather the updates of a round from these peers, those of them that are chosen."""
        seconds = self.paces.expected(self.hyper.e) if self.hyper else None
        waits, way = self.waits, self.paces.doubt * (WAY + self.waits.turn * 2 * len(self.peers))
        some = (self.room, self.chosen, seconds, way)
        return Averaging(key, self.my_id, peers, waits.average, waits.margin, *some)

    def holds(self, digest: Digest) -> Params | None:
        """The parameters of this digest, if a peer may fetch them here."""
        there = (self.model.shared if self.model else None, self.sent, self.rival.params if self.rival else None)
        return next((params for params in there if params is not None and params.digest == digest), None)

    @property
    def listening(self) -> bool:
        """In a round of which only an update told: the start may still come."""
        return (
            self.phase is Phase.GATHERING
            and self.averaging is not None
            and self.my_id not in self.averaging.updates
            and self.my_id not in self.averaging.declined
            and not self.averaging.sits_out
            and self.behind is None
        )

    @property
    def rules_said(self) -> Mapping[str, str]:
        """What all nodes must have alike beside what the trainer says; nothing where all is as usual."""
        own = self.declaration.merging if self.declaration else ""
        return {**self.rules.said(), **({MERGING: own} if own else {})}

    @property
    def chosen(self) -> frozenset[PeerId] | None:
        """Who trains in the open round; None for all."""
        return None if self.choice is None else chosen(self.choice, self.trainer, self.number)

    @property
    def training_from(self) -> Params:
        """The shared parameters that the training under way here began with."""
        assert self.model is not None
        return self.wake.merged if self.wake is not None and self.wake.merged is not None else self.model.shared

    @property
    def screened_from(self) -> Params:
        """What the distances of updates are measured from before they are averaged."""
        assert self.model is not None
        return self.versions.base or self.model.shared

    @property
    def is_held_up(self) -> bool:
        """Whether a series waits: a person paused this node, or peers are not back after a restart."""
        return self.paused or bool(self.regroups)

    @property
    def start_timer(self) -> str:
        """The timer that bounds `listening`."""
        assert self.key is not None
        return f"start:{self.key.number}:{self.key.initiator}"

    def spread(self, message: ModelParams, params: Params) -> list[Effect]:
        """Send the own update to whom the topology names: all of it, or the parts that it names."""
        parts: dict[tuple[str, ...] | None, list[PeerId]] = {}
        for peer, names in self.topology(self.my_id, self.peers, self.number, self.rng):
            parts.setdefault(names, []).append(peer)
        return [
            Send(tuple(peers), message, params if names is None else params.select(names))
            for names, peers in parts.items()
        ]

    def say(self, kind: type[M], **fields: Any) -> M:
        """A message of the current round from this node."""
        assert self.key is not None and self.hyper is not None
        return kind(
            i_am=self.me,
            trainer_id=self.trainer,
            round=self.key.number,
            federated_learning_params=self.hyper,
            initiator=self.key.initiator,
            agreement=self.agreement(),
            **fields,
        )

    def agreement(self) -> Mapping[str, str] | None:
        """What all nodes must have alike, as messages state it."""
        stated = self.declaration.agreement if self.declaration else {}
        return {**stated, **self.rules_said} or None

    def propose(self, opening: Opening) -> None:
        """Remember a round to open; of several, the one that comes first in the total order stays.

        While it is paused, this node starts none itself.
        """
        if self.paused and opening.started_by(self.my_id):
            return
        if (
            self.pending is None
            or opening.key.beats(self.pending.key)
            or (opening.key == self.pending.key and opening.heard_start)
        ):
            self.pending = opening

    def remember_early(self, peer: PeerId, event: Word) -> None:
        """Keep a peer's word on a round that is not open here yet: on the newest one, and rather an update."""
        old = self.early.get(peer)
        if old is None:
            keep = len(self.early) < MAX_PEERS
        elif key_of(old) == key_of(event):
            keep = isinstance(old, DeclineReceived) and not isinstance(event, DeclineReceived)
        else:
            keep = key_of(event).beats(key_of(old))
        if keep:
            self.early[peer] = event

    def remember(self, record: RoundRecord) -> None:
        """A round is over here: its record is held, and is in the next Save."""
        self.history.append(record)
        self.kept.over.append(record)

    def save(
        self, with_params: bool = False, private: Params | None = None, updates: tuple[KeptUpdate, ...] = ()
    ) -> Save:
        """The effect that keeps this state: all figures, the parameters that are others than at the last one, and
        updates that have come. (What else is given only says what a step has changed.)
        """
        return self.kept.save(self, updates)

    def tell(self, kind: str, text: str, **data: Any) -> Publish:
        """Something that people should see."""
        return Publish(kind, text, {"round": self.number, **data})

    def view(self) -> Mapping[str, Any]:
        """The job as JSON-ready data; the shape stands in flnet.node.base.Node."""
        return shown(self)
