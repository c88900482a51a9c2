"""Gathers the masked updates of a secure round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flnet.params.params import PeerId, Schema
from flnet.protocol.effects import Average, Effect, Fetch
from flnet.protocol.events import DeclineReceived, Event, UpdateOffered, UpdateReceived
from flnet.protocol.updates import Update
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.secure_sum import SecureSum
from flnet.text import text

NOT_IN_GROUP = text("it is not in the group of the secure sum")


class SecureGathering(Gathering):
    """Gathers masked updates and hands them to their sum, which asks for the average when it can be opened.

    Attributes:
        sum: of the round.
        form: makes the form of a masked update.
    """

    def __init__(self, sum: SecureSum, form: Callable[[], Schema], *args: Any, **more: Any) -> None:
        """Args:
        args, more: those of a `Gathering`.
        """
        super().__init__(*args, **more)
        self.sum, self.form = sum, form
        self._set_aside: dict[PeerId, UpdateReceived | UpdateOffered] = {}
        self._offered: dict[PeerId, Update] = {}  # of which segments are downloaded

    def receive(self, event: Event) -> list[Effect]:
        """Handle a masked update or the offer of one, the end of a download, a refusal, or the loss of a peer.

        What is masked for a group that is not known yet waits until it is.
        """
        if isinstance(event, DeclineReceived):
            left = self.sum.leave(event.peer, is_refusal=event.reason != NOT_IN_GROUP)
            return [*super().receive(event), *left]
        if not isinstance(event, UpdateReceived | UpdateOffered):
            return super().receive(event)
        update, group = event.update, self.sum.group
        if group is None or update.group != group.id:
            self._set_aside[update.peer] = event
            return []
        if self.sum.segments is not None:
            return self._in_segments(event)
        if self.closed is None:
            return super().receive(event)
        digest = event.digest if isinstance(event, UpdateOffered) else update.params.digest
        return self.sum.hold(update if isinstance(event, UpdateReceived) else None, update.peer, digest)

    def _in_segments(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Take the own masked update, or the offer of a peer's, of which this node downloads what it is to hold."""
        update, segments = event.update, self.sum.segments
        assert segments is not None
        if update.peer == self.me:
            segments.learn(update)
            return super().receive(event)
        if update.peer not in segments.ring.order:
            return []
        self.expected.add(update.peer)
        self._offered[update.peer] = update
        return [*segments.offer(update, update.segments), *self.arrived()]

    def arrived(self) -> list[Effect]:
        """Hand the masked updates to the sum of which all is here that this node is to hold."""
        effects: list[Effect] = []
        for peer, update in sorted(self._offered.items()):
            if self.sum.segments is None or not self.sum.segments.has(peer):
                continue
            del self._offered[peer]
            if self.closed is None:
                effects += [*self._take(update), self.counted(update)]
            else:
                effects += self.sum.hold(update, peer, self.sum.segments.root(peer))
        return effects

    def was_sent_for(self, group: str) -> bool:
        """Whether an update came that is masked for this group, so that its sum has begun."""
        return any(event.update.group == group for event in self._set_aside.values())

    def take_set_aside(self) -> list[Effect]:
        """The group is known: take what came for it before."""
        aside, self._set_aside = self._set_aside, {}
        return [effect for event in aside.values() for effect in self.receive(event)]

    def close(self, why: Closing) -> list[Effect]:
        """Close with the updates that have arrived; their sum is asked for when it can be opened."""
        if self.closed is not None:
            return []
        effects: list[Effect] = [effect for effect in super().close(why) if not isinstance(effect, Average)]
        return [*effects, *self.sum.close()] if self.updates or self.sum.settled else effects

    def _take(self, update: Update) -> list[Effect]:
        segments = self.sum.segments
        known = self._digests.get(update.peer) if segments is None else segments.root(update.peer)
        digest = known or update.params.digest
        return [*self.sum.hold(update, update.peer, digest), *super()._take(update)]

    def _pull(self) -> list[Effect]:
        """Fetch every offered update: until its contributors are settled, no sum can begin."""
        effects: list[Effect] = []
        for peer in sorted(self.offers.keys() - self.fetching):
            self.fetching.add(peer)
            effects.append(Fetch(self.key, peer, self.offers[peer][1], form=self.form()))
        return effects
