"""Which requests were taken already: counters that rise, with a window because requests overtake each other."""

from __future__ import annotations

WINDOW = 1024  # requests of one sender that may be under way at once
MOST_SENDERS = 4096


class Counters:
    """What was taken since the session began, by sender; a sender that was restarted counts as another one."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], tuple[int, int]] = {}  # highest, and a bit for each of the WINDOW below

    @property
    def full(self) -> bool:
        """Whether no further sender can be told apart: then only a new session, with new counters, helps."""
        return len(self._taken) >= MOST_SENDERS

    def take(self, key: str, run: str, number: int) -> bool:
        """Note a request as taken; False if it was before, or is so old that nobody knows."""
        highest, seen = self._taken.get((key, run), (-1, 0))
        if number > highest:
            shift = number - highest
            seen = ((seen << shift) | 1) & ((1 << WINDOW) - 1) if shift < WINDOW else 1
            self._taken[key, run] = (number, seen)
            return True
        back = highest - number
        if back >= WINDOW or seen >> back & 1:
            return False
        self._taken[key, run] = (highest, seen | 1 << back)
        return True
