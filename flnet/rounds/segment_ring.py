"""Which nodes sum which segment of the updates of a round.

The members that know segments stand in a ring, in an order that a hash draws anew for each round, so that nobody chooses
its place. There are as many segments as places. Each node has one, and a faster node may have more of them. The owners of
segment i are the first nodes from place i on; a node that vanishes is replaced by the next one in the ring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from itertools import islice

from flnet.params.params import PeerId
from flnet.protocol.updates import RoundKey


class SegmentRing:
    """The ring of one round.

    Attributes:
        members: all that take part.
        whole: those of them that send whole updates, and own nothing.
        order: all others, by their first place.
        places: which node stands at each place.
        copies: how many owners a segment has; at most as many as stand in the ring.
    """

    def __init__(
        self,
        key: RoundKey,
        members: Collection[PeerId],
        copies: int,
        whole: Collection[PeerId] = (),
        owned: Mapping[str, int] | None = None,
    ) -> None:
        """Args:
        members, whole: of the round, as its start names them.
        owned: places of nodes that have more than one.
        """
        self.members, self.whole, owned = frozenset(members), frozenset(whole), owned or {}
        standing = [(peer, n) for peer in self.members - self.whole for n in range(owned.get(peer, 1))]
        self.places = [peer for peer, _ in sorted(standing, key=lambda one: (_place(key, *one), one))]
        self.order = list(dict.fromkeys(self.places))
        self.copies = min(copies, len(self.order))

    def place(self, peer: PeerId) -> int:
        """The place of a node in the ring, from 0; that of the first one for who is no member."""
        return self.order.index(peer) if peer in self.order else 0

    def owners(self, segment: int, gone: Collection[PeerId] = (), more: int = 0) -> list[PeerId]:
        """Who sums a segment, the first owner first.

        Args:
            gone: members that do not take part any more.
            more: how many owners there are beyond the usual number.
        """
        at, count = segment % len(self.places), len(self.places)
        ring = dict.fromkeys(self.places[(at + step) % count] for step in range(count))
        return list(islice((peer for peer in ring if peer not in gone), self.copies + more))

    def holders(self, segment: int, contributor: PeerId) -> list[PeerId]:
        """The nodes, its sender apart, that hold a segment of an update before the contributors are settled.

        These are its owners. If nobody else owns the segment, the next node holds it, too: so no single node that
        vanishes takes it away.
        """
        owners = [peer for peer in self.owners(segment) if peer != contributor]
        return owners or self.owners(segment, {contributor})[:1]


def _place(key: RoundKey, peer: PeerId, number: int) -> bytes:
    facts = f"segments:{key.number}:{len(key.initiator)}:{key.initiator}:{peer}" + (
        f"\n{number}" if number else ""
    )
    return hashlib.sha256(facts.encode()).digest()
