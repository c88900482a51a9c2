"""Rate limits: a token bucket for each caller, and what counts as one caller."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

MOST = 4096  # callers whose buckets are kept
KEPT = 1024  # addresses of which it is known what they count as


class Buckets:
    """A bucket for each caller; those who were not heard of for longest are forgotten first.

    A forgotten bucket is a full one: those that are full again are not kept, and with more callers than `most` the
    bound is looser, and memory is not.
    """

    def __init__(
        self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic, most: int = MOST
    ) -> None:
        """Args:
        burst: turns in a full bucket.
        per_second: turns that come back.
        clock: seconds, of which only differences count.
        most: buckets that are kept.
        """
        self._burst, self._per_second, self._most, self._clock = burst, per_second, most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # turns, and when that was

    def wait(self, caller: str) -> float:
        """Seconds until this caller has a turn; 0 if that is now. Takes none."""
        return max(0.0, (1 - self._now(caller)) / self._per_second)

    def take(self, caller: str) -> float:
        """Take a turn, if there is one; else the seconds until there is."""
        turns = self._now(caller)
        if turns < 1:
            return (1 - turns) / self._per_second
        self._left[caller] = (turns - 1, self._clock())
        self._left.move_to_end(caller)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        self._forget_full()
        return 0.0

    def is_full(self, caller: str) -> bool:
        """Whether nothing was taken for so long that it counts as never."""
        return self._now(caller) >= self._burst

    def _forget_full(self) -> None:
        while self._left and self.is_full(oldest := next(iter(self._left))):
            del self._left[oldest]

    def _now(self, caller: str) -> float:
        turns, then = self._left.get(caller, (self._burst, self._clock()))
        return min(self._burst, turns + (self._clock() - then) * self._per_second)


@lru_cache(KEPT)
def network_of(address: str) -> str:
    """The network that counts as one caller: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if ip.version == 4 else str(ipaddress.ip_network((ip, 64), strict=False))
