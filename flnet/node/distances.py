"""How far away each peer is: the round-trip times of small requests, smoothed."""

from __future__ import annotations

import math
from collections import OrderedDict

GAIN = 1 / 8  # what the newest measurement weighs; Jacobson (1988), and RFC 6298, section 2


class Distances:
    """A moving average of round-trip times for each peer; kept in memory only."""

    def __init__(self, most: int = 512) -> None:
        """Args:
        most: peers that are remembered; whoever was measured the longest ago is forgotten first.
        """
        self._most = most
        self._seconds: OrderedDict[str, float] = OrderedDict()

    def measured(self, peer_id: str, seconds: float) -> None:
        """A small request was answered so many seconds after it was sent; what is no duration is left out."""
        if not (math.isfinite(seconds) and seconds >= 0):
            return
        before = self._seconds.pop(peer_id, seconds)
        self._seconds[peer_id] = before + GAIN * (seconds - before)
        if len(self._seconds) > self._most:
            self._seconds.popitem(last=False)

    def rtt_ms(self, peer_id: str) -> float | None:
        """Milliseconds to this peer and back, to a hundredth; None while nothing was measured."""
        seconds = self._seconds.get(peer_id)
        return None if seconds is None else round(1000 * seconds, 2)
