"""Who is signed in: random values that browsers keep as a cookie, few, for some hours, in memory only."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

MOST = 64  # at once; the oldest one ends for a new one
SECONDS = 12 * 3600.0


class Sessions:
    """The sessions of one node; they end with its process."""

    def __init__(
        self, most: int = MOST, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # by the digest of the value: oldest first

    def begin(self) -> str:
        """A new session; the value that its browser keeps."""
        value = secrets.token_urlsafe(32)
        self._ends[_digest(value)] = self._clock() + self._seconds
        while len(self._ends) > self._most:
            self._ends.popitem(last=False)
        return value

    def knows(self, value: str) -> bool:
        """Whether this is the value of a session that has not ended."""
        ends = self._ends.get(_digest(value))
        if ends is not None and ends <= self._clock():
            self.end(value)
            return False
        return ends is not None

    def end(self, value: str) -> None:
        """End one session, if there is such."""
        self._ends.pop(_digest(value), None)

    def end_all(self) -> None:
        """End every session."""
        self._ends.clear()

    def __len__(self) -> int:
        return len(self._ends)


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
