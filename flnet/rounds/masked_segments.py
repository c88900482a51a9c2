"""The sum of masked updates, segment by segment: nobody sees more than segments of them, and these are masked.

Whose masked updates are summed is settled by the secure sum that this is a part of (`flnet.rounds.secure_sum`), as the
members vote there before any share is revealed. All else is as for other updates: each owner adds its segment, and all
download what the owners made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from flnet.aggregation.screening import Bounds
from flnet.params.params import Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.effects import Effect
from flnet.protocol.secure_sum import AddedPart, SecurePart, SegmentDigest
from flnet.protocol.segments import SegmentResult, SumPart
from flnet.protocol.updates import RoundKey
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.secure_group import Group
from flnet.rounds.segment_ring import SegmentRing
from flnet.rounds.segmented_sum import SegmentedSum

Covers = Callable[[PeerId, Collection[PeerId]], bool]
SendPart = Callable[[PeerId | None, SecurePart], list[Effect]]  # of the secure sum, which downloads segments


class MaskedSegments(SegmentedSum):
    """This node's part in adding the masked updates of one group; `average` is their sum."""

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        group: Group,
        copies: int,
        form: Schema,
        patience: float,
        send: SendPart,
    ) -> None:
        """Args:
        group: whose members add them.
        copies: how many of them add each segment.
        form: of a masked update.
        patience, send: see `SegmentedSum`.
        """
        self._agreed: Contributors | None = None
        ring, segments = SegmentRing(key, list(group.members), copies), Segments(form, len(group.members))

        def say(to: PeerId | None, part: SecurePart, params: Params | None) -> list[Effect]:
            assert isinstance(part, SumPart)  # the vote is that of the secure sum
            sums = tuple(SegmentDigest(segment=made.segment, digest=made.digest) for made in part.results)
            return send(to, AddedPart(group=group.id, contributors=part.contributors, sums=sums))

        super().__init__(key, me, ring, segments, patience, Bounds(ratio=0), Params, say)

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once the secure sum has settled them."""
        return self._agreed

    @property
    def covers(self) -> Covers | None:
        """Whether members together hold all of an update, where some of them may lie; see `ContributorVote`."""
        return self._covers if self.liars else None

    def settle(self, contributors: Contributors) -> list[Effect]:
        """It is settled whose masked updates are added."""
        self._agreed = contributors
        return [*self._begin(), *self._go_on()]

    def heard(self, sender: PeerId, part: AddedPart) -> list[Effect]:
        """A member has added segments."""
        results = tuple(SegmentResult(segment=each.segment, digest=each.digest) for each in part.sums)
        return self.receive(sender, SumPart(contributors=part.contributors, results=results))

    def root(self, peer: PeerId) -> str:
        """The digest by which the members vote on a peer's masked update."""
        return self._roots[peer]
