"""A clock that stands still until the next thing happens: hours of a mesh pass in seconds, and repeat exactly."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Appointment:
    """Something that happens at a time; `background` ones do not keep the simulation going."""

    __slots__ = ("act", "background", "is_over")

    def __init__(self, act: Callable[[], None], background: bool = False) -> None:
        self.act, self.background = act, background
        self.is_over = False  # it happened, or was cancelled


class VirtualClock:
    """Runs appointments in order of time; equal times in the order in which they were made."""

    def __init__(self) -> None:
        self.now = 0.0
        self._agenda: list[tuple[float, int, Appointment]] = []
        self._order = 0
        self._foreground = 0

    def after(self, seconds: float, act: Callable[[], None], *, background: bool = False) -> Appointment:
        """Make an appointment."""
        at = self.now + seconds
        made = Appointment(act, background)
        self._order += 1
        heapq.heappush(self._agenda, (at, self._order, made))
        self._foreground += not background
        return made

    def cancel(self, made: Appointment) -> None:
        """Forget an appointment; not an error if it is over."""
        if not made.is_over:
            made.is_over = True
            self._foreground -= not made.background

    def clear(self) -> None:
        """Forget all appointments."""
        self._agenda.clear()
        self._foreground = 0

    def run(self, until: Callable[[], bool] | None = None, limit: float = float("inf")) -> None:
        """Run until `until()` holds, nothing but background is left, or `limit` (absolute seconds) is reached."""
        while self._foreground and not (until and until()):
            if not self._step(limit):
                self.now = limit
                return

    def run_to(self, at: float) -> None:
        """Run everything that is due until then, background too."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= at and self._step(at):
            pass
        self.now = at

    def _step(self, limit: float) -> bool:
        """Let the next thing happen; False if it lies beyond the limit."""
        agenda = self._agenda
        while agenda and agenda[0][2].is_over:
            heapq.heappop(agenda)
        if not agenda or agenda[0][0] > limit:
            return False
        at, _, made = heapq.heappop(agenda)
        made.is_over = True  # cancelling it later changes nothing
        self._foreground -= not made.background
        self.now = at
        made.act()
        return True
