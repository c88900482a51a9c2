"""Settles with the other members of a round whose updates are averaged: carries their vote, and lets it come to an end.

The vote itself is in `flnet.rounds.contributor_vote`. Where nobody vanishes, each member accepts the set of all as soon
as it has what it needs of all, and nobody leads. Else the members that are there lead in turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence

from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, SetTimer
from flnet.protocol.secure_sum import AcceptPart, PreparePart, PromisePart, ProposePart
from flnet.protocol.updates import RoundKey
from flnet.rounds.contributor_vote import Contributors, ContributorVote

PAUSE = 2.0  # seconds after which the next member leads
MOST_DOUBLINGS = 5  # of the pause between two attempts of a leader: what kept one from success may last
VotePart = PreparePart | PromisePart | ProposePart | AcceptPart
VOTES = (PreparePart, PromisePart, ProposePart, AcceptPart)
Say = Callable[[PeerId | None, VotePart], list[Effect]]  # (to whom or None for all, part)


def digest_of(contributors: Contributors) -> str:
    """The digest of a set of contributors."""
    return hashlib.sha256(json.dumps(contributors).encode()).hexdigest()


class Settlement:
    """This node's part in settling the contributors of one round."""

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        group: str,
        members: Sequence[PeerId],
        quorum: Callable[[], int],
        say: Say,
        *,
        is_sound: Callable[[Contributors], bool],
        held: Callable[[], Contributors],
        is_voter: bool = True,
        has_parts: bool = False,
        covers: Callable[[PeerId, Collection[PeerId]], bool] | None = None,
    ) -> None:
        """Args:
        group: digest of who votes on what, to which all parts are bound.
        members: sorted.
        quorum: how many members must accept; see `ContributorVote`.
        say: makes the effects that send a part.
        is_sound: whether this node may accept a set.
        held: the contributors of which this node has what it needs, to propose them.
        is_voter: whether this node votes; one that lost its memory in the round does not.
        has_parts: whether nodes hold parts of updates, so that all should hold what is settled; see `ContributorVote`.
        covers: whether members together hold all parts of an update; see `ContributorVote`.
        """
        self._key, self._me, self._members, self._say, self._held = key, me, list(members), say, held
        voters = [peer for peer in members if is_voter or peer != me]
        self._votes = me in voters
        self._has_parts = has_parts
        self._vote = ContributorVote(me, group, voters, quorum, is_sound, held if has_parts else None, covers)
        self.timer = f"vote:{key.number}:{key.initiator}"
        self._attempts = 0
        self._is_patient = False  # gives those that no quorum needs a short while for their promises

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once they are settled."""
        return self._vote.settled

    def settle(self, is_settled: Callable[[Contributors], bool]) -> None:
        """Take for settled what a member accepted and others know to be settled.

        Args:
            is_settled: whether they do, of a set.
        """
        for contributors in sorted(self._vote.accepted_by_any) if self.settled is None else ():
            if is_settled(contributors):
                self._vote.settle(contributors)

    def accept_all(self) -> list[Effect]:
        """This node has what it needs of all members: accept the set of all."""
        return [] if self.settled else self._tell(self._vote.accept_all(self._held()))

    def receive(self, sender: PeerId, part: VotePart) -> list[Effect]:
        """Take a part of the vote."""
        return self._tell(self._vote.receive(sender, part))

    def lead_in_turn(self, here: Collection[PeerId], *, at_once: bool, pause: float = PAUSE) -> list[Effect]:
        """Nothing more is waited for: the first member that is there asks for a vote, the others if nothing comes of it.

        Args:
            here: members that are there.
            at_once: whether the first one does it now.
            pause: seconds after which the first one does it otherwise.
        """
        if self.settled is not None or not self._votes:
            return []
        rank = self._rank(here)
        if at_once and rank == 0:
            return self._lead(here)
        return [SetTimer(self.timer, pause + PAUSE * rank)]

    def timer_fired(self, here: Collection[PeerId]) -> list[Effect]:
        """It is this node's turn to lead; or it leads, and waits no longer for promises that no quorum needs."""
        if self.settled is not None or not self._votes:
            return []
        if not self._is_patient:
            return self._lead(here)
        self._is_patient = False
        return [*self._tell(self._vote.wait_no_longer()), self._next_turn(here)]

    def _lead(self, here: Collection[PeerId]) -> list[Effect]:
        """Ask for promises, and propose what they allow; then the others have their turn."""
        awaited = set(self._members) & {*here, self._me} if self._has_parts else set()
        self._is_patient = bool(awaited)
        self._attempts += 1
        said = self._tell(self._vote.lead(self._held(), awaited))
        return [*said, SetTimer(self.timer, PAUSE / 4) if awaited else self._next_turn(here)]

    def _next_turn(self, here: Collection[PeerId]) -> SetTimer:
        return SetTimer(self.timer, PAUSE * (2 + self._rank(here)) * 2 ** min(self._attempts - 1, MOST_DOUBLINGS))

    def _tell(self, said: Sequence[tuple[PeerId | None, VotePart]]) -> list[Effect]:
        return [effect for to, part in said for effect in self._say(to, part)]

    def _rank(self, here: Collection[PeerId]) -> int:
        """This node's place among the members that are there; the initiator is first."""
        there = [peer for peer in self._members if peer == self._me or peer in here]
        first = self._key.initiator
        return sorted(there, key=lambda peer: (peer != first, peer)).index(self._me)
