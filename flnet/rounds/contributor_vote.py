"""The vote of the members of a secure sum on whose masked updates it holds, before any share is revealed.

If two members revealed shares for different sets of contributors, the difference of two sums could be an update. So a
set is settled only when as many members as a quorum, which is more than half of them, have accepted it under one ballot:
no other set can then be settled, whatever is lost and whoever vanishes. This is single-decree Paxos (Lamport, "Paxos
Made Simple", 2001) with one addition: under ballot 0, which nobody leads, a member that holds the masked updates of all
members accepts the set of all. So where nobody vanishes, the vote takes one message from each member to all.

A member never accepts under a ballot below one that it has promised, and a leader proposes what was accepted under the
highest ballot that a quorum tells of.

Paxos is not made for members that lie. What a few of them could do to stop the vote for good is ruled out:

- Ballots belong to members in turn, and a member has only some, none of them far above all others. So nobody uses up the
  numbers, or always comes before the others.
- What was accepted binds a leader only if as many tell of it as two quorums have in common. Whatever was settled has so
  many, and it is more than the liars that the threshold bears with: these cannot bind a leader to a set that nobody has.
- Who sent one masked update to some members and another one to others is left out by every second proposal of a leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from flnet.params.params import PeerId
from flnet.protocol.secure_sum import MAX_BALLOT, AcceptPart, PreparePart, PromisePart, ProposePart

MOST_RAISES = 8  # times that a member may name a ballot above all others
FARTHEST = 4  # turns of all members by which it may be above

Contributors = tuple[tuple[PeerId, str], ...]  # sorted, each with the digest of its masked update
Said = tuple[PeerId | None, PreparePart | PromisePart | ProposePart | AcceptPart]  # to a member, or to all (None)


def contributors_of(members: Mapping[str, str]) -> Contributors:
    """Contributors in their order."""
    return tuple((PeerId(peer), members[peer]) for peer in sorted(members))


class ContributorVote:
    """One member's part in the vote, or the view of a node that is no member."""

    def __init__(
        self,
        me: PeerId,
        group: str,
        members: Sequence[PeerId],
        quorum: Callable[[], int],
        is_sound: Callable[[Contributors], bool],
        held: Callable[[], Contributors] | None = None,
        covers: Callable[[PeerId, Collection[PeerId]], bool] | None = None,
    ) -> None:
        """Args:
        members: sorted; without `me` where this node only listens.
        quorum: how many members must accept, more than half of all nodes that may vote in the round. That number can
            change, because another node may be met that this one did not know of.
        is_sound: whether this node may accept a set.
        held: the updates of which this node has what it is to hold, where nodes hold parts of updates; None where each
            holds them whole. Then all members must accept under ballot 0, and not only a quorum, and a leader proposes
            the updates of those that promised, and of others what all of these hold: who has vanished takes nothing with
            it that is settled.
        covers: whether members together hold all parts of an update; None where its sender is trusted to serve it.
        """
        self._me, self._group, self._members, self._quorum = me, group, list(members), quorum
        self._is_sound, self._held, self._covers = is_sound, held, covers
        self._awaited: set[PeerId] = set()  # whose promises are waited for, though a quorum has come
        self._helds: dict[PeerId, Mapping[str, str]] = {}  # what those hold that promised
        self._promised = 0
        self._accepted: tuple[int, Contributors] | None = None
        self._accepts: dict[PeerId, tuple[int, Contributors]] = {}  # the newest of each member
        self._ballot = 0  # under which this node leads; 0: it does not
        self._promises: dict[PeerId, tuple[int, Contributors] | None] = {}
        self._own: Contributors = ()
        self._highest = 0  # ballot that was heard of
        self._raises: Counter[PeerId] = Counter()
        self._settled: Contributors | None = None

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once a quorum has accepted them."""
        if self._settled is None and self._accepts:
            (ballot, contributors), alike = Counter(self._accepts.values()).most_common(1)[0]
            needs_all = ballot == 0 and self._held is not None
            least = max(self._quorum(), len(self._members)) if needs_all else self._quorum()
            self._settled = contributors if alike >= least else None
        return self._settled

    @property
    def accepted_by_any(self) -> set[Contributors]:
        """The sets that members accepted last."""
        return {contributors for _, contributors in self._accepts.values()}

    def settle(self, contributors: Contributors) -> None:
        """These are settled, as who counted the acceptances tells."""
        self._settled = self._settled or contributors

    @property
    def accepted(self) -> AcceptPart | None:
        """The newest acceptance of this node, for who did not hear it."""
        return None if self._accepted is None else self._acceptance(*self._accepted)

    def accept_all(self, contributors: Contributors) -> list[Said]:
        """Accept the set of all members under ballot 0."""
        if self._me not in self._members or self._promised > 0 or self._accepted is not None:
            return []
        return self._accept(0, contributors)

    def lead(self, own: Contributors, awaited: Collection[PeerId] = ()) -> list[Said]:
        """Ask for promises, to propose a set under a new ballot.

        Args:
            own: what to propose if nothing was accepted before.
            awaited: members that are waited for, though a quorum is enough.
        """
        self._awaited = set(awaited)
        count = len(self._members)
        place = self._members.index(self._me)
        turn = max(0, self._highest - 1 - place) // count + 1 if self._highest else 0
        ballot = 1 + place + turn * count
        if ballot <= self._highest:
            ballot += count
        if ballot > MAX_BALLOT:
            return []
        self._ballot, self._own = ballot, own
        self._promised = self._highest = ballot
        self._promises, self._helds = {self._me: self._accepted}, {}
        return [(None, PreparePart(group=self._group, ballot=ballot)), *self._propose()]

    def wait_no_longer(self) -> list[Said]:
        """A quorum of promises is enough from now on: propose, if it has come and nothing was proposed yet."""
        self._awaited = set()
        return self._propose() if self._ballot else []

    def receive(self, sender: PeerId, part: PreparePart | PromisePart | ProposePart | AcceptPart) -> list[Said]:
        """Take a message of a member; others are not heard."""
        if sender not in self._members or not self._hears(sender, part):
            return []
        match part:
            case PreparePart(ballot=ballot) if self._me in self._members:
                if ballot > self._promised:
                    self._promised, self._ballot = ballot, 0
                # A higher one tells a leader to ask under a higher one.
                return [(sender, self._promise(self._promised))]
            case PromisePart(ballot=ballot) if ballot == self._ballot and self._ballot:
                before, told = part.accepted, contributors_of(part.contributors or {})
                self._promises[sender] = None if before is None else (before, told)
                self._helds[sender] = dict(part.held or {})
                return self._propose()
            case ProposePart(ballot=ballot, contributors=members) if ballot >= self._promised and ballot > 0:
                contributors = contributors_of(members)
                is_other = (
                    self._accepted is not None
                    and self._accepted[0] == ballot
                    and self._accepted[1] != contributors
                )
                if self._me in self._members and self._is_sound(contributors) and not is_other:
                    self._ballot = 0  # under a lower one this node leads no more
                    return self._accept(ballot, contributors)
            case AcceptPart(ballot=ballot, contributors=members):
                self._count(sender, ballot, contributors_of(members))
        return []

    def _hears(self, sender: PeerId, part: PreparePart | PromisePart | ProposePart | AcceptPart) -> bool:
        """Note the ballot of a message; return whether it is heard.

        A promise of a higher ballot than this node asked for is heard, too: the next one has to be above it.
        """
        ballot = part.ballot
        if (
            isinstance(part, PreparePart | ProposePart)
            and self._members[(ballot - 1) % len(self._members)] != sender
        ):
            return False
        if isinstance(part, AcceptPart) or ballot <= self._highest:
            return True
        self._raises[sender] += 1
        if self._raises[sender] > MOST_RAISES:
            return False
        most = self._highest + FARTHEST * len(self._members)
        self._highest = min(ballot, most)
        return ballot <= most

    def _promise(self, ballot: int) -> PromisePart:
        held: dict[str, str] | None = dict(self._held()) if self._held is not None else None
        if self._accepted is None:
            return PromisePart(group=self._group, ballot=ballot, held=held or None)
        before, contributors = self._accepted
        told: dict[str, str] = dict(contributors)
        return PromisePart(group=self._group, ballot=ballot, accepted=before, contributors=told, held=held or None)

    def _propose(self) -> list[Said]:
        """Propose once a quorum has promised: what may be settled already, else what this node holds."""
        quorum = self._quorum()
        if len(self._promises) < quorum or not self._awaited <= self._promises.keys():
            return []
        ballot, told = self._ballot, self._may_be_settled()
        least = quorum + len(self._promises) - len(self._members)
        supporters = Counter(contributors for _, contributors in told)
        binding = [accepted for accepted in told if supporters[accepted[1]] >= least]
        if self._held is not None:
            self._own = tuple(entry for entry in self._own if self._is_safe(*entry))
        if self._covers is not None:
            self._own = self._acceptable(self._own, quorum)
        contributors = max(binding)[1] if binding else self._undisputed(ballot, [each for _, each in told])
        if not binding and not self._is_sound(contributors):
            return []
        self._ballot, self._promises = 0, {}
        proposal = ProposePart(group=self._group, ballot=ballot, contributors=dict(contributors))
        return [(None, proposal), *self._accept(ballot, contributors)]

    def _is_safe(self, peer: PeerId, digest: str) -> bool:
        """Whether an update is not lost if its sender has vanished, or the sender is there."""
        holders = {self._me, *(member for member, held in self._helds.items() if held.get(peer) == digest)} - {
            peer
        }
        if self._covers is not None and peer != self._me and not self._covers(peer, holders):
            return False
        return peer in self._promises or all(held.get(peer) == digest for held in self._helds.values())

    def _acceptable(self, own: Contributors, quorum: int) -> Contributors:
        """What a quorum can accept of these updates, as each member has to hold its part of all that it accepts.

        What the fewest hold of those that promised is left out first.
        """
        helds = [frozenset(held.items()) for held in self._helds.values()]
        while own and 1 + sum(held.issuperset(own) for held in helds) < quorum:
            rarest = min(own, key=lambda entry: (sum(entry in held for held in helds), entry))
            own = tuple(entry for entry in own if entry != rarest)
        return own

    def _may_be_settled(self) -> list[tuple[int, Contributors]]:
        """What members accepted, as those that promised tell, where it may be settled already.

        Where all must accept under ballot 0, nothing is settled there if one that promised a higher one has not. Who
        accepted the same set under a later ballot may have accepted it there before, as that is what bound the later
        leader.
        """
        told = [accepted for accepted in self._promises.values() if accepted is not None]
        may_be_all = len(told) == len(self._promises) and len({contributors for _, contributors in told}) == 1
        return told if self._held is None or may_be_all else [accepted for accepted in told if accepted[0] > 0]

    def _undisputed(self, ballot: int, told: Sequence[Contributors]) -> Contributors:
        """What this node holds; in every second turn without those of whom others hold something else.

        Not always, because a liar may say so of anybody.
        """
        is_second = (ballot - 1) // len(self._members) % 2 == 1
        others = {entry for contributors in told for entry in contributors if entry not in self._own}
        rest = tuple(entry for entry in self._own if entry[0] not in {peer for peer, _ in others})
        return rest if is_second and self._is_sound(rest) else self._own

    def _accept(self, ballot: int, contributors: Contributors) -> list[Said]:
        self._promised, self._accepted = ballot, (ballot, contributors)
        self._count(self._me, ballot, contributors)
        return [(None, self._acceptance(ballot, contributors))]

    def _acceptance(self, ballot: int, contributors: Contributors) -> AcceptPart:
        return AcceptPart(group=self._group, ballot=ballot, contributors=dict(contributors))

    def _count(self, member: PeerId, ballot: int, contributors: Contributors) -> None:
        before = self._accepts.get(member)
        if before is None or before[0] <= ballot:
            self._accepts[member] = ballot, contributors
