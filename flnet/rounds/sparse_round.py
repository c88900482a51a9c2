"""A round in which each node averages with its neighbours alone (`flnet.algorithms.gossip`).

It differs from a common round in three ways. Who the neighbours are follows from the members that the start of the round
names; an update goes to them alone. Nodes hold different models, so a node goes on from its own one, and takes neither
the initiator's after the first round nor a better one of a peer: that would copy one model over all. Accuracies are
still compared, because goals of series need them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from flnet.algorithms import gossip
from flnet.errors import ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Average, Effect, Send
from flnet.protocol.events import Averaged, AveragingFailed, Event, UpdateOffered, UpdateReceived
from flnet.protocol.updates import Update
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.history import closing_words
from flnet.rounds.model import Start
from flnet.rounds.round import Round
from flnet.rounds.secure_round import NOT_NAMED
from flnet.rounds.segmented_round import UNKNOWN
from flnet.rounds.series import Opening
from flnet.text import text

_graph = lru_cache(maxsize=4)(gossip.graph)  # asked for at each message


class SparseGathering(Gathering):
    """Gathers the updates of a node's neighbours, and no others."""

    def __init__(self, links: Callable[[], Mapping[PeerId, float]], *args: Any, **more: Any) -> None:
        """Args:
        links: the largest weight of each neighbour; empty as long as the members are not known.
        args, more: those of a `Gathering`. The few updates are all held: their weights need the node's own one.
        """
        super().__init__(*args, **{**more, "room": None})
        self._links = links

    def receive(self, event: Event) -> list[Effect]:
        """Handle an update of a neighbour, or what else a `Gathering` handles."""
        match event:
            case UpdateReceived(update) | UpdateOffered(update) if not self.counts(update):
                return []
        return super().receive(event)

    def counts(self, update: Update) -> bool:
        """Whether an update is that of a neighbour, or this node's own."""
        return update.peer == self.me or update.peer in self._links()

    def close(self, why: Closing) -> list[Effect]:
        """Close with the arrived updates, each with the weight of its link."""
        links = self._links()
        effects = super().close(why)
        return [replace(effect, links=links) if isinstance(effect, Average) else effect for effect in effects]


class SparseRound(Round):
    """One round in which each node averages with its neighbours alone."""

    _adopts = False  # nodes hold different models

    def _new_gathering(
        self, expected: Collection[PeerId], chosen: Collection[PeerId] | None = None
    ) -> SparseGathering:
        kind = partial(SparseGathering, lambda: self.links)
        gathering = self._parts.gathering(self.key, expected, chosen, kind)
        assert isinstance(gathering, SparseGathering)
        return gathering

    @property
    def links(self) -> Mapping[PeerId, float]:
        """The largest weight of each neighbour; empty if this node does not know who takes part, or is not named."""
        if self.choice is None:
            return {}
        members = tuple(map(PeerId, self.choice.members))
        return gossip.links(_graph(self._settings.rules.topology, self.key, members), self._settings.my_id)

    @property
    def chosen(self) -> frozenset[PeerId] | None:
        """The nodes whose updates this node averages: its neighbours and itself; None if it does not know them."""
        return None if self.choice is None else frozenset({self._settings.my_id, *self.links})

    # --- the start

    def enter(self, opening: Opening, awaited: Start | None, is_mine: bool) -> list[Effect]:
        """Begin the round; see `Round.enter`."""
        return super().enter(opening, _due(awaited), is_mine)

    def join(self, opening: Opening, awaited: Start | None) -> list[Effect]:
        """Handle a start that arrived late; see `Round.join`."""
        return super().join(opening, _due(awaited))

    def _why_not(self, opening: Opening) -> str:
        return super()._why_not(opening) or ("" if opening.may_name_it else self._why_unknown)

    def _start_did_not_come(self) -> list[Effect]:
        return self.decline(self._why_unknown) if self._why_unknown else super()._start_did_not_come()

    @property
    def _why_unknown(self) -> str:
        if self.choice is None:
            return UNKNOWN
        return "" if self._settings.my_id in self.choice.members else NOT_NAMED

    # --- what it says to peers, and what they say

    def _update(self, to: Iterable[PeerId], own: Update) -> list[Effect]:
        return super()._update(self._neighbours_of(to), own)

    def _refusal(self, to: Iterable[PeerId], reason: str, late: bool) -> Send:
        return super()._refusal(self._neighbours_of(to), reason, late)

    def _neighbours_of(self, peers: Iterable[PeerId]) -> Iterable[PeerId]:
        """Those of these peers that wait for a word of this node."""
        return peers if self.choice is None else self.links.keys() & set(peers)

    def update_received(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Handle the update of a neighbour; see `Round.update_received`.

        Raises:
            StaleRound: it came too late.
            ParamsRefused: it is that of another node.
        """
        assert isinstance(self.gathering, SparseGathering)
        if not self.gathering.counts(event.update):
            raise ParamsRefused(self._why_unknown or text("its sender is no neighbour of this node in this round"))
        return super().update_received(event)

    # --- the average

    def _closing_words(self) -> str:
        return closing_words(self.gathering, len(self.chosen or ()))

    def _averaged(self, event: Averaged | AveragingFailed) -> list[Effect]:
        if isinstance(event, Averaged) and event.key == self.key and self.gathering.closed is not None:
            self.record.spread = event.spread
        return super()._averaged(event)

    def _is_without(self, peer: PeerId) -> bool:
        """Whether a peer is told of the average in place of this node's update: of an average of its own, never."""
        return False


def _due(start: Start | None) -> Start | None:
    """The initiator's model if all nodes must begin with it, as in the first round."""
    return start if start is not None and start.is_due else None
