"""Suspicion and refutation: what follows from a member's message, from its silence, and from what others say of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flnet.errors import IdTaken
from flnet.membership.announcing import RETRY
from flnet.membership.names import admit
from flnet.membership.probing import repeats, suspicion_ticks
from flnet.membership.roster import STATES, State, Status, news_of
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, CancelTimer, Effect, Publish, SendProbe, TellJobs
from flnet.protocol.events import ProbeAnswered, ProbeFailed, ProbeReceived
from flnet.protocol.messages import MAX_PEERS, News, Peer, Probe, ProbeReply
from flnet.text import text


def meet(
    s: MeshState, peer: Peer, accepts: frozenset[str], incarnation: int, key: str | None = None
) -> list[Effect]:
    """A node said who it is and where, and its name is its own; it becomes a member, or is one."""
    if PeerId(peer.id) not in s.roster.known and not s.roster.make_room(MAX_PEERS):
        words = text("{peer} was left out: this node already knows {count} peers", peer.id, MAX_PEERS)
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
    claim = Status(STATES[news.state], news.incarnation)
    if news.id == s.me.id:
        return accused(s, claim, news.by or "")
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


def accused(s: MeshState, claim: Status, by: str) -> list[Effect]:
    """Somebody says something of this node: it is here, whatever they say."""
    if s.left or claim.incarnation < s.incarnation:
        return []
    if claim.state is State.ALIVE:  # somebody vouched for us
        s.incarnation = claim.incarnation
        return []
    s.incarnation = claim.refuted().incarnation
    s.prober.doubt.more()
    s.roster.gossip.add(news_of(s.me, Status(State.ALIVE, s.incarnation)))
    words = (
        text("{peer} got no answer from this node; the mesh is told that it is here", by)
        if by
        else text("a peer got no answer from this node; the mesh is told that it is here")
    )
    return [Publish("refuted", words, {"peer": by or "a peer"})]


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


# The steps of probing: a tick, a probe from outside, an answer, silence, and the end of this node.


TICK = "tick"


def ticked(s: MeshState, late: float) -> list[Effect]:
    """A tick is over: probe the next member, and tell what is new."""
    if late >= s.pauses.tick:  # answers may lie here unread: nobody is to blame for that
        s.prober.doubt.more()
        return []
    roster, prober = s.roster, s.prober
    roster.tick += 1
    roster.forget_old(s.pauses.tombstone)
    effects = give_up(s)
    if roster.tick % prober.doubt.factor == 0 and (peer := prober.next(roster.alive)) is not None:
        effects += check(s, peer)
    if len(roster.gossip):
        effects += [probe(s, peer) for peer in prober.some(roster.alive, s.pauses.fanout)]
    if roster.tick % s.pauses.refresh == 0:
        effects += announce_to(s, [roster.known[peer].peer.address for peer in prober.some(roster.alive, 1)])
    return effects


def give_up(s: MeshState) -> list[Effect]:
    """Suspect whom nobody reached, and bury suspects that did not show up in time."""
    roster = s.roster
    effects: list[Effect] = []
    for peer, reason in s.prober.given_up(roster.tick):
        effects += roster.accuse(peer, reason)
    for member in list(roster):
        if member.state is not State.SUSPECT:
            continue
        if roster.tick - member.since >= suspicion_ticks(s.pauses, roster.size, max(1, len(member.accusers))):
            peer = PeerId(member.peer.id)
            effects += roster.bury(peer)
            s.prober.forget(peer)
            if peer in roster.known:
                effects.append(s.announcer.retry(member.peer.address))
    return effects


def probed(s: MeshState, event: ProbeReceived) -> list[Effect]:
    """A node asks whether this one is there.

    Raises:
        IdTaken: it has this node's id, or one that belongs to a node with another key.
    """
    caller = PeerId(event.peer.id)
    admit(s, event.peer, event.key)
    if caller == s.my_id:
        raise IdTaken(event.peer.id)
    effects: list[Effect] = []
    if caller not in s.roster.known:  # it knows us, we do not know it: we were restarted, or missed its call
        effects += announce_to(s, s.announcer.new_among([event.peer]))
    else:
        effects += seen(s, caller, event.incarnation)
    for news in event.news:
        effects += hear(s, news)
    if event.target is not None:
        effects += assist(s, event.target, caller)
    if event.reached is not None:
        effects += seen(s, event.reached)
    if event.missed is not None:
        s.prober.helper_done(event.missed, caller)
    newest = s.roster.gossip.take(repeats(s.roster.size), first=caller)
    return [Answer(ProbeReply(i_am=s.me, incarnation=s.incarnation, news=newest, key=s.key)), *effects]


def assist(s: MeshState, target: PeerId, caller: PeerId) -> list[Effect]:
    """Probe a member for somebody else."""
    if caller not in s.roster.known:
        return []
    if target not in s.roster.known:
        return [probe(s, caller, missed=target)]
    asked = s.helping.setdefault(target, set())
    asked.add(caller)
    return [probe(s, target)] if len(asked) == 1 else []


def probe_answered(s: MeshState, event: ProbeAnswered) -> list[Effect]:
    """A member answered: it is there; if others asked for it, they hear so."""
    effects = seen(s, event.peer, event.incarnation)
    for news in event.news:
        effects += hear(s, news)
    if event.about is not None:
        s.prober.helper_heard(event.about)
        return effects
    waiting = sorted(s.helping.pop(event.peer, ()))
    return [*effects, *(probe(s, to, reached=event.peer) for to in waiting if to in s.roster.known)]


def probe_failed(s: MeshState, event: ProbeFailed) -> list[Effect]:
    """A member did not answer: others are asked to try."""
    peer, about = event.peer, event.about
    if about is not None:
        s.prober.helper_done(about, peer)
        return []
    waiting = sorted(s.helping.pop(peer, ()))
    effects = [probe(s, to, missed=peer) for to in waiting if to in s.roster.known]
    others = [m for m in s.roster.alive if s.roster.known[m].state is State.ALIVE]
    helpers = s.prober.silent(peer, event.reason, others, s.roster.tick)
    target = s.roster.known[peer].peer if peer in s.roster.known else None
    return [*effects, *(probe(s, helper, target=target) for helper in helpers or () if target)]


def leave(s: MeshState) -> list[Effect]:
    """Tell everybody that this node goes."""
    s.left = True
    gone = news_of(s.me, Status(State.LEFT, s.incarnation))
    message = Probe(i_am=s.me, incarnation=s.incarnation, news=[gone], key=s.key)
    return [CancelTimer(TICK), *(SendProbe(peer, message, s.pauses.probe) for peer in s.roster.alive)]
