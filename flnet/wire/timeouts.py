"""When to give up: the time budget of all attempts of a request, and the time within which a transfer must move.

A fixed limit for a whole transfer cuts off slow links, and a fixed limit for a piece of it cuts off slower ones. So
the speed of each peer is measured, and a piece may take a multiple of the time that it took before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from flnet.params.blob import PIECE
from flnet.params.params import Rng

STEP = 16 * 1024  # bytes that count as a movement; single bytes, dripping in, could hold a connection for ever
SLOWEST = 1024.0  # bytes per second; what is slower is given no more time than this speed needs
GENEROUS = 4.0  # times the duration that was measured
LONGEST = 20.0  # timeouts: the end of all generosity
# bytes per second, 100 Mbit/s: for an int8 body zstd takes as long as it saves at about 80 MB/s on servers, and at
# 16 MB/s on small boards, which are perhaps five times slower. Below this it pays for both.
WORTH_COMPRESSING = 12_000_000.0
REMEMBERED = 1024  # addresses; the one that was measured first is forgotten first
_SAMPLES_PER_TIMEOUT = 8  # what a moment's full or empty buffers show is no speed
CAUTIOUS = 64 * 1024  # bytes sent at once to a peer that may be slow
UNSEEN = 64 * 1024  # bytes that wait in our own buffers, and must leave too before the next movement shows
BUFFERED = 4 * 1024 * 1024  # bytes that the system may hold after it took the last piece
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between attempts, doubled each time


class LinkSpeeds:
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

    def follow(self, address: str) -> TransferMeter:
        """Measure a transfer that begins now."""
        return TransferMeter(self, address)

    def measured(self, address: str, nbytes: int, seconds: float) -> None:
        """Take in that so many bytes moved in this time; each such measurement counts half."""
        cost = seconds / nbytes
        before = self._costs.get(address, cost)
        self._costs[address] = (before + cost) / 2
        if len(self._costs) > REMEMBERED:
            del self._costs[next(iter(self._costs))]


class TransferMeter:
    """One transfer while it moves."""

    def __init__(self, pace: LinkSpeeds, address: str) -> None:
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


def now() -> float:
    """Seconds on the running loop's clock."""
    return asyncio.get_running_loop().time()


class Budget:
    """The time that all attempts of a request have together, and the pauses between them."""

    def __init__(self, seconds: float, rng: Rng) -> None:
        """Args:
        seconds: for all attempts.
        rng: spreads the pauses.
        """
        self._seconds, self._rng = seconds, rng
        self.renew()

    def renew(self) -> None:
        """Start again, with the whole timeout and the shortest pause."""
        self.deadline = now() + self._seconds
        self._pause = FIRST_PAUSE

    async def pause(self, least: float = 0.0) -> bool:
        """Wait before the next attempt, `least` seconds or more; False at once if no time would be left for it."""
        spread = max(least, self._pause) * (0.5 + self._rng.random() / 2) + least / 2
        if now() + 2 * spread > self.deadline:
            return False
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        await asyncio.sleep(spread)
        return True


class TransferWatch:
    """Ends an attempt in which nothing moves any more.

    Attributes:
        address: where the bytes go to and come from.
        seconds: the longest time that it allowed until now.
    """

    def __init__(self, timer: asyncio.Timeout, pace: LinkSpeeds, address: str) -> None:
        """Args:
        timer: what is put off while something moves.
        pace: knows how fast this address is, and learns it.
        address: where the bytes go to and come from.
        """
        self._timer, self._pace, self.address = timer, pace, address
        self._run = pace.follow(address)
        self.seconds = pace.least

    def begins(self, nbytes: int) -> None:
        """A request of this size is sent: a peer that is known to be slow gets more than the timeout."""
        seconds = self._pace.allowed(self.address, min(nbytes, CAUTIOUS))
        if seconds > self._pace.least:
            self._allow(seconds)

    def piece(self) -> int:
        """How many bytes to send at once: the larger, the cheaper, but the later it shows that they move."""
        return PIECE if self._is_fast() else CAUTIOUS

    def step(self) -> int:
        """After how many bytes that came it is time to call `came`."""
        return PIECE if self._is_fast() else STEP

    def left(self, nbytes: int) -> None:
        """A piece of the request has left us."""
        self._run.moved(nbytes)
        self._allow(self._pace.allowed(self.address, self.piece() + UNSEEN))

    def sent(self, nbytes: int) -> None:
        """The last piece of so many bytes has left us, but may wait in the system's buffers for a while."""
        waiting = min(nbytes, BUFFERED)
        most = self._pace.least * (1 + 2 * waiting / BUFFERED)
        self._allow(max(most, self._pace.allowed(self.address, waiting)))

    def came(self, nbytes: int) -> None:
        """A part of the answer has come."""
        self._run.moved(nbytes)
        self._allow(self._pace.allowed(self.address, self.step()))

    def stopped(self) -> None:
        """The attempt failed."""
        self._run.stopped()

    def finished(self) -> None:
        """The answer is complete."""
        self._run.finished()

    def _is_fast(self) -> bool:
        rate = self._pace.rate(self.address)
        return bool(rate and rate * self._pace.least > 8 * PIECE)

    def _allow(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
        with suppress(RuntimeError):  # it has just run out
            self._timer.reschedule(max(self._timer.when() or 0.0, now() + seconds))
