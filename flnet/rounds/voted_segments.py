"""The segments of a round whose members vote on whose updates are averaged, and find out who told them different things.

The vote begins once no further update is waited for. Where some members may lie (`SegmentedSum.liars`), it needs more of
them, and each of them has to hold its part of all that it accepts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from flnet.aggregation.segments import Verdict
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Effect
from flnet.protocol.events import Event, TimerFired
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import Made, SignedOfferPart, SumPart
from flnet.protocol.updates import Update
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.segment_disputes import Dispute, ToldUpdates, roots_in, wrong_results
from flnet.rounds.segmented_sum import TURNS, SegmentedSum
from flnet.rounds.settlement import PAUSE, VOTES, Settlement, VotePart, digest_of
from flnet.text import text

# Of the patience: how long who holds all waits for others that still download, before it leads the vote. Where members
# may lie, who leads too soon leaves out what others lack.
SHARE, LIARS_SHARE = 16, 2


class VotedSegments(SegmentedSum):
    """This node's part in averaging the updates of one round; the members vote on these."""

    def __init__(self, *args: Any) -> None:
        """Args:
        args: see `SegmentedSum`.
        """
        super().__init__(*args)
        self._settlement = self._new_settlement(is_voter=True)
        self._waits = self._is_complete = False
        self._told_updates = ToldUpdates(self._me)
        self._passed_on: dict[PeerId, SumPart] = {}  # what others were told by a node

    @property
    def timers(self) -> tuple[str, ...]:
        """The names of its timers, that of the vote among them."""
        return self._settlement.timer, *super().timers

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once a quorum has accepted them."""
        return self._settlement.settled

    @property
    def is_in_time(self) -> bool:
        """Whether no owner was waited for in vain yet."""
        return self._turns == 0

    @property
    def verdict(self) -> Verdict:
        """What follows from how far the updates moved, once the average is here."""
        assert self._verdict is not None
        return self._verdict

    def update_of(self, peer: PeerId) -> Update:
        """An update that was offered, without its parameters."""
        return self._updates[peer]

    def release(self) -> None:
        """Let go of the vote, which calls back; see `Round.release`."""
        del self._settlement

    # --- the vote

    @property
    def is_empty(self) -> bool:
        """Whether this node has no update that it could propose."""
        return not self._held()

    def abstain(self) -> None:
        """Vote no more: this node does not know what it has agreed to."""
        self._settlement = self._new_settlement(is_voter=False)

    def complete(self, chosen: Collection[PeerId]) -> list[Effect]:
        """No further update is waited for.

        Args:
            chosen: who was to train. If all of their updates are here, nobody need lead the vote: who lacks something may
                be downloading it still, and to lead sooner could leave it out.
        """
        held, was_settled = {peer for peer, _ in self._held()}, self.settled is not None
        if not held and not was_settled:
            return []  # the round is over here: a vote would only draw others into it
        self._is_complete, has_all = True, held == set(chosen)
        vote = self._settlement.accept_all() if has_all else []
        is_here = set(chosen) - self._distrusted <= held
        awaits_others = has_all and self._here == set(self.ring.order)
        pause = max(PAUSE, self._patience / (LIARS_SHARE if self.liars else SHARE)) if awaits_others else PAUSE
        vote += self._settlement.lead_in_turn(self._here, at_once=not is_here, pause=pause)
        return [*vote, *([] if was_settled else self._wait()), *self._go_on()]

    def receive(self, sender: PeerId, part: SecurePart, params: Params | None = None) -> list[Effect]:
        """Take a part that a peer sent.

        Args:
            params: the segment whose result it states, as `brought` has it.
        """
        was_settled = self.settled is not None
        if isinstance(part, SumPart) and not part.is_passed_on:
            effects = super().receive(sender, part, params)
            self._settlement.settle(self._is_averaged)
            return effects if was_settled else [*effects, *self._begin(), *self._go_on()]
        self._results.gone.discard(sender)
        if isinstance(part, VOTES):
            effects = [*self._compare(sender, part), *self._settlement.receive(sender, part)]
            self._settlement.settle(self._is_averaged)
            return [*effects, *([] if was_settled else self._begin()), *self._go_on()]
        match part:
            case SignedOfferPart() if part.peer in self.ring.order:
                self._told_updates.note(part.contribution("", self.key))
                return [*self._compare(sender, part), *self._go_on()]
            case SumPart(maker=str() as maker) if maker in self.ring.order and maker != self._me:
                self._passed_on.setdefault(PeerId(maker), part)
        return self._go_on()

    def leave(self, peer: PeerId) -> list[Effect]:
        """A peer vanished, or takes no part any more: without it, not all can accept what all hold."""
        effects = super().leave(peer)
        return [*effects, *(self._settlement.lead_in_turn(self._here, at_once=False) if self._is_complete else [])]

    def hurry(self) -> list[Effect]:
        """This node has come to a vote that is under way, and waits for nothing else: it is to end in time."""
        return [] if self._waits else self._wait()

    def handle(self, event: Event) -> list[Effect]:
        """Handle the end of a download, or a timer."""
        if isinstance(event, TimerFired) and event.name == self._settlement.timer:
            was_settled = self.settled is not None
            effects = self._settlement.timer_fired(self._here)
            return [*effects, *([] if was_settled else self._begin()), *self._go_on()]
        return super().handle(event)

    def _new_settlement(self, *, is_voter: bool) -> Settlement:
        members, key = sorted(self.ring.order), self.key
        first = f"{key.number} {key.initiator} {self.ring.copies}"
        more = [*sorted(self.ring.whole), *(self.ring.places if len(self.ring.places) > len(members) else ())]
        facts = "\n".join([first, *members, *more])
        group, least = hashlib.sha256(facts.encode()).hexdigest(), self._quorum(len(members))
        return Settlement(
            key,
            self._me,
            *(group, members, lambda: least, self._say_vote),
            is_sound=self._is_sound,
            held=self._held,
            is_voter=is_voter,
            has_parts=True,
            covers=self._covers if self.liars else None,
        )

    def _say_vote(self, to: PeerId | None, part: VotePart) -> list[Effect]:
        return self._say(to, part)

    @property
    def _here(self) -> set[PeerId]:
        return set(self.ring.order) - self._results.gone

    def _wait(self) -> list[Effect]:
        self._waits = True
        return super()._wait()

    def _wait_no_longer(self) -> list[Effect]:
        if self.settled is not None:
            return super()._wait_no_longer()
        self._turns += 1
        if self._turns >= TURNS:
            self.failure = text("the nodes did not agree in time on whose updates are averaged")
        return [] if self.failure else self._wait()

    def _is_averaged(self, contributors: Contributors) -> bool:
        """Whether honest members state results of these contributors, which they do once these are settled.

        Who comes late may not hear of a quorum any more: members may have forgotten that they were in it. The word of one
        member is not enough where there are others that could say the same, and none is heard on who is no member, or on
        an update of which this node was told something else.
        """
        members, of = self.ring.order, digest_of(contributors)
        is_known = {peer for peer, _ in contributors} <= self.ring.members
        fits = self.liars or all(self._roots.get(peer, root) == root for peer, root in contributors)
        if not (contributors and is_known and fits):
            return False
        states = [self._results.stated_by(peer) for peer in members]
        tellers = sum(any(part.contributors == of for part in parts) for parts in states)
        return tellers > max(self.liars, min(1, len(members) - 3))

    def _held(self) -> Contributors:
        peers = self._updates.keys() - self._distrusted
        return tuple((peer, self._roots[peer]) for peer in sorted(peers) if self.has(peer))

    def _is_sound(self, contributors: Contributors) -> bool:
        """Whether this node may accept a set: of members, with what they told this node.

        Where a member may lie, it could name an update that nobody was told of, or can download: then this node must have
        what it is to hold of each.
        """
        if not contributors or not {peer for peer, _ in contributors} <= self.ring.members:
            return False
        if self.liars:
            return set(contributors) <= set(self._held())
        return all(self._roots.get(peer, root) == root for peer, root in contributors)

    # --- disputes

    def disputes(self) -> Mapping[PeerId, Dispute]:
        """Who told nodes different things in this round, or stated wrong results, as far as this node knows."""
        told, settled = self._told_updates, self.settled or ()
        otherwise = {peer for peer, root in settled if self._roots.get(peer, root) != root} | self._suspects
        found = {peer: Dispute(text("it told others of another update than this node")) for peer in otherwise}
        found |= {peer: told.proof(peer) for peer in told.two_faced}
        for peer, wrong in self._wrong_results().items():
            found.setdefault(peer, wrong)
        return found

    def pass_on(self) -> list[Effect]:
        """Tell all of wrong results that nodes signed, of each node once: it may have told others the right one."""
        effects: list[Effect] = []
        for peer, wrong in self._wrong_results().items():
            if wrong.statements and peer not in self._passed_on:
                self._passed_on[peer] = SumPart(**wrong.statements[0], maker=peer)
                effects += self._say(None, self._passed_on[peer], peer)
        return effects

    @property
    def silent(self) -> Set[PeerId]:
        """The owners that stated nothing, though their updates are averaged."""
        owners = {peer for peer, _ in self.settled or ()} & set(self.ring.order)
        return {peer for peer in owners if peer != self._me and not self._results.stated_by(peer)}

    def _wrong_results(self) -> dict[PeerId, Dispute]:
        if self.settled is None or not self._is_common:
            return {}
        found, counts = dict[PeerId, Dispute](), self._counts
        for peer in self.ring.order:
            passed_on = [self._passed_on[peer]] if peer in self._passed_on else []
            wrong = wrong_results([*self._results.stated_by(peer), *passed_on], counts)
            found |= {} if wrong is None else {peer: wrong}
        return found

    @property
    def _counts(self) -> Mapping[str, Mapping[int, Made]]:
        """The results that count, by what they are of, and by segment."""
        segments = range(self._segments.count)
        decided = {segment: made for segment in segments if (made := self._results.decided(segment)) is not None}
        if not self._changed:
            return {self._of_settled: self._first | decided}
        own = {segment: (params.digest, ()) for segment, params in self._made.items()}
        return {self._of_settled: self._first, self._changed: own | decided}

    def _compare(self, sender: PeerId, part: SecurePart) -> list[Effect]:
        """If a member was told of another update of a peer than this node, tell all what the peer signed for this one."""
        effects: list[Effect] = []
        for peer, root in roots_in(part):
            if self._roots.get(peer, root) != root and sender in self.ring.order:
                shown = self._told_updates.differs(peer, sender)
                effects += [] if shown is None else self._say(None, shown, shown.peer)
        return effects

    def _note(self, update: Update, digests: Sequence[Digest]) -> None:
        super()._note(update, digests)
        if update.peer != self._me:
            self._told_updates.note(update.contribution)

    @property
    def _distrusted(self) -> set[PeerId]:
        """Whose updates this node does not propose."""
        return self._told_updates.two_faced | self._suspects

    @property
    def _suspects(self) -> set[PeerId]:
        """Who told more members of another update than may lie about that; nobody where any member may."""
        otherwise = self._told_updates.otherwise
        return {peer for peer, tellers in otherwise.items() if len(tellers) > self.liars} if self.liars else set()
