"""How long a transfer may stand still, from how fast others went to or from the same peer.

A fixed limit for a whole transfer cuts off slow links, and a fixed limit for a piece of it cuts off slower ones.
So the speed of each peer is measured, and a piece may take a multiple of the time that it took before.
"""

from __future__ import annotations

from collections.abc import Callable

STEP = 16 * 1024  # bytes that count as a movement; single bytes, dripping in, could hold a connection for ever
SLOWEST = 1024.0  # bytes per second; what is slower is given no more time than this speed needs
GENEROUS = 4.0  # times the duration that was measured
LONGEST = 20.0  # timeouts: the end of all generosity
# bytes per second, 100 Mbit/s: for an int8 body zstd takes as long as it saves at about 80 MB/s on servers, and at
# 16 MB/s on small boards, which are perhaps five times slower. Below this it pays for both.
WORTH_COMPRESSING = 12_000_000.0
REMEMBERED = 1024  # addresses; the one that was measured first is forgotten first
_SAMPLES_PER_TIMEOUT = 8  # what a moment's full or empty buffers show is no speed


class Pace:
    """The speed of each address, smoothed, and the times that follow from it."""

    def __init__(self, least: float, clock: Callable[[], float]) -> None:
        """Args:
        least: seconds that a piece may take in any case, the timeout of a request.
        clock: seconds that only grow.
        """
        self.least, self.clock = least, clock
        self._costs: dict[str, float] = {}  # seconds per byte: smoothed so, one burst cannot hide a slow link

    def rate(self, address: str) -> float | None:
        """Bytes per second, or None before anything was measured."""
        cost = self._costs.get(address)
        return 1 / cost if cost else None

    def is_slow(self, address: str) -> bool:
        """Whether it was measured, and a body that is compressed gets there sooner."""
        rate = self.rate(address)
        return rate is not None and rate < WORTH_COMPRESSING

    def allowed(self, address: str, nbytes: int) -> float:
        """Seconds within which so many bytes must have moved."""
        rate = self.rate(address)
        if rate is None:
            return self.least
        return max(self.least, min(GENEROUS * nbytes / max(rate, SLOWEST), LONGEST * self.least))

    def follow(self, address: str) -> Run:
        """Measure a transfer that begins now."""
        return Run(self, address)

    def measured(self, address: str, nbytes: int, seconds: float) -> None:
        """Take in that so many bytes moved in this time; each such measurement counts half."""
        cost = seconds / nbytes
        before = self._costs.get(address, cost)
        self._costs[address] = (before + cost) / 2
        if len(self._costs) > REMEMBERED:
            del self._costs[next(iter(self._costs))]


class Run:
    """One transfer while it moves."""

    def __init__(self, pace: Pace, address: str) -> None:
        self._pace, self._address = pace, address
        self._began = self._since = pace.clock()
        self._all = self._bytes = 0

    def moved(self, nbytes: int) -> None:
        """So many bytes more have moved."""
        self._all += nbytes
        self._bytes += nbytes
        self.stopped()

    def stopped(self) -> None:
        """It ended, or nothing has moved for some time; what lasted too short to be measured is not."""
        now = self._pace.clock()
        seconds = now - self._since
        if seconds >= self._pace.least / _SAMPLES_PER_TIMEOUT and self._bytes >= STEP:
            self._pace.measured(self._address, self._bytes, seconds)
            self._since, self._bytes = now, 0

    def finished(self) -> None:
        """The peer has confirmed all of it, so the link is at least as fast as that was, waiting included."""
        seconds = max(self._pace.clock() - self._began, 1e-6)
        rate = self._pace.rate(self._address)
        if self._all >= STEP and (rate is None or self._all / seconds > rate):
            self._pace.measured(self._address, self._all, seconds)
