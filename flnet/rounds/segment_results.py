"""What the members of a round state that they made of its segments, and who is to make each one.

What most owners of a segment state counts. An owner that says nothing is replaced by the next node in the ring. Where all
owners have stated results, and none of these has a majority, the next node makes the segment, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flnet.params.params import PeerId
from flnet.protocol.segments import Made, SumPart
from flnet.rounds.segment_ring import SegmentRing

MOST_SETS = (
    2  # of contributors of which a node states results: as they were settled, and as they count after a verdict
)


class SegmentResults:
    """The results of one round.

    Attributes:
        of: the digest of the contributors whose averages count; empty until they are settled.
        gone: members that take no part any more.
    """

    def __init__(self, ring: SegmentRing, count: int) -> None:
        """Args:
        count: how many segments there are.
        """
        self.of, self.gone = "", set[PeerId]()
        self._ring, self._count, self._moves = ring, count, 0
        # by segment: what nodes made, by what it is of
        self._told: dict[int, dict[PeerId, dict[str, Made]]] = {}
        self._parts: dict[PeerId, list[SumPart]] = {}  # in which they stated it
        self._late: dict[int, set[PeerId]] = {}  # by segment: owners that were waited for in vain
        self._more: Counter[int] = Counter()  # by segment: owners that were added because the others differ

    def begin(self, of: str, moves: int) -> None:
        """From now on, averages of these contributors count.

        Args:
            moves: of how many updates a result has to say how far they moved.
        """
        self.of, self._moves = of, moves
        self._late, self._more = {}, Counter()

    def note(self, sender: PeerId, part: SumPart) -> None:
        """Note what a member states of segments; of each one, that is what it stated first."""
        if sender not in self._ring.order or any(result.segment >= self._count for result in part.results):
            return
        is_new = False
        for result in part.results:
            told = self._told.setdefault(result.segment, {}).setdefault(sender, {})
            if len(told) < MOST_SETS and part.contributors not in told:
                told[part.contributors], is_new = result.made, True
        if is_new:  # so they are at most as many as there is room for results
            self._parts.setdefault(sender, []).append(part)

    def stated_by(self, peer: PeerId) -> Sequence[SumPart]:
        """All that a member stated, of whatever contributors."""
        return self._parts.get(peer, ())

    def stated(self, segment: int) -> dict[PeerId, Made]:
        """What members made of the contributors that count."""
        told = {peer: made.get(self.of) for peer, made in self._told.get(segment, {}).items()}
        return {peer: made for peer, made in told.items() if made and len(made[1]) == self._moves}

    @property
    def is_any_stated(self) -> bool:
        """Whether a member has stated what it made of the contributors that count."""
        return any(self.of in parts for told in self._told.values() for parts in told.values())

    def owners(self, segment: int) -> list[PeerId]:
        """Who is to make a segment now, the first owner first."""
        late = self._late.get(segment, set()) - self.stated(segment).keys()
        return self._ring.owners(segment, self.gone | late, self._more[segment])

    def decided(self, segment: int) -> Made | None:
        """What most owners made of a segment; None as long as they have not said so."""
        stated = self.stated(segment)
        made = Counter(stated[peer] for peer in self.owners(segment) if peer in stated)
        least = self._ring.copies // 2 + 1
        return next((each for each, count in made.most_common(1) if count >= least), None)

    def makers(self, segment: int, made: Made) -> list[PeerId]:
        """Members that made this of a segment, and serve it."""
        return [peer for peer, each in self.stated(segment).items() if each == made and peer not in self.gone]

    def replace_silent(self, segment: int) -> None:
        """Owners were waited for in vain: let others make the segment."""
        # Also this node: it may lack an update that it did not hear of in time.
        silent = set(self.owners(segment)) - self.stated(segment).keys()
        self._late.setdefault(segment, set()).update(silent)
        self._more[segment] += not silent and self.decided(segment) is None
