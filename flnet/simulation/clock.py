"""A clock that stands still until the next thing happens: hours of a mesh pass in seconds, and repeat exactly."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class Appointment:
    """Something that happens at a time; `background` ones do not keep the simulation going."""

    at: float
    order: int
    act: Callable[[], None] = field(compare=False)
    background: bool = field(default=False, compare=False)
    cancelled: bool = field(default=False, compare=False)


class VirtualClock:
    """Runs appointments in order of time; equal times in the order in which they were made."""

    def __init__(self) -> None:
        self.now = 0.0
        self._agenda: list[Appointment] = []
        self._order = itertools.count()
        self._foreground = 0

    def after(self, seconds: float, act: Callable[[], None], *, background: bool = False) -> Appointment:
        """Make an appointment."""
        made = Appointment(self.now + seconds, next(self._order), act, background)
        heapq.heappush(self._agenda, made)
        self._foreground += not background
        return made

    def cancel(self, made: Appointment) -> None:
        """Forget an appointment; not an error if it is over."""
        if not made.cancelled:
            made.cancelled = True
            self._foreground -= not made.background

    def run(self, until: Callable[[], bool] | None = None, limit: float = float("inf")) -> None:
        """Run until `until()` holds, nothing but background is left, or `limit` (absolute seconds) is reached."""
        while self._foreground and not (until and until()):
            if not self._step(limit):
                self.now = limit
                return

    def run_to(self, at: float) -> None:
        """Run everything that is due until then, background too."""
        while self._step(at):
            pass
        self.now = at

    def _step(self, limit: float) -> bool:
        """Let the next thing happen; False if it lies beyond the limit."""
        while self._agenda and self._agenda[0].cancelled:
            heapq.heappop(self._agenda)
        if not self._agenda or self._agenda[0].at > limit:
            return False
        made = heapq.heappop(self._agenda)
        made.cancelled = True  # over: cancelling it later changes nothing
        self._foreground -= not made.background
        self.now = made.at
        made.act()
        return True
