"""Versions of the peers' models, where each node trains and merges by itself.

Roy et al., "BrainTorrent: A Peer-to-Peer Environment for Decentralized Federated Learning" (2019): a node that
wakes asks all others for their versions, fetches the models that are newer than what it merged of them before,
averages them with its own, and trains. Here a version is known by the run of its node and its digest beside its
number, so a node that begins anew is never mistaken for what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.events import Mark, Version
from flnet.messages import MAX_PEERS
from flnet.params import Digest, Params, PeerId


@dataclass(frozen=True)
class Merged:
    """The newest version of a peer that this node has merged.

    Attributes:
        into: the own version that came of it.
        at: when that was ready, in seconds since 1970 by this node's clock; None if that was not noted.
    """

    mark: Mark
    into: int
    at: float | None = None


@dataclass
class Versions:
    """What one node knows of the others' versions.

    Attributes:
        heard: the newest mark that each peer has told.
        merged: what was merged of it last.
        base: shared parameters that the newest own training began with; None after a restart.
        under_way: how many messages to a peer have not ended yet.
    """

    heard: dict[PeerId, Mark] = field(default_factory=dict)
    merged: dict[PeerId, Merged] = field(default_factory=dict)
    base: Params | None = None
    under_way: dict[PeerId, int] = field(default_factory=dict, compare=False)

    def sent(self, peers: Collection[PeerId]) -> None:
        """A message is on its way to each of these peers."""
        self.under_way |= {peer: self.under_way.get(peer, 0) + 1 for peer in peers}

    def ended(self, peer: PeerId) -> bool:
        """A message to a peer has ended, well or not; whether none is under way any more."""
        left = self.under_way.pop(peer, 1) - 1
        if left > 0:
            self.under_way[peer] = left
        return left <= 0

    def hear(self, version: Version, reachable: Collection[PeerId]) -> bool:
        """Note what a peer says of itself; whether that is a new version.

        Args:
            reachable: peers of now, which stay noted if there is no room for all that ever were.
        """
        peer, mark = version.peer, version.mark
        before = self.heard.get(peer)
        if before is not None and before.run == mark.run and mark.number < before.number:
            return False  # it was long on its way
        if before is None and len(self.heard) >= MAX_PEERS and not self._forget_one(reachable):
            return False
        self.heard[peer] = mark
        return mark.is_newer_than(before)

    def newer(self, told: Mapping[PeerId, Version]) -> list[Version]:
        """Those that this node has not merged yet, sorted by peer."""
        known = {peer: merged.mark for peer, merged in self.merged.items()}
        return [told[peer] for peer in sorted(told) if told[peer].mark.is_newer_than(known.get(peer))]

    def merge(self, marks: Mapping[PeerId, Mark], into: int, at: float | None) -> None:
        """Note of which versions an own one came."""
        self.merged |= {peer: Merged(mark, into, at) for peer, mark in marks.items()}

    def kept(self) -> Mapping[str, Any]:
        """What outlives a restart, as plain JSON data."""
        return {
            "heard": {peer: _written(mark) for peer, mark in self.heard.items()},
            "merged": {peer: [*_written(one.mark), one.into, one.at] for peer, one in self.merged.items()},
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None) -> Versions:
        """What `kept` said before a restart.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        if kept is None:
            return cls()
        merged = {
            PeerId(peer): Merged(_mark(said[:3]), int(said[3]), None if said[4] is None else float(said[4]))
            for peer, said in kept["merged"].items()
            if len(said) == 5
        }
        return cls({PeerId(peer): _mark(said) for peer, said in kept["heard"].items()}, merged)

    def view(self) -> Sequence[Mapping[str, Any]]:
        """One row for each peer of which anything is known, as JSON-ready data."""
        return [self._row(peer) for peer in sorted({*self.heard, *self.merged})]

    def _row(self, peer: PeerId) -> Mapping[str, Any]:
        heard, merged = self.heard.get(peer), self.merged.get(peer)
        waits = heard is not None and heard.is_newer_than(merged.mark if merged else None)
        return {
            "peer": peer,
            "version": heard.number if heard else None,
            "merged": merged.mark.number if merged else None,
            "into": merged.into if merged else None,
            "at": merged.at if merged else None,
            "newer": waits,
        }

    def _forget_one(self, reachable: Collection[PeerId]) -> bool:
        gone = min((peer for peer in self.heard if peer not in reachable), default=None)
        if gone is None:
            return False
        del self.heard[gone]
        self.merged.pop(gone, None)
        return True


def common_start(own: Digest, told: Collection[Version]) -> Version | None:
    """Where nobody has trained yet, the model that all begin with: the one of the lowest digest; None for the own.

    Models that began apart cannot be averaged well, and trainers may begin with different ones on different nodes.
    """
    if any(version.mark.number > 0 for version in told):
        return None
    lowest = min(told, key=lambda version: (version.mark.digest, version.peer), default=None)
    return lowest if lowest is not None and lowest.mark.digest < own else None


def _written(mark: Mark) -> list[Any]:
    return [mark.run, mark.number, mark.digest]


def _mark(said: Sequence[Any]) -> Mark:
    run, number, digest = said
    return Mark(str(run), int(number), Digest(str(digest)))
