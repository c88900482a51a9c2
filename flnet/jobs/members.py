"""Who is in the mesh: announcements until everyone knows everyone, and who answers.

García Pérez (2021), section 3.2.2: a node announces itself to a peer that it was given, is told whom it lacks,
and goes on until none is left. In addition a node announces itself to peers that its caller names and it lacks
(else two joined pairs would stay half joined), and announces itself once more to a peer that answered before it
heard of those met in the meantime (else nodes that join at the same time would miss each other). It tries silent
addresses again with growing pauses, and repeats an announcement to one peer from time to time, so that a mesh in
which messages were lost becomes whole again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flnet.effects import Answer, CancelTimer, Effect, Publish, SendAnnounce, SetTimer, TellJobs, in_order
from flnet.errors import IdTaken, IllegalStep
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    FormRefused,
    MeshStarted,
    TimerFired,
)
from flnet.messages import MAX_PEERS, AnnounceReply, Peer
from flnet.params import PeerId

_REFRESH = "refresh"
_RETRY = "announce:"


@dataclass(frozen=True)
class Pauses:
    """Seconds between attempts.

    Attributes:
        first, longest: the first pause after a failed announcement; it doubles up to the longest.
        refresh: between two repeated announcements to one of the peers.
        hearsay_attempts: after so many failures an address that only others named is given up.
    """

    first: float = 0.5
    longest: float = 30.0
    refresh: float = 15.0
    hearsay_attempts: int = 6


@dataclass(frozen=True)
class Member:
    """A known peer; `ip` is never None here. `accepts` are the forms of parameters that it said it reads."""

    peer: Peer
    alive: bool = True
    reason: str = ""
    accepts: frozenset[str] = frozenset()


class Members:
    """The peers that this node knows: `receive(event) -> effects`, pure like the jobs."""

    def __init__(
        self, me: Peer, prune: bool = False, pauses: Pauses | None = None, accepts: Sequence[str] = ()
    ) -> None:
        """Args:
        prune: forget a peer that does not answer instead of trying it again.
        accepts: forms of parameters that this node reads besides the thesis' JSON.
        """
        self.me = me
        self.accepts = tuple(accepts) or None
        self.known: dict[PeerId, Member] = {}
        self.asking: dict[str, frozenset[PeerId]] = {}  # announcements under way: address, peers named in it
        self.failures: dict[str, int] = {}
        self.bootstrap: tuple[str, ...] = ()
        self.joined = False  # whether an announcement was ever answered, either way
        self._prune, self._pauses = prune, pauses or Pauses()
        self._turn = 0

    @property
    def alive(self) -> list[PeerId]:
        """Ids of the reachable peers, sorted."""
        return sorted(peer for peer, member in self.known.items() if member.alive)

    def address_of(self, peer: PeerId) -> str | None:
        """Where a peer is, as "host:port"; None for an unknown one."""
        member = self.known.get(peer)
        return member.peer.address if member else None

    def accepts_of(self, peer: PeerId) -> frozenset[str]:
        """Forms of parameters that a peer reads besides the thesis' JSON."""
        member = self.known.get(peer)
        return member.accepts if member else frozenset()

    def view(self) -> Sequence[Mapping[str, Any]]:
        """The peers as JSON-ready data, sorted by id."""
        return [
            {
                "id": peer,
                "ip": member.peer.ip,
                "port": str(member.peer.port),
                "address": member.peer.address,
                "state": "alive" if member.alive else "unreachable",
                "reason": member.reason,
            }
            for peer, member in sorted(self.known.items())
        ]

    def receive(self, event: Event) -> list[Effect]:
        """Take one event; what is to be done about it.

        Raises:
            IdTaken: another node announced itself with this node's id.
        """
        match event:
            case MeshStarted(bootstrap):
                self.bootstrap = bootstrap
                return in_order([*self._announce_to(bootstrap), self._refresh_timer()])
            case AnnounceReceived():
                return in_order(self._announced(event))
            case AnnounceAnswered():
                return in_order(self._answered(event))
            case AnnounceFailed(address, reason):
                return in_order(self._unanswered(address, reason))
            case ContactMade(peer_id):
                member = self.known.get(peer_id)
                return in_order(self._meet(member.peer, member.accepts)) if member and not member.alive else []
            case ContactLost(peer_id, reason):
                return in_order(self._lose(peer_id, reason))
            case FormRefused(peer_id):
                if peer_id in self.known:  # until it announces itself again
                    self.known[peer_id] = replace(self.known[peer_id], accepts=frozenset())
                return []
            case TimerFired(name) if name == _REFRESH:
                return in_order([*self._refresh(), self._refresh_timer()])
            case TimerFired(name) if name.startswith(_RETRY):
                return self._announce_to([name.removeprefix(_RETRY)])
            case TimerFired():
                return []
        raise IllegalStep(f"the membership cannot take {type(event).__name__}")

    def _announced(self, event: AnnounceReceived) -> list[Effect]:
        peer, known = event.peer, event.known
        accepts = self.accepts if event.accepts else None  # who says nothing of it gets the thesis' answer
        if peer.id == self.me.id:
            elsewhere = self.me.ip is not None and peer.ip != self.me.ip
            if elsewhere or peer.port != self.me.port:
                raise IdTaken(peer.id)
            return [
                Answer(AnnounceReply(i_am=self.me, accepts=accepts))
            ]  # our own call, through an address of ours
        told = {p.id for p in known} | {peer.id}
        lacks = [m.peer for m in self._sorted() if m.alive and m.peer.id not in told]
        self.joined = True
        reply = AnnounceReply(announce_yourself_to_peers=lacks[:MAX_PEERS], i_am=self.me, accepts=accepts)
        return [Answer(reply), *self._meet(peer, event.accepts), *self._announce_to(self._new_addresses(known))]

    def _answered(self, event: AnnounceAnswered) -> list[Effect]:
        told = self.asking.pop(event.address, frozenset())
        self.failures.pop(event.address, None)
        if event.peer.id == self.me.id:  # we called ourselves
            self.bootstrap = tuple(address for address in self.bootstrap if address != event.address)
            self.joined = self.joined or not self.bootstrap
            return []
        self.joined = True
        met = self._meet(event.peer, event.accepts)
        untold = set(self.alive) - told - {PeerId(event.peer.id)}
        again = [event.address] if untold else []
        return [*met, *self._announce_to([*again, *self._new_addresses(event.announce_to)])]

    def _unanswered(self, address: str, reason: str) -> list[Effect]:
        self.asking.pop(address, None)
        self.failures[address] = count = self.failures.get(address, 0) + 1
        owner = next((i for i, m in self.known.items() if m.peer.address == address), None)
        if owner is None and address not in self.bootstrap and count >= self._pauses.hearsay_attempts:
            del self.failures[address]
            return []
        pause = min(self._pauses.first * 2 ** min(count - 1, 16), self._pauses.longest)
        lost = self._lose(owner, reason) if owner is not None and self.known[owner].alive else []
        if owner is not None and owner not in self.known:
            return lost  # pruned
        retry = SetTimer(_RETRY + address, pause, pause / 2)
        words = f"{address} does not answer the announcement ({reason}); trying again until it does"
        return [*lost, retry, *([Publish("announce_failed", words, {"address": address})] if count == 1 else [])]

    def _meet(self, peer: Peer, accepts: frozenset[str]) -> list[Effect]:
        """Note that a peer is there, where, and what it reads."""
        peer_id = PeerId(peer.id)
        gone = self._replaced_by(peer)
        before = self.known.get(peer_id)
        if before is None and len(self.known) >= MAX_PEERS:
            words = f"{peer_id} was left out: this node already knows {MAX_PEERS} peers"
            return [Publish("mesh_full", words)]
        self.known[peer_id] = Member(peer, accepts=accepts)
        self.failures.pop(peer.address, None)
        effects: list[Effect] = [*gone, CancelTimer(_RETRY + peer.address)]
        if before is not None and before.alive:
            return effects
        words = f"{peer_id} joined at {peer.address}" if before is None else f"{peer_id} is back at {peer.address}"
        kind = "peer_joined" if before is None else "peer_back"
        return [*effects, TellJobs(peer_id, alive=True), Publish(kind, words, {"peer": peer_id})]

    def _replaced_by(self, peer: Peer) -> list[Effect]:
        """Forget who else was at this address: a node without a fixed id has a new one after a restart."""
        old = [i for i, m in self.known.items() if m.peer.address == peer.address and i != peer.id]
        effects: list[Effect] = []
        for peer_id in old:
            del self.known[peer_id]
            reason = f"{peer.id} is at {peer.address} now"
            tell = Publish("peer_replaced", f"{peer_id} was forgotten: {reason}", {"peer": peer_id})
            effects += [TellJobs(peer_id, alive=False, reason=reason), tell]
        return effects

    def _lose(self, peer_id: PeerId, reason: str) -> list[Effect]:
        member = self.known.get(peer_id)
        if member is None or not member.alive:
            return []
        tell = TellJobs(peer_id, alive=False, reason=reason)
        if self._prune:
            del self.known[peer_id]
            return [tell, Publish("peer_pruned", f"{peer_id} was forgotten: {reason}", {"peer": peer_id})]
        self.known[peer_id] = replace(member, alive=False, reason=reason)
        retry = SetTimer(_RETRY + member.peer.address, self._pauses.first, self._pauses.first)
        return [tell, retry, Publish("peer_lost", f"{peer_id} does not answer: {reason}", {"peer": peer_id})]

    def _announce_to(self, addresses: Iterable[str]) -> list[Effect]:
        fresh = [address for address in dict.fromkeys(addresses) if address not in self.asking]
        known = tuple(member.peer for member in self._sorted() if member.alive)[:MAX_PEERS]
        self.asking.update(dict.fromkeys(fresh, frozenset(PeerId(peer.id) for peer in known)))
        return [SendAnnounce(address, known) for address in fresh]

    def _new_addresses(self, peers: Sequence[Peer]) -> list[str]:
        """Addresses of named peers that are unknown here, as many as there is room for."""
        tried = self.asking.keys() | self.failures.keys()  # those that failed have their own timers
        room = MAX_PEERS - len(self.known) - len(tried)
        new = [p for p in peers if p.ip and p.id != self.me.id and PeerId(p.id) not in self.known]
        return [peer.address for peer in new if peer.address not in tried][: max(room, 0)]

    def _refresh(self) -> list[Effect]:
        alive = self.alive
        if not alive:
            return []
        self._turn += 1
        return self._announce_to([self.known[alive[self._turn % len(alive)]].peer.address])

    def _refresh_timer(self) -> SetTimer:
        return SetTimer(_REFRESH, self._pauses.refresh, self._pauses.refresh / 3)

    def _sorted(self) -> list[Member]:
        return [self.known[peer] for peer in sorted(self.known)]
