"""A round whose updates are averaged segment by segment (`flnet.rounds.voted_segments`).

It differs from a common round in what travels: an update is offered to all, and each node downloads only the segments of
it that it averages. Who takes part is stated by the start, because the owners of the segments follow from it: a node that
does not know that takes the average of the others.

A member that knows whole updates only, as a node of the thesis, sends its update to all, and gets theirs: all of them count
as in a mesh. It owns no segment, and has no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace
from functools import partial
from typing import Any

from flnet.aggregation.screening import with_norms
from flnet.errors import ParamsRefused, StaleRound
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.effects import Average, Effect, Send
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    DeclineReceived,
    Event,
    Fetched,
    FetchFailed,
    PartReceived,
    TimerFired,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import MOST_OWNED, ModelParams
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import Update
from flnet.rounds.base_round import OPEN
from flnet.rounds.download import in_turn
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.model import Start
from flnet.rounds.round import kept_update
from flnet.rounds.segment_ring import SegmentRing
from flnet.rounds.series import Opening
from flnet.rounds.steps import Phase
from flnet.rounds.voted_round import VotedRound
from flnet.rounds.voted_segments import VotedSegments
from flnet.text import text

WHOLE = text("updates are averaged in segments here (FLNET_TOPOLOGY=segments), and this is a whole one")
UNKNOWN = text("the start of this round, which says who takes part, did not reach it")


class SegmentedGathering(Gathering):
    """Gathers offers of updates, of which only the segments are downloaded that this node averages.

    Attributes:
        sum: of the round; None as long as it is not known who takes part.
    """

    def __init__(self, make_sum: Callable[[], VotedSegments | None], *args: Any, **more: Any) -> None:
        """Args:
        make_sum: makes the sum, if it is known who takes part.
        args, more: those of a `Gathering`, but it has room for all: what it holds of an update is no more than a share,
            but for whole ones, whose senders serve no segments: these it keeps.
        """
        super().__init__(*args, **{**more, "room": None})
        self._make_sum = make_sum
        self.sum = make_sum()
        # Those that came before it was known who takes part.
        self._aside: dict[PeerId, UpdateReceived | UpdateOffered] = {}
        self._offered: set[PeerId] = set()

    def know_members(self) -> list[Effect]:
        """It is known now who takes part: take the offers that came before."""
        self.sum = self.sum or self._make_sum()
        aside, self._aside = self._aside, {}
        return [effect for offer in aside.values() for effect in self.receive(offer)]

    def receive(self, event: Event) -> list[Effect]:
        """Handle an update or the offer of one, a refusal, the loss of a peer, or the timer."""
        match event:
            case UpdateReceived(update) | UpdateOffered(update) if self.sum is None and update.peer != self.me:
                self._aside[update.peer] = event
                return []
            case UpdateReceived(update) if self.sum is not None and update.peer == self.me:
                self.sum.learn(update)
            case UpdateReceived(update) | UpdateOffered(update) if self.sum is not None:
                ring, is_whole = self.sum.ring, isinstance(event, UpdateReceived)
                if update.peer not in (ring.whole if is_whole else ring.order):
                    return []  # no member could accept a set with it
                self.expected.add(update.peer)
                self._offered.add(update.peer)
                taken = self.sum.take_whole(update) if is_whole else self.sum.offer(update, update.segments)
                return [*taken, *self.arrived()]
            case DeclineReceived(peer) if self.sum is not None and peer not in self.updates:
                return [*super().receive(event), *self.sum.leave(peer)]
        return super().receive(event)

    def arrived(self) -> list[Effect]:
        """Count the updates of which all is here that this node is to hold."""
        effects: list[Effect] = []
        for peer in sorted(self._offered - self.updates.keys()):
            if self.sum is not None and self.closed is None and self.sum.has(peer):
                update = self.sum.update_of(peer)
                effects += [*self._take(update), self.counted(update)]
        return effects

    def close(self, why: Closing) -> list[Effect]:
        """Close; the members settle now whose updates are averaged."""
        if self.closed is not None:
            return []
        effects: list[Effect] = [effect for effect in super().close(why) if not isinstance(effect, Average)]
        return [*effects, *(self.sum.complete(self.chosen or ()) if self.sum is not None else [])]


class SegmentedRound(VotedRound):
    """One round whose updates are averaged segment by segment."""

    message = SegmentsMessage
    gathering: SegmentedGathering
    _is_voter = True
    _repeated: Set[PeerId] = frozenset()  # who was told all of the round once more

    @property
    def sum(self) -> VotedSegments | None:
        """How the average is made; None as long as it is not known who takes part."""
        return self.gathering.sum

    def _new_gathering(
        self, expected: Collection[PeerId], chosen: Collection[PeerId] | None = None
    ) -> SegmentedGathering:
        kind = partial(SegmentedGathering, self._new_sum)
        gathering = self._parts.gathering(self.key, expected, chosen, kind)
        assert isinstance(gathering, SegmentedGathering)
        return gathering

    @property
    def _whole(self) -> frozenset[PeerId]:
        """The members that know whole updates only."""
        return frozenset() if self.choice is None else frozenset(map(PeerId, self.choice.whole or ()))

    def _new_sum(self) -> VotedSegments | None:
        settings, held = self._settings, self._held
        if self.choice is None or held.model is None:
            return None
        members = [PeerId(member) for member in self.choice.members]
        ring = SegmentRing(self.key, members, settings.rules.topology.copies, self._whole, self.choice.owned)
        segments = Segments(held.schema, len(ring.places))
        how = (ring, segments, settings.waits.average, settings.rules.bounds, lambda: held.current.shared)
        made = VotedSegments(self.key, settings.my_id, *how, self._say_part)
        if not self._is_voter:
            made.abstain()
        return made

    def release(self) -> None:
        """Let go of what the round holds; see `Round.release`."""
        if self.sum is not None:
            self.sum.release()
        super().release()

    # --- what its kinds decide

    def vote_lost(self) -> str:
        """After a restart, a node still trains and averages; see `VotedRound.vote_lost`."""
        self._is_voter = False
        if self.sum is not None:
            self.sum.abstain()
        return ""

    def enter(self, opening: Opening, awaited: Start | None, is_mine: bool) -> list[Effect]:
        """Begin the round; see `Round.enter`.

        A node that did not hear its start, but hears of the round from others or is told of it again, may have lost its
        memory since it voted, unless the round began after it was started.
        """
        members = () if self.choice is None else self.choice.members
        is_late = opening.is_again or not opening.heard_start
        if is_late and not self._peers.saw_begin(self.key, members):
            self.vote_lost()
        return super().enter(opening, awaited, is_mine)

    def part_received(self, event: PartReceived) -> list[Effect]:
        """Handle a part of the conversation; see `VotedRound.part_received`.

        Raises:
            ParamsRefused: the segment beside it is not the one whose result it states.
        """
        if event.params is not None and self.sum is not None:
            event = replace(event, params=self.sum.brought(event.part, event.params))
        return super().part_received(event)

    def _take_part_of(self, event: PartReceived) -> list[Effect]:
        if self.sum is None:
            self._inbox.put_part(event)  # until it is known who takes part
            return []
        hurried = self.sum.hurry() if self.phase is Phase.GATHERING and not self.gathering.updates else []
        effects = [*hurried, *self.sum.receive(event.peer, event.part, event.params)]
        return [*effects, *self._name_disputed()] if self.record.digest is not None else effects

    def _name_disputed(self) -> list[Effect]:
        """Say who told nodes different things, or stated wrong results; with what it signed, as far as it did."""
        assert self.sum is not None
        effects: list[Effect] = []
        for peer, dispute in sorted(self.sum.disputes().items()):
            if peer not in self.record.disputed:
                words = (
                    text("{peer} broke the protocol, as what it signed shows: {reason}", peer, dispute.reason)
                    if dispute.statements
                    else text("{peer} may have broken the protocol: {reason}", peer, dispute.reason)
                )
                effects.append(self._tell("peer_disputed", words, peer=peer, proven=bool(dispute.statements)))
            self.record.disputed[peer] = dispute.view()
        return [*effects, *self.sum.pass_on()]

    def _fields_of(self, part: SecurePart, attempt: int) -> dict[str, Any]:
        return {"part": part, "choice": self.choice}

    def _say_part(self, to: PeerId | None, part: SecurePart, params: Params | None = None) -> list[Effect]:
        return self._send_part((self._peers.here if to is None else {to}) - self._whole, 0, part, params)

    def _repeat(self, peer: PeerId) -> list[Effect]:
        if self.sum is None:
            return []
        # It may lack the offer of this node's update, to make its segments.
        offer = [] if self.own is None else self._update((peer,), self.own)
        return [*offer, *self.sum.say_again(peer)]

    def _not_sent(self, peer: PeerId) -> list[Effect]:
        return [] if peer in self._whole else super()._not_sent(peer)  # who has no part in the conversation

    def _say_afterwards(self, peer: PeerId) -> list[Effect]:
        # It may lack a segment that this node has made. Not at once: what arrives shows again that the peer is there.
        return [] if self.is_over else self._not_sent(peer)

    def _lost(self, peer: PeerId) -> list[Effect]:
        return [] if self.sum is None else self.sum.leave(peer)

    def _forget(self) -> list[Effect]:
        return [] if self.sum is None else self.sum.forget()

    @property
    def _is_making(self) -> bool:
        return False  # what others have made is the same, to the last bit

    def without_me(self, peers: Set[PeerId]) -> Set[PeerId]:
        """Those of these peers whose average this node may take; none as long as the segments of it are coming."""
        is_coming = self._is_settled and self.sum is not None and self.sum.is_in_time
        return frozenset() if is_coming and not self.ended_without_average else super().without_me(peers)

    @property
    def _is_settled(self) -> bool:
        return self.sum is not None and self.sum.settled is not None

    @property
    def _has_begun(self) -> bool:
        return bool(self.gathering.updates)

    def _choice_learnt(self) -> list[Effect]:
        effects, early = self.gathering.know_members(), self._inbox.take_parts(self.key)
        return [*effects, *(effect for event in early for effect in self._take_part_of(event))]

    # --- the start

    def _why_not(self, opening: Opening) -> str:
        return super()._why_not(opening) or ("" if self.choice is not None or opening.may_name_it else UNKNOWN)

    def _start_did_not_come(self) -> list[Effect]:
        return self.decline(UNKNOWN) if self.choice is None else super()._start_did_not_come()

    # --- updates

    @classmethod
    def must_take(cls, event: UpdateReceived | UpdateOffered, whole: Collection[PeerId]) -> None:
        """Refuse whole updates of who could offer segments; see `Round.must_take`."""
        if isinstance(event, UpdateReceived) != (event.update.peer in whole) or (
            isinstance(event, UpdateOffered) and not event.update.segments
        ):
            raise ParamsRefused(WHOLE)

    @property
    def own(self) -> Update | None:
        """This node's update of the round, once it may be offered; not before it is known who takes part."""
        return None if self.sum is None else super().own

    def _update(self, to: Iterable[PeerId], own: Update) -> list[Effect]:
        """Offer peers this node's update, by the digests of its segments; send it to who knows whole ones only.

        Each node begins with another peer, so that not all of them download from the same few nodes first.
        """
        assert self.sum is not None
        to, owned = set(to), self._settings.rules.owned
        told = {"segments": tuple(self.sum.learn(own)), "owned": owned if owned < MOST_OWNED else None}
        effects = super()._update(to & self._whole, own)
        for sent in super()._update(to - self._whole, own):
            assert isinstance(sent, Send) and isinstance(sent.message, ModelParams)
            order = tuple(in_turn(sent.to, self._settings.my_id))
            effects.append(Send(order, sent.message.model_copy(update=told)))
        return effects

    def update_received(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Handle a peer's update of this round, or the offer of one.

        Raises:
            StaleRound: it came too late.
            ParamsRefused: it is whole, and the start of the round does not say that its sender knows no segments.
        """
        update = event.update
        if isinstance(event, UpdateReceived) and self.choice is not None and update.peer not in self._whole:
            raise ParamsRefused(WHOLE)
        if self.taken:
            return []
        if update.peer in self.gathering.updates:
            return self._told_again(update.peer)
        if self.is_over or (self.sum is not None and not self.sum.may_offer(update)):
            raise StaleRound(update.key.number, self.key.number)
        self._note_time(event)
        if isinstance(event, UpdateOffered):
            self._peers.owns(update.peer, event.owned)
        saved = [self._save(kept_update(event))] if isinstance(event, UpdateReceived) else []
        return self._advanced([*self._learn(event.choice), *self.gathering.receive(event), *saved])

    def _told_again(self, peer: PeerId) -> list[Effect]:
        """A peer offers its update once more: it may have been restarted, and have forgotten what it was told."""
        if peer in self._repeated:
            return []
        self._repeated = {*self._repeated, peer}  # the answer may look like such an offer to the peer
        return self._repeat(peer)

    def find(self, digest: Digest) -> Params | None:
        """A segment with this digest: of an update, or of the average."""
        return None if self.sum is None else self.sum.find(digest)

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of a segment that is being downloaded."""
        return None if self.sum is None else self.sum.form_of(digest)

    # --- the average

    @property
    def counted(self) -> Set[PeerId]:
        """Whose updates count; once that is settled, also those that did not reach this node, which came to it late."""
        return super().counted | (set() if self.sum is None else self.sum.updates.keys())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to average; what was settled can still be made."""
        return not self._is_settled and (super().is_empty or self.sum is None or self.sum.is_empty)

    def _received(self, event: Event) -> list[Effect]:
        if self.is_over and isinstance(event, TimerFired) and event.name == self._again_timer:
            return self._send_again()  # who comes late can still join the average of what was settled
        if self.sum is None or self.taken or self.is_over:
            return super()._received(event)
        match event:
            case Averaged() | AveragingFailed() if event.segment is not None:
                if event.key != self.key or self.phase is not Phase.AVERAGING:
                    return []
                if isinstance(event, AveragingFailed):
                    return super()._received(event)
                return self.sum.averaged(event.segment, event.params, event.squares)
            case Fetched(_, _, digest) | FetchFailed(_, _, digest) if self.sum.awaits(digest):
                return [*self.sum.handle(event), *self.gathering.arrived()]
            case TimerFired(name) if name in self.sum.timers:
                return [*self.sum.handle(event), *self.gathering.arrived()]
        return super()._received(event)

    def _send_again(self) -> list[Effect]:
        retried = [] if self.sum is None or self.is_over else self.sum.retry()
        return [*super()._send_again(), *retried]

    def _advanced(self, effects: list[Effect]) -> list[Effect]:
        sum = self.sum
        if self.is_past or self.is_over or self.taken or self.phase not in OPEN:
            return effects
        if sum is None:  # gathering has ended, and there are no members to settle anything with
            return [*effects, *self._fail_to_average(UNKNOWN)] if self.phase is Phase.AVERAGING else effects
        if sum.lacks_something:
            effects = [*effects, *self._try_again()]
        if sum.failure:
            return [*effects, *self._name_disputed(), *self._fail_to_average(sum.failure)]
        if sum.settled is not None and self.gathering.closed is None:
            effects = [*effects, *self.gathering.close(Closing.COMPLETE)]
        average = sum.average if self.phase is Phase.AVERAGING else None
        return effects if average is None else [*effects, *self._joined(average)]

    def _fail_to_average(self, reason: str) -> list[Effect]:
        return self._give_up(text("round {number} has no average: {reason}", self.key.number, reason))

    def average(self) -> list[Effect]:
        """End gathering: the average is made of what is settled."""
        return self._advanced(super().average())

    def finish(self) -> list[Effect]:
        """Close the round; say which owners told nothing, though their updates are in the average."""
        sum, record = self.sum, self.record
        is_made = sum is not None and record.digest is not None and record.taken_from is None
        if sum is not None and is_made and (silent := sum.silent & self._peers.here):
            record.add_words(text("no results of the segments of {peers} came", ", ".join(sorted(silent))))
        return super().finish()

    def _joined(self, average: Params) -> list[Effect]:
        """All segments of the average are here: its contributors are those that were settled."""
        assert self.sum is not None
        updates, disputes, named = self.sum.updates, self.sum.disputes(), self._name_disputed()
        lost = (self.gathering.updates.keys() | disputes.keys() & set(self.gathering.missing)) - updates.keys()
        for peer in lost:
            late = text("its update came too late for the average")
            self.gathering.declined[peer] = disputes[peer].reason if peer in disputes else late
        self.gathering.updates = updates
        self.record.left_out, self.record.missing = None, tuple(self.gathering.missing)
        self.record.outcome = self._closing_words()
        verdict = self.sum.verdict
        weighed = with_norms({}, verdict.moved, verdict.refused)
        made = Averaged(self.key, average, refused=verdict.refused, weighed=weighed)
        return [*self._averaged(made), *named]
