"""Alignment of two holders by commutative blinding (Meadows 1986; Huberman, Franklin, Hogg 1999).

The leader has the secret a, the follower b. H maps an id into the group.

1. The leader sends H(id)^a for each of its ids, shuffled.
2. The follower answers each chunk with (H(id)^a)^b, in the same order, and sends H(id)^b for each of its own, shuffled.
3. The leader raises these to a. Ids are common where both lists have the same element.
4. The leader sends, in the order of the common elements, which places of the follower's list are common, and the
   elements. The follower checks that they are among those that it raised.

The leader shuffles its list because the follower could read its row order off it otherwise: where all of the leader's
ids are common, step 4 tells the follower which person stands at each place of the list of step 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from flnet.algorithms.vertical.groups import ELEMENT_BYTES, Group, Items, Positions, blind_chunk, check_chunk
from flnet.algorithms.vertical.holder import (
    Acceptance,
    AlignmentFollower,
    Chunk,
    Effect,
    Holder,
    Incoming,
    Kind,
    Message,
    Randomness,
    SendToHolder,
    Terms,
    check_count,
    common,
    in_order,
)
from flnet.errors import AlignmentRefused
from flnet.text import text

POSITION_BYTES = 4
MATCH_BYTES = POSITION_BYTES + ELEMENT_BYTES


class PairLeader(Holder):
    """The side that finds the common ids of two holders."""

    def __init__(self, terms: Terms, ids: Sequence[str], group: Group, randomness: Randomness) -> None:
        super().__init__(terms, terms.leader, ids, group, randomness)
        (self._follower,) = terms.followers
        self._raised = Incoming(terms, Kind.RAISED, self._follower, len(ids), ELEMENT_BYTES)
        self._own: Incoming | None = None  # the follower's ids, once it said how many there are
        self._sent = 0  # chunks
        self._matching = False

    def start(self) -> list[Effect]:
        """Begin; called once, before anything else."""
        self._queue_own(self._randomness.shuffle, self._send_blinded)
        return [SendToHolder(self._follower, self._opening()), *self._advance()]

    def _handle(self, message: Message) -> list[Effect]:
        match message:
            case Acceptance(count=count) if self._own is None:
                check_count(count, self.terms, message.sender)
                self._own = Incoming(self.terms, Kind.OWN, message.sender, count, ELEMENT_BYTES)
                return []
            case Chunk(kind=Kind.RAISED) if message.number < self._sent:
                self._queue("check", partial(check_chunk, self._group, self._raised.add(message)), _keep)
                return []
            case Chunk(kind=Kind.OWN) if self._own is not None:
                place = self.terms.part(message.number, ELEMENT_BYTES)
                items = self._own.add(message)
                run = partial(blind_chunk, self._group, self._randomness.secret, items)
                self._queue("blind", run, partial(self._raise_own, place))
                return []
        raise self._unexpected(message)

    def _send_blinded(self, number: int, items: Items) -> list[Effect]:
        self._sent += 1
        return [SendToHolder(self._follower, self._chunk(Kind.BLINDED, number, len(self.ids), items))]

    def _raise_own(self, place: slice, items: Items) -> list[Effect]:
        assert self._own is not None
        self._own.items[place] = items
        return []

    def _when_idle(self) -> None:
        if self._own is not None and self._own.complete and self._raised.complete and not self._matching:
            self._matching = True
            self._queue("match", partial(common, self._raised.items, self._own.items), self._matched)

    def _matched(self, places: tuple[Positions, Positions]) -> list[Effect]:
        mine, theirs = places
        tokens = self._raised.items[mine]
        positions = theirs.astype("<u4")[:, np.newaxis].view(np.uint8)
        matches = np.concatenate([positions, tokens], axis=1)
        sent = self._whole(self._follower, Kind.MATCHES, matches)
        return [*sent, *self._end(self._randomness.shuffle[mine], tokens)]


class PairFollower(AlignmentFollower):
    """The side that is told which of its ids are common to two holders."""

    match_bytes = MATCH_BYTES

    def _accepted(self) -> list[Effect]:
        self._queue_own(self._randomness.shuffle, self._send_own)
        return []

    def _send_own(self, number: int, items: Items) -> list[Effect]:
        return [SendToHolder(self.terms.leader, self._chunk(Kind.OWN, number, len(self.ids), items))]

    def _locating(self, matches: Items, raised: Items) -> Callable[[], Positions]:
        return partial(located, matches, raised, len(self.ids))

    def _located(self, positions: Positions) -> list[Effect]:
        assert self._matches is not None
        return self._end(self._randomness.shuffle[positions], self._matches.items[:, POSITION_BYTES:])

    def _when_idle(self) -> None:
        """Wait for the leader."""


def located(matches: Items, raised: Items, count: int) -> Positions:
    """(k,) the places in the follower's list that are common. One unit of work.

    Args:
        matches: (k, MATCH_BYTES) a place and an element each.
        raised: (n, 32) the leader's list, as the follower blinded it.
        count: of the follower's ids.

    Raises:
        AlignmentRefused: a place or an element cannot be.
    """
    positions = np.ascontiguousarray(matches[:, :POSITION_BYTES]).view("<u4")[:, 0].astype(np.int64)
    tokens = matches[:, POSITION_BYTES:]
    if len(np.unique(positions)) != len(positions) or bool((positions >= count).any()):
        raise AlignmentRefused(text("a common row is named twice, or is not in the list"))
    if not in_order(tokens):
        raise AlignmentRefused(text("the common rows are not in the order of their elements"))
    if len(common(tokens, raised)[0]) != len(tokens):
        raise AlignmentRefused(text("an element that is said to be common was never blinded here"))
    return positions


def _keep(items: Items) -> list[Effect]:
    return []
