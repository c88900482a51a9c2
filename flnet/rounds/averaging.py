"""One round of averaging: gather updates until every expected peer has spoken or the timer forces the rest.

García Pérez, "Red de Federated Learning: de modelo cliente/servidor a P2P" (2021), section 3.2.4.2. The
thesis counts models against known nodes, which waits for ever on a dead one; here the peers expected are
those reachable when the round opened, one that is lost or declines leaves the set, and the timer always runs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import Enum, auto

from flnet.effects import Average, CancelTimer, Effect, SetTimer
from flnet.errors import LocalError
from flnet.events import DeclineReceived, Event, PeerLost, TimerFired, UpdateReceived
from flnet.params import Params, PeerId, RoundKey, Update


class Closing(Enum):
    """Why a round of averaging was closed."""

    COMPLETE = auto()  # everyone expected has spoken
    TIMER = auto()  # the forced-averaging timer fired
    NEXT_ROUND = auto()  # the next round was asked for


class Averaging:
    """Gathers the updates of one round, and closes once; the timer starts with this node's own word."""

    def __init__(
        self, key: RoundKey, me: PeerId, peers: Collection[PeerId], patience: float, margin: float = 0.0
    ) -> None:
        """Args:
        peers: the other nodes expected in this round.
        patience: seconds to wait for them after this node's own update or refusal.
        margin: random part added to that, so that not all nodes act at once.
        """
        self.key = key
        self.me = me
        self.expected: set[PeerId] = {me, *peers}
        self.updates: dict[PeerId, Update] = {}
        self.declined: dict[PeerId, str] = {}
        self.closed: Closing | None = None
        self.timer = f"forced-averaging:{key.number}:{key.initiator}"
        self._patience, self._margin = patience, margin

    @property
    def missing(self) -> list[PeerId]:
        """Peers that are expected and have not spoken, sorted."""
        return sorted(self.expected - self.updates.keys())

    def receive(self, event: Event) -> list[Effect]:
        """Take an update, a refusal, the loss of a peer, or the timer."""
        match event:
            case _ if self.closed is not None:
                return []  # late, not wrong: it crossed our average on the way
            case UpdateReceived(update) if update.key != self.key:
                raise LocalError(f"{update.key} reached the averaging of {self.key}")
            case UpdateReceived(update) if update.peer in self.updates:
                return []  # a duplicate; the first one counts
            case UpdateReceived(update):
                self.updates[update.peer] = update
                self.declined.pop(update.peer, None)
                return self._spoken(update.peer)
            case DeclineReceived(peer, _, reason) if peer not in self.updates:
                self.declined[peer] = reason
                self.expected.discard(peer)
                return self._spoken(peer)
            case PeerLost(peer, _) if peer != self.me and peer not in self.updates:
                self.expected.discard(peer)
                return self._spoken(peer)
            case TimerFired(name) if name == self.timer:
                return self.close(Closing.TIMER)
        return []

    def close(self, why: Closing) -> list[Effect]:
        """Close with what is here; no Average is asked for when there is nothing to average."""
        self.closed = why
        effects: list[Effect] = [CancelTimer(self.timer)]
        if self.updates:
            effects.append(Average(self.key, tuple(self.updates[peer] for peer in sorted(self.updates))))
        return effects

    def let_go(self) -> None:
        """Drop the updates' parameters once they are averaged; who has spoken stays known."""
        self.updates = {peer: replace(update, params=Params()) for peer, update in self.updates.items()}

    def _spoken(self, peer: PeerId) -> list[Effect]:
        if not self.missing:
            return self.close(Closing.COMPLETE)
        return [SetTimer(self.timer, self._patience, self._margin)] if peer == self.me else []
