"""Who is in the mesh: announcements, probes, suspicion, refutation, and what jobs hear of it; pure like the jobs.

Every tick this node probes one member. If it does not answer, other members probe it too; if nobody gets through, it is
suspected, and declared dead when it does not show in time that it is there. News travels with probes and their answers.
Time is counted in ticks, so a node whose own loop stands still accuses nobody meanwhile.

`Members` routes events. The steps of announcements follow it, and those of a pinned mesh, in which a node is a member
only while its key is accepted; the steps of probes are in `flnet.membership.suspicion`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flnet.errors import IdTaken, IllegalStep, NotAccepted, Pending, StrangerThere
from flnet.fingerprints import fingerprint
from flnet.membership.announcing import RETRY
from flnet.membership.names import NameTaken, admit, disputed, forget, refused
from flnet.membership.roster import Member, State
from flnet.membership.state import MeshState
from flnet.membership.suspicion import (
    TICK,
    announce_to,
    check,
    hear,
    leave,
    meet,
    probe_answered,
    probe_failed,
    probed,
    seen,
    ticked,
)
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Effect, Publish, SendAnnounce, SetTimer, TellJobs, in_order
from flnet.protocol.events import (
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
from flnet.protocol.messages import MAX_PEERS, AnnounceReply
from flnet.text import text


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
            raise NameTaken(
                text("another node uses the name {peer}, and this one has not shown its key", repr(peer)), dispute
            )

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


# --- announcements


def announced(s: MeshState, event: AnnounceReceived) -> list[Effect]:
    """A node announced itself: who it lacks, and what all know of members.

    Raises:
        IdTaken: it has this node's id, or one that belongs to a node with another key.
    """
    peer, known = event.peer, event.known
    admit(s, peer, event.key)
    accepts = s.accepts if event.accepts else None  # who says nothing of it gets the thesis' answer
    if peer.id == s.me.id:
        elsewhere = s.me.ip is not None and peer.ip != s.me.ip
        if elsewhere or peer.port != s.me.port:
            raise IdTaken(peer.id)
        return [Answer(AnnounceReply(i_am=s.me, accepts=accepts, key=event.key))]  # our own call
    told = {p.id for p in known} | {peer.id}
    lacks = [m.peer for m in s.roster if m.alive and m.peer.id not in told]
    s.joined = True
    met = meet(s, peer, event.accepts, event.incarnation or 0, event.key)
    heard = [effect for news in event.members for effect in hear(s, news)]
    reply = AnnounceReply(announce_yourself_to_peers=lacks[:MAX_PEERS], i_am=s.me, accepts=accepts)
    if event.incarnation is not None:
        news = list(s.all_news())
        reply = reply.model_copy(update={"incarnation": s.incarnation, "members": news, "key": s.key})
    return [Answer(reply), *met, *heard, *announce_to(s, s.announcer.new_among(known))]


def answered(s: MeshState, event: AnnounceAnswered) -> list[Effect]:
    """An announcement of this node was answered."""
    if not s.fits(PeerId(event.peer.id), event.key):
        trying = s.announcer.failed(event.address, text("it calls itself {peer}", event.peer.id))
        timers = [effect for effect in trying if isinstance(effect, SetTimer)]
        return [*timers, *disputed(s, PeerId(event.peer.id), event.key, event.address)]
    told = s.announcer.answered(event.address)
    s.refused_at.discard(event.address)
    s.waits_at.discard(event.address)
    if event.peer.id == s.me.id:  # we called ourselves
        rest = tuple(address for address in s.announcer.bootstrap if address != event.address)
        s.announcer.bootstrap = rest
        s.joined = s.joined or not rest
        return []
    s.joined = True
    met = meet(s, event.peer, event.accepts, event.incarnation or 0, event.key)
    heard = [effect for news in event.members for effect in hear(s, news)]
    untold = set(s.roster.alive) - told - {PeerId(event.peer.id)}
    again = [event.address] if untold else []
    return [*met, *heard, *announce_to(s, [*again, *s.announcer.new_among(event.announce_to)])]


def unanswered(s: MeshState, address: str, reason: str, code: str = "") -> list[Effect]:
    """An announcement of this node was not answered, or refused with this code."""
    again = s.announcer.failed(address, reason)
    if code in (Pending.code, NotAccepted.code, StrangerThere.code):
        told = waiting(s, address, reason) if code != StrangerThere.code else []  # of strangers here people know
        return [*(effect for effect in again if isinstance(effect, SetTimer)), *told]
    if code == IdTaken.code:
        again = [*(effect for effect in again if isinstance(effect, SetTimer)), *refused(s, address, reason)]
    owner = next((m for m in s.roster if m.peer.address == address), None)
    if owner is None or owner.state is State.DEAD:
        return again
    if code == IdTaken.code:
        return again
    s.announcer.failures.pop(address, None)  # a member: probes say what becomes of it
    return check(s, PeerId(owner.peer.id))


# --- a pinned mesh


def changed(s: MeshState, gone: Collection[str], come: Collection[str]) -> list[Effect]:
    """Keys are not trusted any more, by fingerprint, and others are: their nodes are announced to at once."""
    names = [peer for peer, key in s.roster.all_keys().items() if fingerprint(key) in gone]
    left = [
        effect for peer in names for effect in _drop(s, peer, text("{peer} is not accepted here any more", peer))
    ]
    s.waits_at -= set(come)
    return [*left, *announce_to(s, come)]


def shut_out(s: MeshState, peer: PeerId) -> list[Effect]:
    """A member does not accept this node any more: it is none for this node either, and is asked again."""
    member = s.roster.known.get(peer)
    if member is None:
        return []
    address = member.peer.address
    left = _drop(s, peer, text("{peer} does not accept this node any more", peer))
    trying = [effect for effect in s.announcer.failed(address, "") if isinstance(effect, SetTimer)]
    return [*left, *trying]


def waiting(s: MeshState, address: str, reason: str) -> list[Effect]:
    """Who is at an address has not accepted this node; people hear of it once for each address."""
    if address in s.waits_at:
        return []
    s.waits_at.add(address)
    words = text("this node waits to be accepted at {address}: {reason}", address, reason)
    return [Publish("trust_waits", words, {"address": address})]


def _drop(s: MeshState, peer: PeerId, words: str) -> list[Effect]:
    s.disputes.pop(peer, None)
    s.prober.forget(peer)
    s.troubled.discard(peer)
    jobs = [effect for effect in s.roster.forget(peer) if isinstance(effect, TellJobs)]
    told = [TellJobs(effect.peer, alive=effect.alive, reason=words) for effect in jobs]
    return [*told, Publish("peer_untrusted", words, {"peer": peer})]
