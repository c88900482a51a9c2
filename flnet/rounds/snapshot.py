"""The snapshot of a job: what the last Save wrote to the disk, and what an earlier run of the node saved there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flnet.params.params import Params
from flnet.protocol.effects import KeptUpdate, Save
from flnet.protocol.events import Restored
from flnet.rounds.history import History
from flnet.rounds.model import HeldModel
from flnet.rounds.steps import Phase


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
