"""The snapshot of a job: what the last Save wrote to the disk, and what an earlier run of the node saved there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flnet.algorithms.registry import check_rule
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import KeptUpdate, Save
from flnet.protocol.events import Restored
from flnet.protocol.messages import ChoiceMessage, HyperParams
from flnet.protocol.updates import RoundKey
from flnet.rounds.history import History, RoundRecord
from flnet.rounds.model import HeldModel
from flnet.rounds.peer_versions import Known, read_known
from flnet.rounds.schedule import Arrived
from flnet.rounds.series import OwnSchedule
from flnet.rounds.steps import Phase
from flnet.rounds.stopping import Stopping


class Snapshot:
    """Knows what is saved already, so that nothing is written twice.

    Attributes:
        before: what an earlier run saved, until the trainer is loaded.
    """

    def __init__(self) -> None:
        self.before: Restored | None = None
        self._shared: Params | None = None
        self._private: Params | None = None
        self._sent: Params | None = None
        self._remembered: Params | None = None

    def save(
        self, figures: Mapping[str, Any], held: HeldModel, history: History, updates: tuple[KeptUpdate, ...]
    ) -> Save:
        """The effect that keeps the job as it is now.

        Args:
            figures: all of it apart from parameters, as plain JSON data.
            updates: those that have come.
        """
        shared, private = (held.model.shared, held.model.private) if held.model else (None, None)
        save = Save(
            figures,
            None if shared is self._shared else shared,
            None if private is self._private else private,
            None if held.sent is self._sent else held.sent,
            updates,
            history.take_unsaved(),
            None if held.remembered is self._remembered else held.remembered,
        )
        self._shared, self._private, self._sent, self._remembered = shared, private, held.sent, held.remembered
        return save

    def restore(self, event: Restored) -> None:
        """Keep what an earlier run saved until the trainer is loaded."""
        self.before, self._remembered = event, event.remembered

    def put_off(self) -> None:
        """The round that was open is not taken up when the trainer is loaded."""
        if self.before is not None:
            self.before = replace(self.before, snapshot={**self.before.snapshot, "phase": Phase.IDLE.value})

    def take_before(self) -> Restored | None:
        """What an earlier run saved; it is used now."""
        before, self.before = self.before, None
        return before


@dataclass(frozen=True)
class Saved:
    """The figures that an earlier run saved, read and checked.

    Attributes:
        phase: where the job stood.
        record: of the round that was open.
        merging: the aggregation rule that a person chose ("" for none), the one of the settings then, and whether
            the chosen one folds.
        is_other: what was said in the open round was said under another name, or in rounds of another kind.
    """

    key: RoundKey | None
    phase: Phase
    hyper: HyperParams | None
    records: tuple[RoundRecord, ...]
    record: RoundRecord | None
    choice: ChoiceMessage | None
    started_in: str | None
    rounds_left: int
    stopping: Stopping
    paused: bool
    plan: OwnSchedule
    arrived: Arrived
    versions: Known
    merging: tuple[str, str, bool]
    is_other: bool

    @classmethod
    def read(cls, event: Restored, stopping: Stopping, is_asynchronous: bool) -> Saved:
        """What the event brings.

        Args:
            stopping: of the job.

        Raises:
            AttributeError, KeyError, TypeError, ValueError, InvalidMessage: it is damaged.
        """
        figures = event.snapshot
        rule, settled, folds = figures.get("merging") or ("", "", True)
        me = stopping.settings.my_id
        return cls(
            RoundKey(figures["round"], PeerId(figures.get("initiator") or "")) if figures["round"] >= 0 else None,
            Phase(figures["phase"]),
            HyperParams.model_validate(figures["hyper"]) if figures.get("hyper") else None,
            tuple(RoundRecord.read(record) for record in event.records),
            RoundRecord.read(figures["record"]) if figures.get("record") else None,
            ChoiceMessage.read(figures["choice"]) if figures.get("choice") else None,
            str(figures["started_in"]) if figures.get("started_in") else None,
            int(figures.get("rounds_left", 0)),
            stopping.read(figures.get("pursuit")),
            bool(figures.get("paused")),
            OwnSchedule(*figures.get("plan", ())),
            Arrived.read(figures.get("arrived")),
            read_known(figures.get("versions")),
            (check_rule(rule) if rule else "", settled, bool(folds)),
            figures.get("me", me) != me or bool(figures.get("asynchronous")) != is_asynchronous,
        )
