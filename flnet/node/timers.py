"""Timers of jobs and of the membership; each fires once, into the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flnet.effects import SetTimer
from flnet.events import Event, TimerFired
from flnet.params import Rng, TrainerId

Deliver = Callable[[TrainerId | None, Event], None]


class Timers:
    """Sets and forgets timers by owner and name."""

    def __init__(self, deliver: Deliver, rng: Rng) -> None:
        self._deliver, self._rng = deliver, rng
        self._running: dict[tuple[TrainerId | None, str], asyncio.TimerHandle] = {}

    def set(self, owner: TrainerId | None, timer: SetTimer) -> None:
        """Start a timer, in place of one of that name."""
        self.cancel(owner, timer.name)
        delay = timer.seconds + self._rng.random() * timer.margin
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        self._running[owner, timer.name] = loop.call_at(due, self._fire, owner, timer.name, due)

    def cancel(self, owner: TrainerId | None, name: str) -> None:
        """Forget a timer; not an error if it is not set."""
        if running := self._running.pop((owner, name), None):
            running.cancel()

    def close(self) -> None:
        """Forget all timers."""
        for running in self._running.values():
            running.cancel()
        self._running.clear()

    def _fire(self, owner: TrainerId | None, name: str, due: float) -> None:
        self._running.pop((owner, name), None)
        late = max(0.0, asyncio.get_running_loop().time() - due)
        self._deliver(owner, TimerFired(name, late))
