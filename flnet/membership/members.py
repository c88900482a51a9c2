"""Who is in the mesh: announcements, probes, suspicion, refutation, and what jobs hear of it; pure like the jobs.

Every tick this node probes one member. One that does not answer is probed by others too; if nobody gets through it
is suspected, and declared dead when it did not show in time that it is there. What is found out travels beside
probes and their answers. Time is counted in ticks, so a node whose own loop stands still accuses nobody meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flnet.effects import Effect, SendAnnounce, SetTimer, in_order
from flnet.errors import IllegalStep
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    FormRefused,
    IdentityDisputed,
    Leaving,
    MeshStarted,
    PeerForgotten,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    ShutOutBy,
    TimerFired,
    TrustChanged,
)
from flnet.membership.announcing import RETRY
from flnet.membership.checking import TICK, leave, probe_answered, probe_failed, probed, ticked
from flnet.membership.greeting import announced, answered, unanswered
from flnet.membership.knowing import announce_to, check, seen
from flnet.membership.naming import NameTaken, disputed, forget
from flnet.membership.roster import Member
from flnet.membership.standing import State
from flnet.membership.state import MeshState
from flnet.membership.trusting import changed, shut_out
from flnet.messages import MAX_PEERS
from flnet.params import PeerId


class Members:
    """The peers that this node knows: `receive(event) -> effects`."""

    def __init__(self, state: MeshState) -> None:
        self.state = state
        self.me, self.accepts, self.key = state.me, state.accepts, state.key

    @property
    def known(self) -> Mapping[PeerId, Member]:
        """All members, by id."""
        return self.state.roster.known

    @property
    def alive(self) -> list[PeerId]:
        """Ids of the peers that rounds count on, sorted."""
        return self.state.roster.alive

    @property
    def joined(self) -> bool:
        """Whether an announcement was ever answered, either way."""
        return self.state.joined

    def address_of(self, peer: PeerId) -> str | None:
        """Where a peer is, as "host:port"; None for an unknown one."""
        member = self.known.get(peer)
        return member.peer.address if member else None

    def accepts_of(self, peer: PeerId) -> frozenset[str]:
        """Forms of parameters that a peer reads besides the thesis' JSON."""
        member = self.known.get(peer)
        return member.accepts if member else frozenset()

    def keys(self) -> Mapping[PeerId, str]:
        """The keys to which names belong, those of peers that are no members any more included."""
        return self.state.roster.all_keys()

    def fits(self, peer: PeerId, key: str | None) -> bool:
        """Whether who has this key may use this name."""
        return self.state.fits(peer, key)

    def is_doubtful(self, peer: PeerId) -> bool:
        """Whether a message in this name may be another node's: one claims the name, and its owner is gone."""
        member = self.known.get(peer)
        return peer in self.state.disputes and (member is None or not member.alive)

    def check_sender(self, peer: PeerId) -> None:
        """Whether a message of a round may be this peer's.

        Raises:
            NameTaken: another node uses its name.
        """
        if self.is_doubtful(peer):
            dispute = IdentityDisputed(peer, self.state.disputes[peer], "")
            raise NameTaken(f"another node uses the name {peer!r}, and this one has not shown its key", dispute)

    def introduction(self, address: str) -> SendAnnounce:
        """The announcement of this node at an address, as it would be made now."""
        s = self.state
        known = tuple(member.peer for member in s.roster if member.alive)[:MAX_PEERS]
        return SendAnnounce(address, known, s.incarnation, s.all_news())

    def settled(self, peer: PeerId) -> bool:
        """Whether a message of this peer would tell nothing new: it is alive, or unknown."""
        member = self.known.get(peer)
        return member is None or (member.state is State.ALIVE and peer not in self.state.troubled)

    def view(self) -> Sequence[Mapping[str, Any]]:
        """The peers as JSON-ready data, sorted by id."""
        disputed = self.state.disputes
        return [{**one.view(), "disputed": PeerId(one.peer.id) in disputed} for one in self.state.roster]

    def receive(self, event: Event) -> list[Effect]:
        """Take one event; what is to be done about it.

        Raises:
            IdTaken: a node has this node's id, or one that belongs to a node with another key.
            UnknownPeer, StillThere: it cannot be forgotten.
        """
        return in_order(self._react(event))

    def _react(self, event: Event) -> list[Effect]:
        s = self.state
        match event:
            case MeshStarted(bootstrap, remembered, keys):
                s.roster.keys |= {peer: (key, s.roster.tick) for peer, key in keys if peer not in s.roster.known}
                s.announcer.bootstrap, s.announcer.remembered = bootstrap, remembered
                return [*announce_to(s, [*bootstrap, *remembered]), SetTimer(TICK, s.pauses.tick)]
            case Leaving():
                return leave(s)
            case AnnounceReceived():
                return announced(s, event)
            case AnnounceAnswered():
                return answered(s, event)
            case AnnounceFailed(address, reason, code):
                return unanswered(s, address, reason, code)
            case IdentityDisputed(peer, key, address):
                return disputed(s, peer, key, address)
            case PeerForgotten(peer):
                return forget(s, peer)
            case TrustChanged(gone, come):
                return changed(s, gone, come)
            case ShutOutBy(peer):
                return shut_out(s, peer)
            case ProbeReceived():
                return probed(s, event)
            case ProbeAnswered():
                return probe_answered(s, event)
            case ProbeFailed():
                return probe_failed(s, event)
            case TimerFired(name, late) if name == TICK:
                return [] if s.left else [*ticked(s, late), SetTimer(TICK, s.pauses.tick)]
            case TimerFired(name) if name.startswith(RETRY):
                return announce_to(s, [name.removeprefix(RETRY)])
            case TimerFired():
                return []
        return self._contact(event)

    def _contact(self, event: Event) -> list[Effect]:
        """What other traffic tells of a peer."""
        match event:
            case ContactMade(peer):
                return [] if self.settled(peer) or self.is_doubtful(peer) else seen(self.state, peer)
            case ContactLost(peer, _):
                if peer in self.known:
                    self.state.troubled.add(peer)
                return check(self.state, peer)
            case FormRefused(peer):
                self.state.roster.reads(peer, frozenset())  # until it announces itself again
                return []
        raise IllegalStep(f"the membership cannot take {type(event).__name__}")
