"""Who is known: one record for each member, changed by what is seen at first hand and by what others say.

What changes a record is worked out here, and nothing else: who is asked when stands in probing.py and members.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from flnet.effects import Effect, Publish, TellJobs
from flnet.fingerprints import short
from flnet.membership.gossip import Gossip
from flnet.membership.standing import STATES, Standing, State
from flnet.messages import MAX_PEERS, News, Peer
from flnet.params import PeerId

NEW = Standing()
GONE = "it left the mesh"


@dataclass(frozen=True)
class Member:
    """A known peer; `ip` is never None here.

    Attributes:
        reason: why it is not alive, in words.
        accepts: forms of parameters that it said it reads.
        since: the tick in which its state began.
        accusers: nodes that found by themselves that it does not answer.
        key: its public key, the first one that came with its name.
    """

    peer: Peer
    standing: Standing = NEW
    reason: str = ""
    accepts: frozenset[str] = frozenset()
    since: int = 0
    accusers: frozenset[PeerId] = frozenset()
    key: str | None = None

    @property
    def state(self) -> State:
        """What it is held for."""
        return self.standing.state

    @property
    def alive(self) -> bool:
        """Whether rounds count on it."""
        return self.standing.state.takes_part

    def news(self, by: PeerId | None = None) -> News:
        """What is told of it."""
        return self._news if by is None else news_of(self.peer, self.standing, by)

    @cached_property
    def _news(self) -> News:
        return news_of(self.peer, self.standing)

    def is_held_for(self, news: News) -> bool:
        """Whether somebody says what is known of it already."""
        held = self.standing
        known = news.incarnation == held.incarnation and STATES[news.state] is held.state
        return known and (news.by is None or news.by in self.accusers)

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


def news_of(peer: Peer, standing: Standing, by: PeerId | None = None) -> News:
    """A claim as it travels."""
    number = standing.incarnation
    return News(id=peer.id, ip=peer.ip, port=peer.port, state=standing.state.value, incarnation=number, by=by)


class Roster:
    """The members, tombstones of those that died or left included."""

    def __init__(self, me: PeerId, prune: bool = False) -> None:
        """Args:
        prune: forget a peer at once when it is declared dead.
        """
        self.me = me
        self.known: dict[PeerId, Member] = {}
        self.keys: dict[PeerId, tuple[str, int]] = {}  # of who is no member, and the tick since when
        self.gossip = Gossip()
        self.tick = 0
        self._prune = prune
        self._alive: list[PeerId] | None = None  # worked out again after a change

    def __iter__(self) -> Iterator[Member]:
        return iter([self.known[peer] for peer in sorted(self.known)])

    @property
    def alive(self) -> list[PeerId]:
        """Ids of those that rounds count on, sorted."""
        return list(self._living())

    @property
    def size(self) -> int:
        """Nodes in the mesh, this one included."""
        return 1 + len(self._living())

    def key_of(self, peer_id: PeerId) -> str | None:
        """The key to which a name belongs."""
        member = self.known.get(peer_id)
        return member.key if member and member.key else self.keys.get(peer_id, (None,))[0]

    def all_keys(self) -> Mapping[PeerId, str]:
        """The keys of all names that have one."""
        return {peer: key for peer in (*self.known, *self.keys) if (key := self.key_of(peer)) is not None}

    def greet(self, peer: Peer, accepts: frozenset[str], incarnation: int, key: str | None = None) -> list[Effect]:
        """A node said who it is and where; its key is the one that its name belongs to, or the first one."""
        peer_id = PeerId(peer.id)
        gone = self._replaced_by(peer, key)
        before = self.known.get(peer_id)
        self.keys.pop(peer_id, None)
        if before is None:
            self._put(Member(peer, Standing(incarnation=incarnation), "", accepts, self.tick, key=key))
            self.gossip.add(self.known[peer_id].news())
            words = f"{peer_id} joined at {peer.address}"
            return [*gone, TellJobs(peer_id, alive=True), Publish("peer_joined", words, {"peer": peer_id})]
        self._put(replace(before, peer=peer, accepts=accepts, key=key or before.key))
        if key and not before.key:
            words = f"{peer_id} is known by the fingerprint {short(key)} from now on"
            gone.append(Publish("peer_key", words, {"peer": peer_id}))
        if before.peer.address != peer.address:
            words = f"{peer_id} moved from {before.peer.address} to {peer.address}"
            gone.append(Publish("peer_moved", words, {"peer": peer_id}))
        return [*gone, *self.seen(peer_id, incarnation)]

    def seen(self, peer_id: PeerId, incarnation: int = 0) -> list[Effect]:
        """A member showed at first hand that it is there; whoever sees that vouches for it.

        SWIM lets only the accused raise its incarnation. Here whoever hears from it may, too: a node that was
        restarted, or that speaks the thesis' form only, is back with its first word.
        """
        member = self.known[peer_id]
        if member.state is State.ALIVE and incarnation <= member.standing.incarnation:
            return []
        claim = Standing(State.ALIVE, incarnation)
        if member.state is State.ALIVE:
            self._put(replace(member, standing=claim))
            return []
        return self._set(member, claim if claim.beats(member.standing) else member.standing.refuted())

    def hear(self, news: News) -> list[Effect]:
        """Take what somebody says of a known member; nothing happens if it is older than what is known.

        Where it is does not change by hearsay: a node that moved says so itself.
        """
        member = self.known.get(PeerId(news.id))
        if member is None:
            return []
        claim, by = Standing(STATES[news.state], news.incarnation), PeerId(news.by) if news.by else None
        if claim.beats(member.standing):
            reasons = {State.SUSPECT: f"{by or 'a peer'} says so", State.DEAD: "others say so", State.LEFT: GONE}
            return self._set(member, claim, reasons.get(claim.state, ""), by)
        if claim == member.standing and by is not None and by not in member.accusers:
            self._second(member, by)
        return []

    def accuse(self, peer_id: PeerId, reason: str) -> list[Effect]:
        """This node found that a member does not answer, and nobody else got through to it either."""
        member = self.known.get(peer_id)
        if member is None or not member.alive:
            return []
        if member.state is State.SUSPECT:
            if self.me not in member.accusers:
                self._second(member, self.me)
            return []
        return self._set(member, Standing(State.SUSPECT, member.standing.incarnation), reason, self.me)

    def bury(self, peer_id: PeerId) -> list[Effect]:
        """A suspect did not show in time that it is there."""
        member = self.known[peer_id]
        return self._set(member, Standing(State.DEAD, member.standing.incarnation), member.reason)

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
        tell = Publish("peer_forgotten", f"a person forgot {peer_id}; its name is free here", {"peer": peer_id})
        if member is None:
            return [tell]
        self._drop(peer_id)
        gone = TellJobs(peer_id, alive=False, reason="a person forgot it")
        return [gone, tell] if member.alive else [tell]

    def make_room(self, most: int) -> bool:
        """Whether one more member may be known; who was gone for longest is forgotten for it."""
        gone = sorted((m.since, i) for i, m in self.known.items() if not m.alive)
        if len(self.known) >= most and gone:
            self._drop(gone[0][1])
        return len(self.known) < most

    def reads(self, peer_id: PeerId, accepts: frozenset[str]) -> None:
        """Note which forms of parameters a member reads."""
        if peer_id in self.known:
            self._put(replace(self.known[peer_id], accepts=accepts))

    def _living(self) -> list[PeerId]:
        if self._alive is None:
            self._alive = sorted(peer for peer, member in self.known.items() if member.alive)
        return self._alive

    def _put(self, member: Member) -> None:
        self.known[PeerId(member.peer.id)] = member
        self._alive = None

    def _drop(self, peer_id: PeerId, *, keep_key: bool = False) -> None:
        member = self.known.pop(peer_id)
        self._alive = None
        if keep_key and member.key:
            self.keys[peer_id] = (member.key, self.tick)
            if len(self.keys) > MAX_PEERS:
                del self.keys[min(self.keys, key=lambda peer: self.keys[peer][1])]

    def _second(self, member: Member, by: PeerId) -> None:
        """One more node found by itself that a suspect does not answer."""
        self._put(replace(member, accusers=member.accusers | {by}))
        self.gossip.add(member.news(by))

    def _set(self, member: Member, standing: Standing, reason: str = "", by: PeerId | None = None) -> list[Effect]:
        """Give a member a new standing, and pass it on."""
        peer_id, was = PeerId(member.peer.id), member.state
        same = was is standing.state
        now = replace(
            member,
            standing=standing,
            reason=reason,
            since=member.since if same and standing.state is not State.SUSPECT else self.tick,  # a new accusation
            accusers=frozenset({by} if by else ()),
        )
        self._put(now)
        self.gossip.add(now.news(by))
        effects = [] if same else _told(now, was)
        if self._prune and standing.state is State.DEAD:
            self._drop(peer_id, keep_key=True)
            words = f"{peer_id} was forgotten: {reason}"
            effects = [*effects[:1], Publish("peer_pruned", words, {"peer": peer_id})]
        return effects

    def _replaced_by(self, peer: Peer, key: str | None) -> list[Effect]:
        """Forget who else was at this address, or had this key: a node has a new id when it was renamed."""
        renamed = {i for i, m in self.known.items() if key and m.key == key and i != peer.id}
        here = (peer.port, peer.ip)
        old = [i for i, m in self.known.items() if (m.peer.port, m.peer.ip) == here and i != peer.id]
        effects: list[Effect] = []
        for peer_id in sorted(renamed.union(old)):
            alive = self.known[peer_id].alive
            self._drop(peer_id, keep_key=peer_id not in renamed)
            reason = f"it is called {peer.id} now" if peer_id in renamed else f"{peer.id} is at {peer.address} now"
            tell = Publish("peer_replaced", f"{peer_id} was forgotten: {reason}", {"peer": peer_id})
            effects += [TellJobs(peer_id, alive=False, reason=reason), tell] if alive else [tell]
        return effects


def _told(member: Member, was: State) -> list[Effect]:
    """What jobs and people hear of a change."""
    peer_id, reason = PeerId(member.peer.id), member.reason
    match member.state:
        case State.ALIVE if was is State.SUSPECT:
            words = f"{peer_id} answers again"
            return [TellJobs(peer_id, alive=True), Publish("peer_answers", words, {"peer": peer_id})]
        case State.ALIVE:
            words = f"{peer_id} is back at {member.peer.address}"
            return [TellJobs(peer_id, alive=True), Publish("peer_back", words, {"peer": peer_id})]
        case State.SUSPECT:
            words = f"{peer_id} may be gone: {reason}"
            return [Publish("peer_suspected", words, {"peer": peer_id})]
        case State.LEFT:
            words, kind = f"{peer_id} left the mesh", "peer_left"
        case _:
            words, kind = f"{peer_id} does not answer: {reason}", "peer_lost"
    gone = TellJobs(peer_id, alive=False, reason=reason)
    return [gone, Publish(kind, words, {"peer": peer_id})] if was.takes_part else []
