"""The known members: one record each, changed by direct observation and by the news of others.

Das, Gupta, Motivala (2002), SWIM, section 4.2: a claim carries the member's incarnation, a number that rises when
somebody shows an accusation to be wrong. Claims are ordered by incarnation, then by state in the order of `State`, and
of two claims the greater one counts. So it does not matter in which order, how often and by whom they were passed
on: nodes that heard the same claims hold the same. `State`, `News` in `flnet/protocol/messages.py` and the table in
docs/membership.md, which is made from `Status.beats`, change together.

`Status` compares two claims, `Roster` holds the members, and `Gossip` the news that is passed on with probes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

from blake3 import blake3

from flnet.fingerprints import short
from flnet.membership.probing import MET_IN_PERSON
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, Publish, TellJobs
from flnet.protocol.messages import MAX_INCARNATION, MAX_PEERS, News, Peer
from flnet.text import text


class State(Enum):
    """The state of a member; the values are used in messages and in views.

    Attributes:
        rank: which of two claims with equal incarnations counts: the higher one.
        takes_part: whether rounds count on such a member.
    """

    ALIVE = "alive"  # it answers
    SUSPECT = "suspect"  # it did not answer, and can still show that it is there
    DEAD = "dead"  # it did not show it in time
    LEFT = "left"  # it said that it goes

    def __init__(self, word: str) -> None:
        self.rank = ("alive", "suspect", "dead", "left").index(word)
        self.takes_part = word in ("alive", "suspect")


STATES = {state.value: state for state in State}  # by the word for them, which comes with every piece of news


@dataclass(frozen=True)
class Status:
    """A state, and the incarnation for which it was said."""

    state: State = State.ALIVE
    incarnation: int = 0

    def beats(self, other: Status) -> bool:
        """Whether this claim counts and the other one does not."""
        if self.incarnation != other.incarnation:
            return self.incarnation > other.incarnation
        return self.state.rank > other.state.rank

    def is_plausible_after(self, held: Status) -> bool:
        """Whether a member that held this status can have got as far as to this claim.

        Otherwise one claim with the highest incarnation would leave no room to refute it.
        """
        return self.incarnation <= held.incarnation + MOST_STEP

    def refuted(self) -> Status:
        """The claim that the member is there all the same; beyond the highest incarnation there is none."""
        return Status(State.ALIVE, min(self.incarnation + 1, MAX_INCARNATION))


PLACES_PER_ADDRESS = 64  # that members of one address on another machine can take
MOST_ACCUSERS = 8  # of a suspect that are noted and passed on; of three nobody else is waited for
MOST_STEP = 1000  # that one message raises an incarnation; 2^53 is then out of reach
NEW = Status()
GONE = text("it left the mesh")


@dataclass(frozen=True)
class Member:
    """A known peer; `ip` is never None here.

    Attributes:
        reason: why it is not alive, in words.
        accepts: forms of parameters that it said it reads.
        since: the tick in which its state began.
        accusers: nodes that found by themselves that it does not answer.
        key: its public key, the first one that came with its name.
        is_proven: whether it ever answered this node at its address; anybody can announce any address.
        is_introduced: whether it is known because another member said that it is there (introducing.py).
        is_hearsay: whether it left according to others only, who may be wrong or lie.
        is_thesis: whether it is a node of the thesis, which knows whole updates only.
        signatures: of the claims for which it has its standing, by speaker; this node's own are made when they
            are sent.
    """

    peer: Peer
    standing: Status = NEW
    reason: str = ""
    accepts: frozenset[str] = frozenset()
    since: int = 0
    accusers: frozenset[PeerId] = frozenset()
    key: str | None = None
    is_proven: bool = False
    is_introduced: bool = False
    is_hearsay: bool = False
    is_thesis: bool = False
    signatures: Mapping[PeerId, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state of the member."""
        return self.standing.state

    @property
    def alive(self) -> bool:
        """Whether rounds count on it."""
        return self.standing.state.takes_part

    @property
    def may_be_back(self) -> bool:
        """Whether this node keeps announcing itself to the member, for it may be there after all."""
        return self.state is State.DEAD or (self.state is State.LEFT and self.is_hearsay)

    def news(self, by: PeerId | None = None) -> News:
        """The news about the member."""
        return self._news if by is None else news_of(self.peer, self.standing, by, self.signatures.get(by))

    @cached_property
    def _news(self) -> News:
        return news_of(self.peer, self.standing, None, self.signatures.get(PeerId(self.peer.id)))

    @cached_property
    def introduction(self) -> News:
        """The news that it is alive, with what it announced of itself."""
        return self._news.model_copy(update={"accepts": tuple(sorted(self.accepts)), "key": self.key})

    def is_held_for(self, news: News) -> bool:
        """Whether news of a member is known already."""
        held = self.standing
        known = news.incarnation == held.incarnation and STATES[news.state] is held.state
        proven = news.signature is None or news.speaker in self.signatures
        return known and proven and (news.by is None or news.by in self.accusers)

    def view(self) -> Mapping[str, Any]:
        """The member as JSON-ready data."""
        return {
            "id": self.peer.id,
            "ip": self.peer.ip,
            "port": str(self.peer.port),
            "address": self.peer.address,
            "state": self.state.value,
            "reason": self.reason,
            "incarnation": self.standing.incarnation,
            "fingerprint": short(self.key),
            "key": self.key or "",
        }


def news_of(peer: Peer, standing: Status, by: PeerId | None = None, signature: str | None = None) -> News:
    """A claim as it travels."""
    return News(
        id=peer.id,
        ip=peer.ip,
        port=peer.port,
        state=standing.state.value,
        incarnation=standing.incarnation,
        by=by,
        signature=signature,
    )


DIGEST_DIGITS = 16
PER_MESSAGE = 32  # pieces of news in one probe


@dataclass
class _Waiting:
    news: News
    told: int = 0


class Gossip:
    """News to be sent, at most one piece for each member and accuser."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[PeerId, PeerId | None], _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, news: News) -> None:
        """Tell this from now on; older claims about the same member are dropped."""
        for key in [key for key in self._waiting if key[0] == news.id and self._older(key, news)]:
            del self._waiting[key]
        self._waiting[PeerId(news.id), PeerId(news.by) if news.by else None] = _Waiting(news)

    def take(self, limit: int, first: PeerId | None = None) -> list[News]:
        """Some pieces for one message, those sent least often first; pieces that were sent `limit` times are dropped.

        Args:
            first: news of this member goes first, as the message is for it.
        """
        if not self._waiting:
            return []
        in_turn = sorted(self._waiting.items(), key=lambda item: (item[0][0] != first, item[1].told))
        taken = in_turn[:PER_MESSAGE]
        for key, waiting in taken:
            waiting.told += 1
            if waiting.told >= limit:
                del self._waiting[key]
        return [waiting.news for _, waiting in taken]

    def _older(self, key: tuple[PeerId, PeerId | None], news: News) -> bool:
        old = self._waiting[key].news
        return (old.incarnation, old.state) != (news.incarnation, news.state)


class NoPlace(Exception):
    """All places for members are taken by live ones.

    Attributes:
        count: of these places.
        place: where they are, if only the places of one address are taken.
    """

    def __init__(self, count: int, place: str) -> None:
        super().__init__()
        self.count, self.place = count, place


@lru_cache(maxsize=4096)  # all members are looked at for each one that comes
def place_of(host: str | None) -> str:
    """What counts as one address when members are counted; empty for this machine, where nobody else is.

    IPv6 hosts have a whole /64, and who has a domain has any number of names in it.
    """
    name = (host or "").removesuffix(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        if name == "localhost":
            return ""
        return ".".join(name.split(".")[-2:]) if "." in name else "*"
    if address.is_loopback:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


class Roster:
    """The members, tombstones of those that died or left included."""

    def __init__(self, me: PeerId, prune: bool = False, *, signs: bool = False) -> None:
        """Args:
        prune: forget a peer at once when it is declared dead.
        signs: whether claims are signed, as in a keyed or pinned mesh.
        """
        self.me, self._signs = me, signs
        self.known: dict[PeerId, Member] = {}
        self.keys: dict[PeerId, tuple[str, int]] = {}  # of who is no member, and the tick since when
        self.gossip = Gossip()
        self.tick = 0
        self._prune = prune
        self._alive: list[PeerId] | None = None  # worked out again after a change
        self._addresses: set[str] | None = None  # likewise
        self._digest = ""  # likewise

    def __iter__(self) -> Iterator[Member]:
        return iter([self.known[peer] for peer in sorted(self.known)])

    @property
    def alive(self) -> list[PeerId]:
        """Ids of those that rounds count on, sorted."""
        return list(self._living())

    @property
    def addresses(self) -> Set[str]:
        """Where the members are, those that are gone included."""
        if self._addresses is None:
            self._addresses = {member.peer.address for member in self.known.values()}
        return self._addresses

    @property
    def size(self) -> int:
        """Nodes in the mesh, this one included."""
        return 1 + len(self._living())

    @property
    def is_large(self) -> bool:
        """Whether not each node of the mesh announces itself to each other one."""
        return self.size > MET_IN_PERSON

    @property
    def introduces(self) -> bool:
        """Whether members are known by what others say of them; where claims are signed, each shows its key itself."""
        return self.is_large and not self._signs

    @property
    def digest(self) -> str:
        """What two nodes compare to see whether they know the same members (`MembersDigest`)."""
        if not self._digest:
            ids = sorted([self.me, *self._living()])
            self._digest = blake3("\n".join(ids).encode()).hexdigest()[:DIGEST_DIGITS]
        return self._digest

    def counts(self, peer: PeerId) -> bool:
        """Whether rounds may count on it that a member is there: it answered this node, or another one that did tells.

        The word of another one is enough in a large mesh only, and one member cannot make a mesh large by inventing names.
        """
        member = self.known.get(peer)
        if member is None or member.is_proven or not member.is_introduced:
            return member is not None and member.is_proven
        return 1 + sum(one.is_proven for one in self.known.values()) >= MET_IN_PERSON

    def awaits_proof(self, member: Member) -> bool:
        """Whether others are not told of a member yet, because it has not answered this node at its address."""
        return self.introduces and bool(member.accepts) and not (member.is_proven or member.is_introduced)

    def key_of(self, peer_id: PeerId) -> str | None:
        """The key to which a name belongs."""
        member = self.known.get(peer_id)
        return member.key if member and member.key else self.keys.get(peer_id, (None,))[0]

    def all_keys(self) -> Mapping[PeerId, str]:
        """The keys of all names that have one."""
        return {peer: key for peer in (*self.known, *self.keys) if (key := self.key_of(peer)) is not None}

    def news(self, member: Member) -> News:
        """The news about a member; where claims are signed, an accusation names an accuser, who signs or has signed it."""
        if self.introduces and member.state is State.ALIVE and member.accepts:
            return member.introduction
        if not self._signs or member.state in (State.ALIVE, State.LEFT):
            return member.news()
        if self.me in member.accusers:
            return member.news(self.me)
        return member.news(min(member.signatures, default=None))

    def greet(
        self,
        peer: Peer,
        accepts: frozenset[str],
        incarnation: int | None,
        key: str | None = None,
        *,
        is_introduced: bool = False,
    ) -> list[Effect]:
        """A node said who it is and where; its key is the one that its name belongs to, or the first one.

        Args:
            incarnation: None from a node of the thesis, which states none.
            is_introduced: whether another member said it.
        """
        peer_id, is_thesis, incarnation = PeerId(peer.id), incarnation is None, incarnation or 0
        gone = self._replaced_by(peer, key)
        if peer_id not in self.known:
            incarnation = min(incarnation, MOST_STEP)
        before = self.known.get(peer_id)
        self.keys.pop(peer_id, None)
        if before is None:
            standing = Status(incarnation=incarnation)
            how: dict[str, Any] = {"is_introduced": is_introduced, "is_thesis": is_thesis}
            new = Member(peer, standing, "", accepts, self.tick, key=key, **how)
            self._put(new)
            if not self.awaits_proof(new):
                self.gossip.add(self.news(new))
            words = text("{peer} joined at {address}", peer_id, peer.address)
            return [*gone, TellJobs(peer_id, alive=True), Publish("peer_joined", words, {"peer": peer_id})]
        is_thesis &= before.is_thesis or not before.alive  # in its name, anybody can leave its incarnation out
        self._put(replace(before, peer=peer, accepts=accepts, key=key or before.key, is_thesis=is_thesis))
        if before.alive and before.is_thesis != is_thesis:
            gone.append(TellJobs(peer_id, alive=True))
        if key and not before.key:
            words = text("{peer} is known by the fingerprint {part} from now on", peer_id, short(key))
            gone.append(Publish("peer_key", words, {"peer": peer_id}))
        if before.peer.address != peer.address:
            words = text("{peer} moved from {address} to {other}", peer_id, before.peer.address, peer.address)
            gone.append(Publish("peer_moved", words, {"peer": peer_id}))
        return [*gone, *self.seen(peer_id, incarnation)]

    def seen(self, peer_id: PeerId, incarnation: int = 0) -> list[Effect]:
        """A member proved that it is alive; the node that saw the proof vouches for it.

        SWIM lets only the accused raise its incarnation. Here a node that hears from it may, too: a node that was
        restarted, or that speaks the thesis' form only, is back with its first word.
        """
        member = self.known[peer_id]
        incarnation = min(incarnation, member.standing.incarnation + MOST_STEP)  # further with the next message
        if member.state is State.ALIVE and incarnation <= member.standing.incarnation:
            return []
        claim = Status(State.ALIVE, incarnation)
        if member.state is State.ALIVE:
            self._put(replace(member, standing=claim, signatures={}))
            return []
        return self._set(member, claim if claim.beats(member.standing) else member.standing.refuted())

    def hear(self, news: News) -> list[Effect]:
        """Handle news of a known member; older news than the known state is ignored.

        Where it is does not change by hearsay: a node that moved says so itself.
        """
        member = self.known.get(PeerId(news.id))
        if member is None:
            return []
        claim, by = Status(STATES[news.state], news.incarnation), PeerId(news.by) if news.by else None
        if not claim.is_plausible_after(member.standing):
            return []
        if claim.beats(member.standing):
            reasons = {
                State.SUSPECT: text("{peer} says so", by) if by else text("a peer says so"),
                State.DEAD: text("others say so"),
                State.LEFT: GONE,
            }
            return self._set(member, claim, reasons.get(claim.state, ""), by, news.signature)
        if claim == member.standing and by is not None and by not in member.accusers:
            # Names that somebody invents accuse nobody.
            if by in self.known and len(member.accusers) < MOST_ACCUSERS:
                self._second(member, by, news.signature)
        elif claim == member.standing and self._signs and news.signature and news.speaker not in member.signatures:
            self._sign(member, PeerId(f"{news.speaker}"), news.signature)
        return []

    def vouch(self, peer_id: PeerId, against: Status) -> list[Effect]:
        """A member answered although somebody claims that it is gone; all hear that it is there."""
        member = self.known[peer_id]
        if not against.beats(member.standing):
            return []
        return self._set(member, against.refuted())

    def live_rivals(self, peer: Peer, key: str | None, asked: str = "") -> list[Member]:
        """The live members that a node of this name, address and key would replace.

        Args:
            asked: an address that this node called, where the node answered: nobody else is there.
        """
        rivals = (self.known[peer_id] for peer_id in sorted(self.at_or_with(peer, key)))
        return [rival for rival in rivals if rival.alive and rival.peer.address != asked]

    def accuse(self, peer_id: PeerId, reason: str) -> list[Effect]:
        """This node found that a member does not answer, and nobody else got through to it either."""
        member = self.known.get(peer_id)
        if member is None or not member.alive:
            return []
        if member.state is State.SUSPECT:
            if self.me not in member.accusers:
                self._second(member, self.me)
            return []
        return self._set(member, Status(State.SUSPECT, member.standing.incarnation), reason, self.me)

    def bury(self, peer_id: PeerId) -> list[Effect]:
        """A suspect did not show in time that it is there."""
        member = self.known[peer_id]
        by = self.me if self._signs else None
        return self._set(member, Status(State.DEAD, member.standing.incarnation), member.reason, by)

    def forget_old(self, ticks: int) -> None:
        """Forget those that died or left so many ticks ago, and whose name was whose."""
        self.keys = {peer: kept for peer, kept in self.keys.items() if self.tick - kept[1] < ticks}
        old = [i for i, m in self.known.items() if not m.alive and self.tick - m.since >= ticks]
        for peer_id in old:
            self._drop(peer_id)

    def forget(self, peer_id: PeerId) -> list[Effect]:
        """Forget a name and its key, because a person says so."""
        self.keys.pop(peer_id, None)
        member = self.known.get(peer_id)
        tell = Publish(
            "peer_forgotten", text("a person forgot {peer}; its name is free here", peer_id), {"peer": peer_id}
        )
        if member is None:
            return [tell]
        self._drop(peer_id)
        gone = TellJobs(peer_id, alive=False, reason=text("a person forgot it"))
        return [gone, tell] if member.alive else [tell]

    def has_room(self, peer: Peer) -> bool:
        """Whether another member may be known without that one is forgotten for it."""
        return not self._crowd_before(peer)[0]

    def make_room(self, peer: Peer) -> list[Effect]:
        """Forget a member so that another one may be known, if all its places are taken.

        A live member that ever answered this node is not forgotten; of the others, who never answered goes before who
        did, who is gone before who is not, and the longest known one first.

        Raises:
            NoPlace: no member can be forgotten.
        """
        crowd, place = self._crowd_before(peer)
        if not crowd:
            return []
        old = min(
            (m for m in crowd if not (m.alive and m.is_proven)),
            key=lambda m: (m.is_proven, m.alive, m.since, m.peer.id),
            default=None,
        )
        if old is None:
            raise NoPlace(len(crowd), place)
        peer_id, reason = PeerId(old.peer.id), text("it never answered, and its place is needed")
        self._drop(peer_id, keep_key=old.is_proven)
        return [TellJobs(peer_id, alive=False, reason=reason)] if old.alive else []

    def _crowd_before(self, peer: Peer) -> tuple[list[Member], str]:
        """The members that take all places which a node could have, and where, if these are the places of one address."""
        place = place_of(peer.ip)
        there = [m for m in self.known.values() if place_of(m.peer.ip) == place] if place else []
        if len(there) >= PLACES_PER_ADDRESS:
            return there, place
        return (list(self.known.values()), "") if len(self.known) >= MAX_PEERS else ([], "")

    def prove(self, peer_id: PeerId) -> bool:
        """Note that a member answered at its address; whether that is new. Others that waited for it hear of it."""
        member = self.known.get(peer_id)
        if member is None or member.is_proven:
            return False
        proven = replace(member, is_proven=True)
        self._put(proven)
        if self.awaits_proof(member) and member.state is State.ALIVE:
            self.gossip.add(self.news(proven))
        return True

    def knows_probes(self, peer_id: PeerId) -> list[Effect]:
        """A member answered a probe with one's answer: it is no node of the thesis."""
        member = self.known.get(peer_id)
        if member is None or not member.is_thesis:
            return []
        self._put(replace(member, is_thesis=False))
        return [TellJobs(peer_id, alive=True)] if member.alive else []

    def doubt_that_left(self, peer_id: PeerId) -> None:
        """Note that a member left according to others only."""
        self._put(replace(self.known[peer_id], is_hearsay=True))

    def reads(self, peer_id: PeerId, accepts: frozenset[str]) -> None:
        """Note which forms of parameters a member reads."""
        if peer_id in self.known:
            self._put(replace(self.known[peer_id], accepts=accepts))

    def _living(self) -> list[PeerId]:
        if self._alive is None:
            self._alive = sorted(peer for peer, member in self.known.items() if member.alive)
        return self._alive

    def _put(self, member: Member) -> None:
        before = self.known.get(PeerId(member.peer.id))
        if before is None or before.peer.address != member.peer.address:
            self._addresses = None
        self.known[PeerId(member.peer.id)] = member
        self._alive, self._digest = None, ""

    def _drop(self, peer_id: PeerId, *, keep_key: bool = False) -> None:
        member = self.known.pop(peer_id)
        self._alive, self._addresses, self._digest = None, None, ""
        if keep_key and member.key:
            self.keys[peer_id] = (member.key, self.tick)
            if len(self.keys) > MAX_PEERS:
                del self.keys[min(self.keys, key=lambda peer: self.keys[peer][1])]

    def _second(self, member: Member, by: PeerId, signature: str | None = None) -> None:
        """One more node found by itself that a suspect does not answer."""
        now = replace(member, accusers=member.accusers | {by})
        if signature and self._signs:
            self._sign(now, by, signature)
            return
        self._put(now)
        self.gossip.add(now.news(by))

    def _sign(self, member: Member, speaker: PeerId, signature: str) -> None:
        """A claim that this node holds for true comes with a signature now: it is worth more to others."""
        now = replace(member, signatures={**member.signatures, speaker: signature})
        self._put(now)
        self.gossip.add(now.news(speaker if speaker in now.accusers else None))

    def _set(
        self,
        member: Member,
        standing: Status,
        reason: str = "",
        by: PeerId | None = None,
        signature: str | None = None,
    ) -> list[Effect]:
        """Give a member a new standing, and pass it on."""
        peer_id, was = PeerId(member.peer.id), member.state
        same = was is standing.state
        now = replace(
            member,
            standing=standing,
            reason=reason,
            since=member.since if same and standing.state is not State.SUSPECT else self.tick,  # a new accusation
            accusers=frozenset({by} if by else ()),
            is_hearsay=False,
            signatures={by or peer_id: signature} if signature and self._signs else {},
        )
        self._put(now)
        self.gossip.add(self.news(now) if by is None and not self._signs else now.news(by))
        effects = [] if same else _told(now, was)
        if self._prune and standing.state is State.DEAD:
            self._drop(peer_id, keep_key=True)
            words = text("{peer} was forgotten: {reason}", peer_id, reason)
            effects = [*effects[:1], Publish("peer_pruned", words, {"peer": peer_id})]
        return effects

    def _with_key(self, peer: Peer, key: str | None) -> set[PeerId]:
        return {i for i, m in self.known.items() if key and m.key == key and i != peer.id}

    def at_or_with(self, peer: Peer, key: str | None) -> set[PeerId]:
        """The other members with this address or this key."""
        here = (peer.port, peer.ip)
        at = {i for i, m in self.known.items() if (m.peer.port, m.peer.ip) == here and i != peer.id}
        return at | self._with_key(peer, key)

    def _replaced_by(self, peer: Peer, key: str | None) -> list[Effect]:
        """Forget who else was at this address, or had this key: a node has a new id when it was renamed."""
        renamed = self._with_key(peer, key)
        effects: list[Effect] = []
        for peer_id in sorted(self.at_or_with(peer, key)):
            alive = self.known[peer_id].alive
            self._drop(peer_id, keep_key=peer_id not in renamed)
            reason = (
                text("it is called {peer} now", peer.id)
                if peer_id in renamed
                else text("{peer} is at {address} now", peer.id, peer.address)
            )
            tell = Publish(
                "peer_replaced", text("{peer} was forgotten: {reason}", peer_id, reason), {"peer": peer_id}
            )
            effects += [TellJobs(peer_id, alive=False, reason=reason), tell] if alive else [tell]
        return effects


def _told(member: Member, was: State) -> list[Effect]:
    """The events for jobs and people about a change."""
    peer_id, reason = PeerId(member.peer.id), member.reason
    match member.state:
        case State.ALIVE if was is State.SUSPECT:
            words = text("{peer} answers again", peer_id)
            return [TellJobs(peer_id, alive=True), Publish("peer_answers", words, {"peer": peer_id})]
        case State.ALIVE:
            words = text("{peer} is back at {address}", peer_id, member.peer.address)
            return [TellJobs(peer_id, alive=True), Publish("peer_back", words, {"peer": peer_id})]
        case State.SUSPECT:
            words = text("{peer} may be gone: {reason}", peer_id, reason)
            return [Publish("peer_suspected", words, {"peer": peer_id})]
        case State.LEFT:
            words, kind = text("{peer} left the mesh", peer_id), "peer_left"
        case _:
            words, kind = text("{peer} does not answer: {reason}", peer_id, reason), "peer_lost"
    gone = TellJobs(peer_id, alive=False, reason=reason)
    return [gone, Publish(kind, words, {"peer": peer_id})] if was.takes_part else []
