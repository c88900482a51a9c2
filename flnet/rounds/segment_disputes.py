"""Finds who told nodes different things in a round whose updates are averaged in segments.

A node knows of another what it was told itself. Votes and results show that others were told something else. Where nodes
sign what they state, it is passed on, and two signed statements that contradict each other prove who made them. In an open
mesh it remains a suspicion: whoever passes something on may have made it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flnet.params.params import PeerId
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import Made, SignedOfferPart, SumPart
from flnet.protocol.updates import Contribution
from flnet.text import text

MOST_STATEMENTS = 4  # that a record keeps of one node
TWO_UPDATES = text("it signed two different updates of this round")


@dataclass(frozen=True)
class Dispute:
    """Why a member is not to be trusted.

    Attributes:
        statements: what it signed, as proof; empty where nothing is signed.
    """

    reason: str
    statements: tuple[Mapping[str, Any], ...] = ()

    def view(self) -> Mapping[str, Any]:
        """For the record of the round."""
        return {"reason": self.reason, "statements": [dict(stated) for stated in self.statements]}


class ToldUpdates:
    """What members were told of each other's updates.

    Attributes:
        otherwise: by member: who was told of another update of it than this node.
    """

    def __init__(self, me: PeerId) -> None:
        self._me = me
        self.otherwise: dict[PeerId, set[PeerId]] = {}
        self._signed: dict[PeerId, dict[str, Contribution]] = {}  # by root; two are enough

    @property
    def two_faced(self) -> set[PeerId]:
        """Who signed two updates."""
        return {peer for peer, signed in self._signed.items() if len(signed) > 1}

    def note(self, stated: Contribution | None) -> None:
        """Note what a member states of its update, if it is signed; its signature was checked."""
        if stated is None or not stated.is_signed or not stated.segments:
            return
        signed = self._signed.setdefault(PeerId(stated.peer), {})
        if len(signed) < 2:
            signed.setdefault(stated.segments, stated)

    def differs(self, peer: PeerId, teller: PeerId) -> SignedOfferPart | None:
        """A member was told of another update of a peer: what the peer signed for this node, if all should hear it now."""
        if peer in (self._me, teller):
            return None
        is_new = peer not in self.otherwise
        self.otherwise.setdefault(peer, set()).add(teller)
        signed = self._signed.get(peer, {})
        return SignedOfferPart.of(next(iter(signed.values()))) if is_new and signed else None

    def proof(self, peer: PeerId) -> Dispute:
        """Who signed two updates, with both statements."""
        return Dispute(TWO_UPDATES, tuple(stated.view() for stated in self._signed[peer].values()))


def roots_in(part: SecurePart) -> Iterable[tuple[PeerId, str]]:
    """Of whose updates a part tells, and of which."""
    if isinstance(part, SignedOfferPart):
        yield PeerId(part.peer), part.segments
    for field in ("contributors", "held"):
        told = getattr(part, field, None)
        if isinstance(told, Mapping):
            yield from ((PeerId(peer), root) for peer, root in told.items())


def wrong_results(parts: Iterable[SumPart], counts: Mapping[str, Mapping[int, Made]]) -> Dispute | None:
    """What is wrong with results that a member stated; None if nothing is.

    That it averaged other updates proves nothing: who leads the vote may have lied to it.

    Args:
        counts: the results that count, by the digest of what they are of, and by segment.
    """
    parts = list(parts)
    wrong: list[SumPart] = []
    segments = set[int]()
    for part in parts:
        right = counts.get(part.contributors, {})
        others = {each.segment for each in part.results if right.get(each.segment, each.made) != each.made}
        wrong += [part] if others else []
        segments |= others
    if wrong:
        shown = ", ".join(map(str, sorted(segments)[:5])) + ("..." if len(segments) > 5 else "")
        reason = text("it stated other results of segments {numbers} than those that count", shown)
        return Dispute(reason, tuple(part.view() for part in wrong if part.signature)[:MOST_STATEMENTS])
    if any(part.contributors not in counts for part in parts):
        return Dispute(text("it stated results of other updates than those that were settled"))
    return None
