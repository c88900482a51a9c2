"""Which peer is asked for which part of a large download that several peers can serve at the same time.

A peer gets its next part when one came from it, so fast peers serve more of them. At the end, peers that are idle are
asked for what others still owe: a slow peer holds nobody up.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from flnet.params.params import PeerId

LARGE_BYTES = 4 * 1024 * 1024  # from which on parameters are downloaded in parts; smaller ones are here in no time
PART_BYTES = 1024 * 1024  # on 100 Mbit/s 84 ms: long against the way there and back, short enough to be lost
MOST_SOURCES = 8  # peers of one download; further ones would not make it faster, and wrong ones cost work
MOST_REQUESTS = 8  # at the same time, of one download
MOST_EACH = 2  # at the same time to one peer: the next part is on its way while the last one arrives


class PartsPlan:
    """Who serves what. Parts are numbers; a request is a peer and a part."""

    def __init__(self, sources: Iterable[PeerId]) -> None:
        """Args:
        sources: peers that may have all parts, those that are asked first in front.
        """
        self.sources = list(dict.fromkeys(sources))  # that have not failed
        self._unasked: list[int] = []  # a heap
        self._wanted: set[int] = set()
        self._under_way: set[tuple[PeerId, int]] = set()
        self._copies = 1  # requests for one part at the same time

    @property
    def is_done(self) -> bool:
        """Whether nothing is wanted any more."""
        return not self._wanted

    def want(self, parts: Iterable[int]) -> None:
        """Ask for these parts, too."""
        for part in parts:
            self._wanted.add(part)
            heappush(self._unasked, part)

    def ask(self) -> list[tuple[PeerId, int]]:
        """The requests that begin now. If parts are wanted and nothing is under way afterwards, nobody is left."""
        asked: list[tuple[PeerId, int]] = []
        while len(self._under_way) < MOST_REQUESTS and (request := self._next()) is not None:
            self._under_way.add(request)
            asked.append(request)
        return asked

    def came(self, peer: PeerId, part: int) -> bool:
        """A request ended with its part; returns whether it was still wanted."""
        self._under_way.discard((peer, part))
        is_new = part in self._wanted
        self._wanted.discard(part)
        self._copies = 1
        return is_new

    def failed(self, peer: PeerId, part: int) -> None:
        """A request ended without its part: the peer gets no further ones, and another one is asked for the part."""
        self._under_way.discard((peer, part))
        if peer in self.sources:
            self.sources.remove(peer)
        if part in self._wanted and not self._askers(part):
            heappush(self._unasked, part)

    def hurry(self) -> None:
        """Nothing has come for a while: peers that are idle may be asked for what is under way, one more for each part."""
        self._copies += 1

    def _next(self) -> tuple[PeerId, int] | None:
        free = sorted((peer for peer in self.sources if self._load(peer) < MOST_EACH), key=self._load)
        if self._unasked:
            return (free[0], heappop(self._unasked)) if free else None
        for part in sorted({part for _, part in self._under_way} & self._wanted):
            askers = self._askers(part)
            others = [peer for peer in free if peer not in askers]
            if others and len(askers) < self._copies:
                return others[0], part
        return None

    def _askers(self, part: int) -> set[PeerId]:
        return {peer for peer, each in self._under_way if each == part}

    def _load(self, peer: PeerId) -> int:
        return sum(each == peer for each, _ in self._under_way)
