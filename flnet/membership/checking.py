"""The steps of probing: a tick, a probe from outside, an answer, silence, and the end of this node."""

from __future__ import annotations

from flnet.effects import Answer, CancelTimer, Effect, SendProbe
from flnet.errors import IdTaken
from flnet.events import ProbeAnswered, ProbeFailed, ProbeReceived
from flnet.membership.knowing import announce_to, check, hear, probe, seen
from flnet.membership.naming import admit
from flnet.membership.pace import repeats, suspicion_ticks
from flnet.membership.roster import news_of
from flnet.membership.standing import Standing, State
from flnet.membership.state import MeshState
from flnet.messages import Probe, ProbeReply
from flnet.params import PeerId

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
    gone = news_of(s.me, Standing(State.LEFT, s.incarnation))
    message = Probe(i_am=s.me, incarnation=s.incarnation, news=[gone], key=s.key)
    return [CancelTimer(TICK), *(SendProbe(peer, message, s.pauses.probe) for peer in s.roster.alive)]
