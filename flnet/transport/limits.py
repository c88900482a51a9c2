"""When to give up: the time that attempts have together, and the time in which something must move."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from flnet.blob import PIECE
from flnet.params import Rng
from flnet.transport.pace import STEP, Pace

CAUTIOUS = 64 * 1024  # bytes sent at once to a peer that may be slow
UNSEEN = 64 * 1024  # bytes that wait in our own buffers, and must leave too before the next movement shows
BUFFERED = 4 * 1024 * 1024  # bytes that the system may hold after it took the last piece
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between attempts, doubled each time


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
        """Begin anew, with all of the time and the shortest pause."""
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


class Watch:
    """Ends an attempt in which nothing moves any more.

    Attributes:
        seconds: the longest time that it allowed until now.
    """

    def __init__(self, timer: asyncio.Timeout, pace: Pace, address: str) -> None:
        """Args:
        timer: what is put off while something moves.
        pace: knows how fast this address is, and learns it.
        address: where the bytes go to and come from.
        """
        self._timer, self._pace, self._address = timer, pace, address
        self._run = pace.follow(address)
        self.seconds = pace.least

    def begins(self, nbytes: int) -> None:
        """A request of this size is sent: a peer that is known to be slow gets more than the timeout."""
        seconds = self._pace.allowed(self._address, min(nbytes, CAUTIOUS))
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
        self._allow(self._pace.allowed(self._address, self.piece() + UNSEEN))

    def sent(self, nbytes: int) -> None:
        """The last piece of so many bytes has left us, but may wait in the system's buffers for a while."""
        waiting = min(nbytes, BUFFERED)
        most = self._pace.least * (1 + 2 * waiting / BUFFERED)
        self._allow(max(most, self._pace.allowed(self._address, waiting)))

    def came(self, nbytes: int) -> None:
        """A part of the answer has come."""
        self._run.moved(nbytes)
        self._allow(self._pace.allowed(self._address, self.step()))

    def stopped(self) -> None:
        """The attempt failed."""
        self._run.stopped()

    def finished(self) -> None:
        """The answer is complete."""
        self._run.finished()

    def _is_fast(self) -> bool:
        rate = self._pace.rate(self._address)
        return bool(rate and rate * self._pace.least > 8 * PIECE)

    def _allow(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
        with suppress(RuntimeError):  # it has just run out
            self._timer.reschedule(max(self._timer.when() or 0.0, now() + seconds))
