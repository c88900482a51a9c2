"""How often somebody may do something: a bucket of turns for each caller, which fills again as time goes by."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST = 4096  # callers whose buckets are kept; who was not heard of for longest is forgotten, with a full bucket


class Buckets:
    """A bucket for each caller, by whatever names one."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float], most: int = MOST) -> None:
        """Args:
        burst: turns in a full bucket.
        per_second: turns that come back.
        clock: seconds, of which only differences count.
        most: buckets that are kept.
        """
        self._burst, self._per_second, self._clock, self._most = burst, per_second, clock, most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # turns, and when there were so many

    def take(self, caller: str) -> float:
        """Take a turn, and return 0; without one, the seconds until there is one."""
        now = self._clock()
        turns, then = self._left.get(caller, (self._burst, now))
        turns = min(self._burst, turns + (now - then) * self._per_second)
        if turns < 1:
            return (1 - turns) / self._per_second
        self._left[caller] = (turns - 1, now)
        self._left.move_to_end(caller)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return 0.0
