"""The records of rounds as people see them: with seconds and bytes; the store has the older ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from flnet.effects import Save
from flnet.errors import LocalError
from flnet.events import Event, Restored
from flnet.node.base import View
from flnet.node.core import NodeCore, Owned
from flnet.node.stopwatch import ROUND_PARTS, Stopwatch
from flnet.node.traffic import Traffic
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.store import Store

NOTHING: Mapping[str, int] = {"sent": 0, "received": 0}


class Chronicle:
    """Measures rounds while they last, and finds their records again.

    What was measured is saved with a record, so that it is still known when the bounded counters forget it.
    """

    def __init__(self, core: NodeCore, store: Store, now: Callable[[], float] = time.monotonic) -> None:
        self._core, self._store = core, store
        self._stopwatch, self.traffic = Stopwatch(now), Traffic()

    def note(self, owner: TrainerId | None, event: Event) -> None:
        """The core has taken an event: note where the jobs stand."""
        for trainer, job in self._core.jobs.items():
            self._stopwatch.note(trainer, job.state.key, job.phase)
        if owner is not None and isinstance(event, Restored):
            for record in event.records:
                self._recall(owner, record)

    def measured(self, owned: Sequence[Owned]) -> list[Owned]:
        """The same effects, with what was measured in the records that are saved."""
        return [self._measured(item) for item in owned]

    def newest(self, trainer: TrainerId) -> Sequence[View]:
        """The records of the newest HELD_ROUNDS rounds that are over, oldest first."""
        return [self._view(trainer, record) for record in self._core.job(trainer).history()]

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[View]:
        """The records of the newest `last` rounds up to `until`, or of all that are kept, oldest first."""
        held = self.newest(trainer)
        if until is None and last is not None and last <= len(held):
            return held[-last:]
        try:
            saved = await self._store.records(trainer, last, until)
        except LocalError:  # what is held can be told all the same
            saved = ()
        found = {_key(record): _saved(record) for record in saved}
        found |= {_key(record): record for record in held if until is None or record["round"] <= until}
        rows = [found[key] for key in sorted(found, key=lambda key: (key.number, key.initiator))]
        return rows if last is None else rows[-last:]

    def _recall(self, trainer: TrainerId, record: View) -> None:
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # the job says so when records are damaged
            key, moved = _key(record), {**NOTHING, **record.get("bytes", {})}
            self.traffic.sent(trainer, key, moved["sent"])
            self.traffic.received(trainer, key, moved["received"])

    def _measured(self, item: Owned) -> Owned:
        if item.owner is None or not isinstance(item.effect, Save) or not item.effect.records:
            return item
        records = tuple(self._view(item.owner, record) for record in item.effect.records)
        return Owned(item.owner, replace(item.effect, records=records))

    def _view(self, trainer: TrainerId, record: View) -> View:
        key = _key(record)
        seconds = {**record["seconds"], **self._stopwatch.seconds(trainer, key)}
        in_order = {part: seconds[part] for part in ROUND_PARTS if part in seconds}
        return {**record, "seconds": in_order, "bytes": self.traffic.view(trainer, key)}


def _saved(record: View) -> View:
    return {**record, "bytes": record.get("bytes", NOTHING)}  # older versions saved none


def _key(record: View) -> RoundKey:
    return RoundKey(record["round"], PeerId(record["initiator"]))
