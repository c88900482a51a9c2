"""What this node makes of a member's word, of its silence, and of what others say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flnet.effects import CancelTimer, Effect, Publish, SendProbe, TellJobs
from flnet.membership.announcing import RETRY
from flnet.membership.pace import repeats
from flnet.membership.roster import news_of
from flnet.membership.standing import STATES, Standing, State
from flnet.membership.state import MeshState
from flnet.messages import MAX_PEERS, News, Peer, Probe
from flnet.params import PeerId


def meet(
    s: MeshState, peer: Peer, accepts: frozenset[str], incarnation: int, key: str | None = None
) -> list[Effect]:
    """A node said who it is and where, and its name is its own; it becomes a member, or is one."""
    if PeerId(peer.id) not in s.roster.known and not s.roster.make_room(MAX_PEERS):
        words = f"{peer.id} was left out: this node already knows {MAX_PEERS} peers"
        return [Publish("mesh_full", words)]
    s.announcer.failures.pop(peer.address, None)
    s.prober.answered(PeerId(peer.id))
    if not s.roster.known.get(PeerId(peer.id)) or not s.roster.known[PeerId(peer.id)].alive:
        s.disputes.pop(PeerId(peer.id), None)  # who it belongs to is there again
    return [*s.roster.greet(peer, accepts, incarnation, key), CancelTimer(RETRY + peer.address)]


def announce_to(s: MeshState, addresses: Iterable[str]) -> list[Effect]:
    """Announce this node at these addresses."""
    wanted = list(addresses)
    return (
        s.announcer.to(wanted, s.incarnation, s.all_news()) if wanted else []
    )  # the news are not made for nobody


def seen(s: MeshState, peer: PeerId, incarnation: int = 0) -> list[Effect]:
    """A member is there: it called, or it answered. One that left is back only when it announces itself."""
    member = s.roster.known.get(peer)
    if member is None or (member.state is State.LEFT and incarnation <= member.standing.incarnation):
        return []
    s.prober.answered(peer)
    effects = s.roster.seen(peer, incarnation)
    if peer in s.troubled:
        s.troubled.discard(peer)
        effects = effects or [TellJobs(peer, alive=True)]
    if not member.alive:
        s.announcer.failures.pop(member.peer.address, None)
        effects.append(CancelTimer(RETRY + member.peer.address))
    return effects


def hear(s: MeshState, news: News) -> list[Effect]:
    """Somebody says something of a member, or of this node."""
    member = s.roster.known.get(PeerId(news.id))
    if member is not None and member.is_held_for(news):
        return []  # most of what two nodes exchange
    claim = Standing(STATES[news.state], news.incarnation)
    if news.id == s.me.id:
        return accused(s, claim, news.by or "a peer")
    peer = PeerId(news.id)
    if member is None:
        named = Peer(id=news.id, ip=news.ip, port=news.port)
        return announce_to(s, s.announcer.new_among([named])) if claim.state is State.ALIVE else []
    was = member.standing
    effects = s.roster.hear(news)
    now = s.roster.known.get(peer)
    if now is None or now.standing == was:
        return effects
    if now.state is State.SUSPECT:
        return [*effects, *check(s, peer)]  # to find out by ourselves
    if now.alive:
        return effects
    s.prober.forget(peer)
    retry = [s.announcer.retry(now.peer.address)] if now.state is State.DEAD else []  # its accusers may go, too
    return [*effects, *retry]


def accused(s: MeshState, claim: Standing, by: str) -> list[Effect]:
    """Somebody says something of this node: it is here, whatever they say."""
    if s.left or claim.incarnation < s.incarnation:
        return []
    if claim.state is State.ALIVE:  # somebody vouched for us
        s.incarnation = claim.incarnation
        return []
    s.incarnation = claim.refuted().incarnation
    s.prober.doubt.more()
    s.roster.gossip.add(news_of(s.me, Standing(State.ALIVE, s.incarnation)))
    words = f"{by} got no answer from this node; the mesh is told that it is here"
    return [Publish("refuted", words, {"peer": by})]


def check(s: MeshState, peer: PeerId) -> list[Effect]:
    """Probe a member, unless it is being probed or is known to be gone."""
    member = s.roster.known.get(peer)
    if s.left or member is None or not member.alive or not s.prober.begin(peer, s.roster.tick):
        return []
    return [probe(s, peer)]


def probe(s: MeshState, to: PeerId, **fields: Any) -> Effect:
    """The probe of a member, with news beside it."""
    news = s.roster.gossip.take(repeats(s.roster.size), first=to)
    member = s.roster.known[to]
    if member.state is not State.ALIVE and all(PeerId(n.id) != to for n in news):
        news = [member.news(), *news]  # so that it can show that this is wrong
    message = Probe(i_am=s.me, incarnation=s.incarnation, news=news, key=s.key, **fields)
    return SendProbe(to, message, s.pauses.probe * s.prober.doubt.factor)
