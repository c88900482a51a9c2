"""The steps of announcements, on both sides."""

from __future__ import annotations

from flnet.effects import Answer, Effect, SetTimer
from flnet.errors import IdTaken
from flnet.events import AnnounceAnswered, AnnounceReceived
from flnet.membership.knowing import announce_to, check, hear, meet
from flnet.membership.naming import admit, disputed, refused
from flnet.membership.standing import State
from flnet.membership.state import MeshState
from flnet.membership.trusting import waiting
from flnet.messages import MAX_PEERS, AnnounceReply
from flnet.params import PeerId
from flnet.signing.refusals import NotAccepted, Pending, StrangerThere


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
        trying = s.announcer.failed(event.address, f"it calls itself {event.peer.id}")
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
