"""Who is in the mesh: announcements, probes, suspicion, refutation, and what jobs hear of it; pure like the jobs.

Every tick this node probes one member. If it does not answer, other members probe it too; if nobody gets through, it is
suspected, and declared dead when it does not show in time that it is there. News travels with probes and their answers.
Time is counted in ticks, so a node whose own loop stands still accuses nobody meanwhile.

`Members` routes events to the steps that follow it: what is heard of a node, announcements, probes, and a pinned mesh,
in which a node is a member only while its key is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from flnet.errors import IdTaken, IllegalStep, NotAccepted, Pending, StrangerThere
from flnet.fingerprints import fingerprint
from flnet.membership.announcing import RETRY
from flnet.membership.introducing import (
    introduced_by,
    introduced_itself,
    lacked_by,
    news_for,
    stated,
    to_compare_with,
)
from flnet.membership.names import NameTaken, admit, disputed, forget, refused
from flnet.membership.probing import MET_IN_PERSON, probe_seconds, repeats, suspicion_ticks
from flnet.membership.roster import MOST_STEP, STATES, Member, NoPlace, State, Status, news_of
from flnet.membership.state import KEPT_AHEAD, Doubted, Meeting, MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import (
    Answer,
    CancelTimer,
    Effect,
    KeepIncarnation,
    Publish,
    SendAnnounce,
    SendProbe,
    SetTimer,
    TellJobs,
    in_order,
)
from flnet.protocol.events import (
    AddressFound,
    AddressGranted,
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
from flnet.protocol.messages import MAX_INCARNATION, MAX_PEERS, AnnounceReply, News, Peer, Probe, ProbeReply
from flnet.text import text

TICK = "tick"  # timer


class Members:
    """The peers that this node knows: `receive(event) -> effects`."""

    def __init__(self, state: MeshState) -> None:
        self.state = state
        self.accepts, self.key = state.accepts, state.key

    @property
    def me(self) -> Peer:
        """This node, with the address at which others reach it."""
        return self.state.me

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
        """The address of a peer as "host:port"; None for an unknown one."""
        member = self.known.get(peer)
        return member.peer.address if member else None

    def accepts_of(self, peer: PeerId) -> frozenset[str]:
        """Forms of parameters that a peer reads besides the thesis' JSON."""
        member = self.known.get(peer)
        return member.accepts if member else frozenset()

    def is_thesis(self, peer: PeerId) -> bool:
        """Whether a peer is a node of the thesis, which knows whole updates only."""
        member = self.known.get(peer)
        return member is not None and member.is_thesis

    def keys(self) -> Mapping[PeerId, str]:
        """The keys to which names belong, those of peers that are no members any more included."""
        return self.state.roster.all_keys()

    def counts(self, peer: PeerId) -> bool:
        """Whether rounds may count on it that a peer is there; see `Roster.counts`."""
        return self.state.roster.counts(peer)

    def key_of(self, peer: PeerId) -> str | None:
        """The key to which a name belongs, as far as it is known."""
        return self.state.key_of(peer)

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

    def key_to_check(self, news: News) -> str | None:
        """The key with which a claim must be signed; None if it changes nothing here, signed or not."""
        member, speaker = self.known.get(PeerId(news.id)), news.speaker
        if member is None or speaker is None or speaker == self.me.id or speaker in member.signatures:
            return None
        claim = _claim_of(news)
        is_late = news.accuses and not member.alive
        if is_late or (not claim.beats(member.standing) and claim != member.standing):
            return None
        return self.state.key_of(PeerId(speaker))

    def settled(self, peer: PeerId) -> bool:
        """Whether a message of this peer would tell nothing new: it is unknown, or alive without doubt."""
        member = self.known.get(peer)
        if member is None:
            return True
        is_missed = self.state.roster.is_large and self.state.prober.is_silent(peer)
        return member.state is State.ALIVE and peer not in self.state.troubled and not is_missed

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
            case MeshStarted(bootstrap, remembered, keys, incarnation):
                s.roster.keys |= {peer: (key, s.roster.tick) for peer, key in keys if peer not in s.roster.known}
                s.announcer.bootstrap, s.announcer.remembered = bootstrap, remembered
                began = raise_to(s, max(incarnation, s.incarnation))
                return [
                    *began,
                    *announce_to(s, [*bootstrap, *some_of(s, remembered)]),
                    SetTimer(TICK, s.pauses.tick),
                ]
            case AddressFound(address):
                return announce_to(s, s.announcer.new_of([address]))
            case AddressGranted(host, port):
                return moved(s, host, port)
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
        """Handle evidence that other traffic gives about a peer."""
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


# --- what is heard of a node, and suspicion


def meet(
    s: MeshState,
    peer: Peer,
    accepts: frozenset[str],
    incarnation: int | None,
    key: str | None = None,
    *,
    is_introduced: bool = False,
) -> list[Effect]:
    """A node said who it is and where, and its name is its own; it becomes a member, or is one.

    Args:
        is_introduced: whether another member said it.
    """
    evicted: list[Effect] = []
    if PeerId(peer.id) not in s.roster.known:
        try:
            evicted = s.roster.make_room(peer)
        except NoPlace as full:
            return [left_out(peer, full)]
    s.announcer.failures.pop(peer.address, None)
    s.prober.answered(PeerId(peer.id))
    if not s.roster.known.get(PeerId(peer.id)) or not s.roster.known[PeerId(peer.id)].alive:
        s.disputes.pop(PeerId(peer.id), None)  # who it belongs to is there again
    greeted = s.roster.greet(peer, accepts, incarnation, key, is_introduced=is_introduced)
    return [*evicted, *greeted, CancelTimer(RETRY + peer.address)]


def left_out(peer: Peer, full: NoPlace) -> Publish:
    """Publish that there is no place for a node."""
    if full.place:
        words = text(
            "{peer} was left out: {count} peers at {address} are known already", peer.id, full.count, full.place
        )
    else:
        words = text("{peer} was left out: this node already knows {count} peers", peer.id, full.count)
    return Publish("mesh_full", words)


def meet_unless_doubtful(
    s: MeshState, peer: Peer, accepts: frozenset[str], incarnation: int | None, key: str | None, asked: str = ""
) -> list[Effect]:
    """Meet a node, unless it would replace live members: these are asked first, and one that answers stays.

    Args:
        asked: the address that this node called, if the node answered there.
    """
    rivals = s.roster.live_rivals(peer, key, asked)
    if s.proves_keys:  # then a node that has the key of another one is that node
        rivals = [rival for rival in rivals if not key or rival.key != key]
    member = s.roster.known.get(PeerId(peer.id))
    if (
        not s.proves_keys
        and member is not None
        and member.alive
        and member.peer.address not in (peer.address, asked)
    ):
        return doubt(s, PeerId(peer.id), Doubted(move=Meeting(peer, accepts, incarnation, key)))
    if rivals:
        return announce_to(s, [rival.peer.address for rival in rivals])
    return meet(s, peer, accepts, incarnation, key)


def prove(s: MeshState, peer: PeerId) -> list[Effect]:
    """A node answered at its address; where rounds need to know that, jobs hear of it."""
    is_new, member = s.roster.prove(peer), s.roster.known.get(peer)
    tells = is_new and s.asks_at_once and member is not None and member.alive
    return [TellJobs(peer, alive=True)] if tells else []


def prove_soon(s: MeshState, peer: PeerId) -> list[Effect]:
    """Probe a node at once that never answered this one, where its turn would come late, or rounds need to know that it
    is there: until it answers, it may be a name that somebody invented.
    """
    member = s.roster.known.get(peer)
    if member is None or member.is_proven or not (s.asks_at_once or len(s.roster.known) >= MET_IN_PERSON):
        return []
    return check(s, peer)


def announce_to(s: MeshState, addresses: Iterable[str]) -> list[Effect]:
    """Announce this node at these addresses."""
    wanted = list(addresses)
    # The news are not made for nobody.
    return s.announcer.to(wanted, s.incarnation, s.all_news()) if wanted else []


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


def hear_all(s: MeshState, news: Sequence[News], teller: PeerId, *, asked: bool = False) -> list[Effect]:
    """Handle what a member says of members; what others say is not heard.

    Args:
        asked: whether the teller answered at its own address, so that what it says of itself is certain.
    """
    if teller not in s.roster.known:
        return []
    if s.proves_keys:  # its message proves who it is
        return [
            effect
            for item in news
            for effect in hear(s, item, is_certain=item.signature is not None or item.speaker == teller)
        ]
    introduced = [
        effect
        for meeting in introduced_by(s, news, s.roster.known[teller])
        for effect in (*meet(s, *meeting, is_introduced=True), *_prove_introduced(s, meeting))
    ]
    heard = [effect for item in news for effect in hear(s, item, is_certain=asked and item.id == teller)]
    return [*introduced, *heard]


def _prove_introduced(s: MeshState, meeting: Meeting) -> list[Effect]:
    """Probe at once who was introduced where rounds need to know who is there; else its turn comes."""
    return prove_soon(s, PeerId(meeting.peer.id)) if s.asks_at_once else []


def hear(s: MeshState, news: News, *, is_certain: bool = False) -> list[Effect]:
    """Handle what a member says of another one, or of this node.

    Args:
        is_certain: whether it is proven who says it: by the signature of the speaker, because the speaker itself sent
            it in a mesh with keys, or because the member that it is about said it where this node called it.
    """
    member = s.roster.known.get(PeerId(news.id))
    if member is not None and member.is_held_for(news):
        return []  # most of what two nodes exchange
    claim = Status(STATES[news.state], news.incarnation)
    if news.id == s.me.id:
        return accused(s, claim, news.by or "")
    peer = PeerId(news.id)
    if member is None:
        named = Peer(id=news.id, ip=news.ip, port=news.port)
        is_called = claim.state is State.ALIVE and (not s.roster.introduces or s.roster.has_room(named))
        return announce_to(s, s.announcer.new_among([named])) if is_called else []
    if s.proves_keys:
        return hear_proven(s, member, news) if is_certain else hear_unproven(s, member, news)
    if not is_certain and must_ask(s, member, claim):
        return doubt(s, peer, Doubted(claim))
    return take_over(s, member, news, is_certain=is_certain)


def hear_proven(s: MeshState, member: Member, news: News) -> list[Effect]:
    """Handle a claim whose speaker is proven. An accusation makes a suspect at most, whoever was dead for its accuser."""
    if not news.accuses:
        return take_over(s, member, news_of(member.peer, _claim_of(news), None, news.signature), is_certain=True)
    if not member.alive or news.by == s.my_id:
        return []
    return take_over(s, member, news_of(member.peer, _claim_of(news), PeerId(f"{news.by}"), news.signature))


def hear_unproven(s: MeshState, member: Member, news: News) -> list[Effect]:
    """Handle a claim that anybody may have invented: it is a reason to ask the member, and no more."""
    peer, claim = PeerId(news.id), _claim_of(news)
    if not claim.beats(member.standing) or not claim.is_plausible_after(member.standing):
        return []
    if member.alive:
        return check(s, peer) if claim.state is not member.state else []
    if claim.state is not State.ALIVE or not s.prober.may_call(peer, s.roster.tick):
        return []
    return announce_to(s, [member.peer.address])


def _claim_of(news: News) -> Status:
    """What is claimed, where claims are signed: who is dead for others is suspected here first."""
    return Status(State.SUSPECT if news.accuses else STATES[news.state], news.incarnation)


def take_over(s: MeshState, member: Member, news: News, *, is_certain: bool = False) -> list[Effect]:
    """Let a claim count, and do what follows from it."""
    peer, was = PeerId(news.id), member.standing
    effects = s.roster.hear(news)
    now = s.roster.known.get(peer)
    if now is None or now.standing == was:
        return effects
    if now.state is State.SUSPECT:
        is_asked = s.prober.may_ask_suspect(s.roster.size, s.roster.tick)
        return [*effects, *(check(s, peer) if is_asked else ())]  # to find out by ourselves
    if now.alive:
        return effects
    s.prober.forget(peer)
    return [*effects, *try_again(s, peer, is_certain=is_certain)]


def try_again(s: MeshState, peer: PeerId, *, is_certain: bool = False) -> list[Effect]:
    """Keep announcing this node to a member that is gone: whoever said so may be wrong, or go too.

    Args:
        is_certain: whether the member itself said so; one that left is not called then.
    """
    member = s.roster.known.get(peer)
    if member is not None and member.state is State.LEFT and not is_certain:
        s.roster.doubt_that_left(peer)
        member = s.roster.known[peer]
    return [s.announcer.retry(member.peer.address)] if member is not None and member.may_be_back else []


def must_ask(s: MeshState, member: Member, claim: Status) -> bool:
    """Whether a claim would drop a live member that this node has not found silent by itself."""
    if not member.alive or claim.state.takes_part or not claim.is_plausible_after(member.standing):
        return False
    is_silent = s.my_id in member.accusers or s.prober.is_silent(PeerId(member.peer.id))
    return claim.beats(member.standing) and not is_silent


def doubt(s: MeshState, peer: PeerId, doubted: Doubted) -> list[Effect]:
    """Ask a live member that is said to be gone or elsewhere; that counts if it does not answer where it was."""
    held = s.doubted.get(peer)
    if held is None or doubted.claim.beats(held.claim):
        s.doubted[peer] = doubted
    return ask_doubted(s, peer)


def ask_doubted(s: MeshState, peer: PeerId) -> list[Effect]:
    """Probe a member that is said to be gone, unless it is being probed."""
    effects = check(s, peer)
    if effects:
        s.doubted[peer].is_asked = True
    return effects


def is_there(s: MeshState, peer: PeerId) -> list[Effect]:
    """A member answered where it was, whatever was claimed before it was asked."""
    doubted = s.doubted.get(peer)
    if doubted is None or not doubted.is_asked:
        return []
    if doubted.claim.state is State.LEFT and not doubted.has_answered:
        doubted.has_answered, doubted.is_asked = True, False  # a node of an earlier version answers until it ends
        return []
    del s.doubted[peer]
    member = s.roster.known.get(peer)  # it may have been forgotten since
    return s.roster.vouch(peer, doubted.claim) if member is not None and member.alive else []


def ask_all_doubted(s: MeshState) -> list[Effect]:
    """Ask those that could not be asked at once; nothing is to be asked of members that are gone already."""
    s.doubted = {peer: doubted for peer, doubted in s.doubted.items() if peer in s.roster.alive}
    return [effect for peer in sorted(s.doubted) for effect in ask_doubted(s, peer)]


def is_gone(s: MeshState, peer: PeerId) -> list[Effect]:
    """A member that is said to be gone or elsewhere did not answer: the claim counts."""
    member, doubted = s.roster.known.get(peer), s.doubted.pop(peer, None)
    if member is None or doubted is None:
        return []
    if doubted.move is not None:
        return meet(s, *doubted.move)
    s.prober.forget(peer)
    return [*s.roster.hear(news_of(member.peer, doubted.claim)), *try_again(s, peer)]


def accused(s: MeshState, claim: Status, by: str) -> list[Effect]:
    """Somebody says something of this node: it is here, whatever they say."""
    if s.left or claim.incarnation < s.incarnation:
        return []
    incarnation = min(claim.incarnation, s.incarnation + MOST_STEP)  # further with the next claim
    if claim.state is State.ALIVE:  # somebody vouched for us
        if s.proves_keys and incarnation > s.incarnation:  # others believe it only if this node signs it
            s.roster.gossip.add(news_of(s.me, Status(State.ALIVE, incarnation)))
        return raise_to(s, incarnation)
    raised = raise_to(s, Status(claim.state, incarnation).refuted().incarnation)
    s.prober.doubt.more()
    s.roster.gossip.add(news_of(s.me, Status(State.ALIVE, s.incarnation)))
    words = (
        text("{peer} got no answer from this node; the mesh is told that it is here", by)
        if by
        else text("a peer got no answer from this node; the mesh is told that it is here")
    )
    return [*raised, Publish("refuted", words, {"peer": by or "a peer"})]


def raise_to(s: MeshState, incarnation: int) -> list[Effect]:
    """Use this incarnation from now on; where claims are signed, save a higher one for the next start.

    Whatever this node has signed is then outdated when it is started again, and nobody can use it against it.
    """
    s.incarnation = incarnation
    if not s.proves_keys or incarnation + KEPT_AHEAD // 2 <= s.kept:
        return []
    s.kept = min(incarnation + KEPT_AHEAD, MAX_INCARNATION)
    return [KeepIncarnation(s.kept)]


def check(s: MeshState, peer: PeerId) -> list[Effect]:
    """Probe a member, unless it is being probed or is known to be gone."""
    member = s.roster.known.get(peer)
    if s.left or member is None or not member.alive or not s.prober.begin(peer, s.roster.tick):
        return []
    return [probe(s, peer)]


def probe(s: MeshState, to: PeerId, **fields: Any) -> Effect:
    """The probe of a member, with news."""
    news = s.roster.gossip.take(repeats(s.roster.size), first=to)
    member = s.roster.known[to]
    if member.state is not State.ALIVE and all(PeerId(n.id) != to for n in news):
        news = [s.roster.news(member), *news]  # so that it can show that this is wrong
    if to in s.doubted and s.doubted[to].move is None:
        news = [news_of(member.peer, s.doubted[to].claim), *news]
    if s.roster.introduces and s.accepts and not member.is_proven:  # it may not have heard of this node
        news = [s.introduction(), *news]
    message = Probe(i_am=s.me, incarnation=s.incarnation, news=news, key=s.key, members_digest=stated(s), **fields)
    return SendProbe(to, message, probe_seconds(s.pauses, s.roster.size) * s.prober.doubt.factor)


# --- announcements


def moved(s: MeshState, host: str, port: int) -> list[Effect]:
    """This node has an address, perhaps another one than before: all members hear it from the node itself."""
    s.me = s.me.model_copy(update={"ip": host, "port": port})
    there = [member.peer.address for member in s.roster if member.alive or member.may_be_back]
    for address in there:
        s.announcer.asking.pop(address, None)  # what is under way says where this node was
    return [] if s.left else announce_to(s, there)


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
    lacks = lacked_by(s, event)
    s.joined = True
    met = meet_unless_doubtful(s, peer, event.accepts, event.incarnation, event.key)
    met += prove_soon(s, PeerId(peer.id))
    heard = hear_all(s, event.members, PeerId(peer.id))
    reply = AnnounceReply(announce_yourself_to_peers=lacks, i_am=s.me, accepts=accepts)
    if event.incarnation is not None:
        news = [own_end(s)] if s.left else news_for(s, event.members)
        reply = reply.model_copy(update={"incarnation": s.incarnation, "members": news, "key": s.key})
    return [Answer(reply), *met, *heard, *announce_to(s, s.announcer.new_among(known))]


def some_of(s: MeshState, remembered: tuple[str, ...]) -> list[str]:
    """As many of the addresses that this node remembers as it calls at first; the others are called where these fail."""
    if len(remembered) <= MET_IN_PERSON:
        return list(remembered)
    first = s.prober.some([PeerId(address) for address in remembered], MET_IN_PERSON)
    s.announcer.untried = [address for address in remembered if address not in first]
    return list(first)


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
    asked = event.address
    if any(item.id == event.peer.id and item.state == State.LEFT.value for item in event.members):
        return hear_all(s, event.members, PeerId(event.peer.id), asked=event.peer.address == asked)
    met = meet_unless_doubtful(s, event.peer, event.accepts, event.incarnation, event.key, asked)
    if event.peer.address == asked:
        met += [effect for effect in prove(s, PeerId(event.peer.id)) if effect not in met]
    heard = hear_all(s, event.members, PeerId(event.peer.id), asked=event.peer.address == asked)
    untold = set(s.roster.alive) - told - {PeerId(event.peer.id)}
    again = [event.address] if untold and not s.roster.introduces else []  # else it hears by news
    return [*met, *heard, *announce_to(s, [*again, *s.announcer.new_among(event.announce_to)])]


def unanswered(s: MeshState, address: str, reason: str, code: str = "") -> list[Effect]:
    """An announcement of this node was not answered, or refused with this code."""
    again = [*s.announcer.failed(address, reason), *announce_to(s, s.announcer.next_untried(address))]
    if code in (Pending.code, NotAccepted.code, StrangerThere.code):
        told = waiting(s, address, reason) if code != StrangerThere.code else []  # of strangers here people know
        return [*(effect for effect in again if isinstance(effect, SetTimer)), *told]
    if code == IdTaken.code:
        again = [*(effect for effect in again if isinstance(effect, SetTimer)), *refused(s, address, reason)]
    owner = next((m for m in s.roster if m.peer.address == address), None)
    if owner is None or owner.may_be_back or code == IdTaken.code:
        return again
    s.announcer.failures.pop(address, None)  # a member: probes say what becomes of it
    return check(s, PeerId(owner.peer.id))


# --- probes


def ticked(s: MeshState, late: float) -> list[Effect]:
    """A tick is over: probe the next member, and tell what is new."""
    if late >= s.pauses.tick:  # answers may lie here unread: nobody is to blame for that
        s.prober.doubt.more()
        return []
    roster, prober = s.roster, s.prober
    roster.tick += 1
    roster.forget_old(s.pauses.tombstone)
    s.keep_to_members()
    effects = give_up(s)
    effects += ask_all_doubted(s)
    if roster.tick % prober.doubt.factor == 0 and (peer := prober.next(roster.alive)) is not None:
        effects += check(s, peer)
    if len(roster.gossip):
        effects += [
            probe(s, peer) for peer in prober.some(roster.alive, 1 if roster.is_large else s.pauses.fanout)
        ]
    return [*effects, *announce_to(s, to_compare_with(s))]


def give_up(s: MeshState) -> list[Effect]:
    """Suspect members that no node reached, and declare suspects dead that did not refute in time."""
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
    """A node asks whether this one is alive.

    Raises:
        IdTaken: it has this node's id, or one that belongs to a node with another key.
    """
    caller = PeerId(event.peer.id)
    admit(s, event.peer, event.key)
    if caller == s.my_id:
        raise IdTaken(event.peer.id)
    effects: list[Effect] = []
    if caller not in s.roster.known:  # it knows us, we do not know it: we were restarted, or missed its call
        own = introduced_itself(s, event)
        effects += meet_unless_doubtful(s, *own) if own else []
    if caller not in s.roster.known:
        effects += announce_to(s, s.announcer.new_among([event.peer]))
    else:
        effects += heard_from(s, event)
    newest = s.roster.gossip.take(repeats(s.roster.size), first=caller)
    member = s.roster.known.get(caller)
    if member is not None and not member.alive and all(PeerId(news.id) != caller for news in newest):
        newest = [s.roster.news(member), *newest]  # one that left and is there again can show it
    if s.left:
        newest = [own_end(s), *newest]
    reply = ProbeReply(i_am=s.me, incarnation=s.incarnation, news=newest, key=s.key, members_digest=stated(s))
    return [Answer(reply), *effects]


def heard_from(s: MeshState, event: ProbeReceived) -> list[Effect]:
    """Handle what a member says in its probe."""
    caller = PeerId(event.peer.id)
    s.digests.note(caller, event.members_digest, s.roster.tick)
    effects = seen(s, caller, event.incarnation)
    member = s.roster.known[caller]
    if member.is_introduced and not member.is_proven and member.peer.address != event.peer.address:
        effects += announce_to(s, [event.peer.address])  # whoever introduced it may be wrong
    effects += hear_all(s, event.news, caller)
    if event.target is not None:
        effects += assist(s, event.target, caller)
    if event.reached is not None:
        effects += reached(s, event.reached, caller)
    if event.missed is not None:
        s.prober.helper_done(event.missed, caller)
    return effects


def reached(s: MeshState, peer: PeerId, helper: PeerId) -> list[Effect]:
    """A member answered a helper. Where claims are signed, a suspect shows itself that it is there, and nobody else."""
    if not s.proves_keys:
        return [*seen(s, peer), *is_there(s, peer)]
    member = s.roster.known.get(peer)
    if member is None or not s.prober.is_helper(peer, helper):
        return []
    if member.state is State.ALIVE:
        return seen(s, peer)
    s.prober.answered(peer)
    return []


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
    s.digests.note(event.peer, event.members_digest, s.roster.tick)
    known = s.roster.knows_probes(event.peer) if event.members_digest is not None else []
    effects = [*known, *prove(s, event.peer), *seen(s, event.peer, event.incarnation)]
    effects += hear_all(s, event.news, event.peer, asked=True)
    effects += is_there(s, event.peer)
    if event.about is not None:
        s.prober.helper_heard(event.about)
        return effects
    asking = sorted(s.helping.pop(event.peer, ()))
    return [*effects, *(probe(s, to, reached=event.peer) for to in asking if to in s.roster.known)]


def probe_failed(s: MeshState, event: ProbeFailed) -> list[Effect]:
    """A member did not answer: others are asked to try."""
    peer, about = event.peer, event.about
    if event.is_late and s.roster.is_large:
        s.prober.doubt.more()  # Lifeguard, section IV-A; in a small mesh one that is gone would be much of what is probed
    if about is not None:
        s.prober.helper_done(about, peer)
        return []
    asking = sorted(s.helping.pop(peer, ()))
    effects = [probe(s, to, missed=peer) for to in asking if to in s.roster.known]
    if peer in s.doubted:
        return [*effects, *is_gone(s, peer)]
    others = [m for m in s.roster.alive if s.roster.known[m].state is State.ALIVE]
    helpers = s.prober.silent(peer, event.reason, others, s.roster.tick)
    target = s.roster.known[peer].peer if peer in s.roster.known else None
    return [*effects, *(probe(s, helper, target=target) for helper in helpers or () if target)]


def leave(s: MeshState) -> list[Effect]:
    """Tell everybody that this node goes."""
    s.left = True
    message = Probe(i_am=s.me, incarnation=s.incarnation, news=[own_end(s)], key=s.key)
    return [CancelTimer(TICK), *(SendProbe(peer, message, s.pauses.probe) for peer in s.roster.alive)]


def own_end(s: MeshState) -> News:
    """What a node that goes says of itself."""
    return news_of(s.me, Status(State.LEFT, s.incarnation))


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
    """Publish, once for each address, that the node there has not accepted this one."""
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
