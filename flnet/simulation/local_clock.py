"""A node's own clock: timers, which are late while its loop stands still, and wrong where the clock is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from flnet.simulation.clock import Appointment, VirtualClock

Fire = Callable[[float], None]  # takes the seconds by which it is late


@dataclass(slots=True)
class _Timer:
    due: float  # by the virtual clock
    act: Fire
    background: bool
    made: Appointment


class LocalClock:
    """Timers of one node.

    Attributes:
        rate: seconds that this clock counts in one true second.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.rate = 1.0
        self._clock = clock
        self._timers: dict[Hashable, _Timer] = {}
        self._unnamed = itertools.count()
        self._stands_still = False
        self._late: list[Hashable] = []  # came due while it stood still

    def set(self, key: Hashable, seconds: float, act: Fire, *, background: bool = False) -> None:
        """Let something happen after so many seconds of this clock, in place of what had this key."""
        self.cancel(key)
        self._wait(key, seconds / self.rate, act, background)

    def after(self, seconds: float, act: Fire) -> Hashable:
        """Likewise, beside everything else; its key. It does not keep the simulation going."""
        key = next(self._unnamed)
        self.set(key, seconds, act, background=True)
        return key

    def cancel(self, key: Hashable) -> None:
        """Forget a timer; not an error if there is none."""
        if (timer := self._timers.pop(key, None)) is not None:
            self._clock.cancel(timer.made)

    def jump(self, seconds: float) -> None:
        """This clock jumps ahead (or back, if negative): timers fire earlier by so much, or later."""
        for key, timer in list(self._timers.items()):
            self._clock.cancel(timer.made)
            left = timer.due - self._clock.now - seconds / self.rate
            self._wait(key, max(left, 0.0), timer.act, timer.background)
            self._timers[key].due = self._clock.now + left

    def stop(self) -> None:
        """The node's loop stands still: timers that come due are late."""
        self._stands_still = True

    def go_on(self) -> None:
        """It goes on; what came due meanwhile fires now."""
        self._stands_still = False
        late, self._late = self._late, []
        for key in late:
            self._fire(key)

    def close(self) -> None:
        """Forget all timers."""
        for key in list(self._timers):
            self.cancel(key)

    def _wait(self, key: Hashable, seconds: float, act: Fire, background: bool) -> None:
        made = self._clock.after(seconds, lambda: self._fire(key), background=background)
        self._timers[key] = _Timer(self._clock.now + seconds, act, background, made)

    def _fire(self, key: Hashable) -> None:
        if self._stands_still:
            self._late.append(key)
        elif (timer := self._timers.pop(key, None)) is not None:
            timer.act(max(0.0, self._clock.now - timer.due))
