"""Base of all rounds, and the parts of a job that they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import (
    Effect,
    Save,
)
from flnet.protocol.events import (
    Event,
)
from flnet.protocol.updates import RoundKey
from flnet.rounds.gathering import Gathering
from flnet.rounds.group_search import GroupSearch
from flnet.rounds.history import History, RoundRecord
from flnet.rounds.memory_agreement import MemoryAgreement
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.privacy_budget import PrivacyBudget
from flnet.rounds.schedule import Arrivals
from flnet.rounds.series import Inbox, Series
from flnet.rounds.settings import JobSettings, Tell
from flnet.rounds.staleness import Staleness
from flnet.rounds.steps import Phase
from flnet.text import text

HOLD_BYTES = 128 * 1024 * 1024  # of updates that a round holds before it begins to fold them into a sum
# Seconds for the way of an update, apart from two turns of each peer, between which it is looked at once.
WAY = 4.0
GATHERING = (Phase.FETCHING, Phase.TRAINING, Phase.GATHERING)  # a round that is not averaged yet
OPEN = (*GATHERING, Phase.AVERAGING)  # updates still count
NOT_CHOSEN = text("not chosen")


@dataclass(frozen=True)
class Parts:
    """The parts of a job that its rounds use. Only a part itself changes its state.

    Attributes:
        tell: creates an event for people, with the number of the round.
        save: creates the effect that saves the job, with updates that have arrived.
    """

    settings: JobSettings
    peers: Peers
    held: HeldModel
    series: Series
    staleness: Staleness
    inbox: Inbox
    arrivals: Arrivals
    history: History
    budget: PrivacyBudget
    search: GroupSearch
    tell: Tell
    save: Callable[..., Save]

    def gathering(
        self,
        key: RoundKey,
        expected: Collection[PeerId],
        chosen: Collection[PeerId] | None = None,
        kind: Callable[..., Gathering] = Gathering,
    ) -> Gathering:
        """Gather the updates of a round from these peers, those of them that are chosen.

        Args:
            kind: what makes the gathering.
        """
        settings, peers = self.settings, self.peers
        waits, hyper = settings.waits, settings.round_hyper
        model, room = self.held.model, None
        if settings.folds and model is not None:
            room = max(1, HOLD_BYTES // max(1, model.shared.nbytes))
        return kind(
            key,
            settings.my_id,
            expected,
            waits.average,
            waits.margin,
            room=room,
            chosen=chosen,
            seconds=peers.paces.expected(hyper.e) if hyper else None,
            way=peers.paces.doubt * (WAY + waits.turn * 2 * len(peers.here)),
            tell=self.tell,
            silent=peers.updates.silent(peers.here),
            memory=self._memory(key),
        )

    def _memory(self, key: RoundKey) -> MemoryAgreement | None:
        """What the node does about the memory of the aggregation rule; None where nodes need not remember the same."""
        settings, shared = self.settings, self.settings.shared_memory
        if shared is None:
            return None
        return MemoryAgreement(key, shared, self.held, settings.my_id, settings.waits.average, self.tell)


class BaseRound(ABC):
    """One round, as this node takes part in it.

    Attributes:
        phase: its phase; IDLE once it is over.
        gathering: the updates of the round; None while there are none to gather.
        record: its record for the history.
        is_recorded: whether the history has the record.
        error: error on this node; None if there is none.
    """

    gathering: Gathering | None

    def __init__(self, parts: Parts, key: RoundKey, record: RoundRecord, phase: Phase) -> None:
        self._parts = parts
        self._settings, self._peers = parts.settings, parts.peers
        self._held, self._series = parts.held, parts.series
        self._arrivals, self._history, self._budget = parts.arrivals, parts.history, parts.budget
        self._tell, self._save = parts.tell, parts.save
        self.key, self.phase, self.record, self.is_recorded = key, phase, record, False
        self.error: str | None = None

    @abstractmethod
    def receive(self, event: Event) -> list[Effect]:
        """Handle the end of work, an answer of a peer, the loss of one, or a timer."""

    @property
    def chosen(self) -> frozenset[PeerId] | None:
        """Which nodes train; None for all."""
        return None

    def find(self, digest: Digest) -> Params | None:
        """The parameters with this digest that peers may fetch, besides those of the held model."""
        return None

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of what is being downloaded, where it is no parameters of the whole model."""
        return None

    @abstractmethod
    def end_training(self) -> list[Effect]:
        """A person paused the job: the training under way ends at once."""

    @property
    def sits_out(self) -> str:
        """Why this node does not train in it; empty if it does, or if it is over."""
        if self.is_over or self.gathering is None:
            return ""
        return NOT_CHOSEN if self.gathering.sits_out else self.gathering.declined.get(self._settings.my_id, "")

    @property
    @abstractmethod
    def waiting_for(self) -> list[PeerId]:
        """The peers that it waits for."""

    @property
    def is_over(self) -> bool:
        """Whether it is closed here."""
        return self.phase is Phase.IDLE

    @property
    def open_record(self) -> RoundRecord | None:
        """The record of the round; None once the history has it."""
        return None if self.is_recorded else self.record

    def forget_error(self) -> None:
        """Clear the error, because the trainer was loaded again."""
        self.error = None

    def drop_record(self) -> None:
        """Drop the record after a restart, because the round starts again."""
        self.is_recorded = True

    def view(self) -> Mapping[str, Any]:
        """The fields of the round in the view of the job."""
        return {
            "current_round": self.key.number,
            "initiator": self.key.initiator,
            "chosen": None if self.chosen is None else sorted(self.chosen),
            "sits_out": self.sits_out,
            "waiting_for": self.waiting_for,
            "received": sorted(self.gathering.updates) if self.gathering else [],
            "late": sorted(self.gathering.late - self.gathering.updates.keys()) if self.gathering else [],
        }

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        gathering = self.gathering if self.phase in OPEN else None
        # After gathering, peers may still wait for an answer of this node.
        answered = self.gathering if self.phase in (*OPEN, Phase.MEASURING) else None
        return {
            "record": None if self.is_recorded else self.record.view(),
            "expected": sorted(gathering.expected) if gathering else [],
            "declined": dict(answered.declined) if answered else {},
            "late": sorted(answered.late) if answered else [],
            "updates_from": self.key.number if gathering else self.key.number + 1,
        }

    def _fail(self, words: str) -> None:
        self.error = self.record.error = words

    def _judge(self) -> list[Effect]:
        """Decide whether a series with a goal is over after this round, and note it in the record."""
        stopping = self._series.stopping
        before, effects = stopping.decision, stopping.judge(self.key)
        if stopping.decision is not None and stopping.decision is not before:
            self.record.decision = stopping.decision.view()
        return effects

    def _remember(self, why: str = "") -> None:
        """Put the record into the history, with the mesh's figures, and the reason if it has none yet."""
        if self.record.outcome == "open" and why:
            self.record.outcome = why
        self.is_recorded = True
        self.record.mesh = self._series.stopping.evaluation.view()
        self._history.add(self.record)
