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
        while self._agenda and self._foreground and not (until and until()):
            if self._agenda[0].at > limit:
                self.now = limit
                return
            made = heapq.heappop(self._agenda)
            if made.cancelled:
                continue
            made.cancelled = True  # over: cancelling it later changes nothing
            self._foreground -= not made.background
            self.now = made.at
            made.act()
