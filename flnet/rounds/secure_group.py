"""How the members of a secure sum find each other, before any masked update is sent.

The leader is the initiator of the round, or the next node if it vanishes. In each attempt:

1. Every node sends all others public keys that it drew for this attempt, while its training runs.
2. The leader names the members: those whose keys it has, and which count their change from the same model.
3. Every member shares its two secrets among all members, and tells the leader once it holds the shares of all others,
   or which of them did not come.
4. The leader lets the sum begin. From then on as many members may vanish as the threshold allows.

If a member vanishes before that, the leader begins another attempt without it. Nothing is lost by that: no update has
been masked with the keys of the attempt before.

A member that breaks the protocol can hold up an attempt, and is left out of the next ones. Each node decides that by what
itself saw: keys that cannot be used, or no word where the leader waited for one. The word of another node is no proof. So
shares that some members refuse are tolerated, as long as enough others have theirs; and only the leader, or more peers
than may break the protocol, begin another attempt.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field

from flnet.algorithms.secure_sum import threshold
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import CancelTimer, Effect, SecureStep, SetTimer
from flnet.protocol.secure_sum import (
    BeginPart,
    DrawKeys,
    HeldPart,
    KeysDrawn,
    KeysPart,
    MakeShares,
    MembersPart,
    SecurePart,
    SharesMade,
    SharesPart,
    SharesTaken,
    StepFailed,
    TakeShares,
)
from flnet.protocol.updates import RoundKey
from flnet.rounds.peers import GRACE
from flnet.text import text

LAST_ATTEMPT = 4  # of a round; the first one is 0
MOST_KEPT = 3  # shares of groups that are not known yet which a node can have here
Say = Callable[[int, PeerId | None, SecurePart], list[Effect]]  # (attempt, to whom or None for all, part)
FEWER_THAN_TWO = text("a secure sum needs the updates of two nodes, and no other node takes part")


@dataclass(frozen=True)
class Group:
    """The members of one attempt.

    Attributes:
        leader: who named the members; not part of the id.
        base: digest of the model from which changes are counted.
        id: digest of the rest, to which every message after it is bound.
        members: the keys of each, sorted.
        threshold: how many shares rebuild a secret, and how few contributors a sum may have.
    """

    key: RoundKey
    attempt: int
    leader: PeerId
    base: str
    members: Mapping[PeerId, str]
    threshold: int

    @property
    def id(self) -> str:
        """As 64 hex digits."""
        facts = [self.key.number, self.key.initiator, self.attempt, self.base, self.threshold]
        return hashlib.sha256(json.dumps([*facts, list(self.members.items())]).encode()).hexdigest()


def digest_of(keys: str) -> str:
    """The digest of a node's keys, by which the leader names them."""
    return hashlib.sha256(keys.encode()).hexdigest()


@dataclass
class Attempt:
    """What this node knows of one attempt.

    Attributes:
        keys: that have come, by node.
        named: by whom the members were named, and how.
        early_shares: that came before the group was known, by group and sender.
        group: once its members are named and all their keys are here.
        are_out: whether this node's own shares are sent.
        wanted: members whose shares are not here.
        came: members whose shares are here, or being decrypted.
        lacking: members whose shares are not waited for any more, or cannot be used.
        ready: members that hold what they wait for, each with those whose shares it lacks.
    """

    keys: dict[PeerId, KeysPart] = field(default_factory=dict)
    named: tuple[PeerId, MembersPart] | None = None
    early_shares: dict[str, dict[PeerId, str]] = field(default_factory=dict)
    group: Group | None = None
    are_out: bool = False
    wanted: set[PeerId] = field(default_factory=set)
    came: set[PeerId] = field(default_factory=set)
    lacking: set[PeerId] = field(default_factory=set)
    ready: dict[PeerId, Set[PeerId]] = field(default_factory=dict)


class GroupBuilding:
    """Builds the group of one round, attempt after attempt.

    Attributes:
        attempt: number of the current attempt.
        has_begun: whether masked updates may be sent.
        left_out: why this node is not in the group; empty while it may be.
        failure: why there will be no group; empty while there may be one.
        silent: who was waited for in vain, by this node.
    """

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        candidates: Collection[PeerId],
        part_away: float,
        patience: float,
        say: Say,
        doubtful: Collection[PeerId] = (),
    ) -> None:
        """Args:
        candidates: the nodes that are expected to train in the round.
        part_away: the part of the members that may vanish.
        patience: seconds for which the leader waits for others, once it has trained.
        say: makes the effects that send a part.
        doubtful: further nodes, of which nothing came in rounds before: they have GRACE seconds when all others are
            there, and have no vote before they speak. One machine can bring many names.
        """
        self._key, self._me, self._part_away, self._patience, self._say = key, me, part_away, patience, say
        self._candidates = set(candidates)
        self._doubtful, self._has_grace = set(doubtful), False
        self._voters = set(candidates)  # all that may have voted in some group of the round
        self._spoke: set[PeerId] = set()
        self.attempt = 0
        self._attempts: defaultdict[int, Attempt] = defaultdict(Attempt)
        self.has_begun, self.left_out, self.failure = False, "", ""
        self.silent: set[PeerId] = set()
        self.timer = f"secure-group:{key.number}:{key.initiator}"
        self._base: Digest | None = None
        self._out: set[PeerId] = set()  # who held up an attempt
        self._is_waiting = self._has_left = False
        self.shares_timer = f"secure-shares:{key.number}:{key.initiator}"
        self.grace_timer = f"secure-grace:{key.number}:{key.initiator}"

    @property
    def _now(self) -> Attempt:
        return self._attempts[self.attempt]

    @property
    def group(self) -> Group | None:
        """The group of the current attempt, once the leader has named it and all keys are here."""
        return self._now.group

    @property
    def timers(self) -> tuple[str, str, str]:
        """The names of its timers."""
        return self.timer, self.shares_timer, self.grace_timer

    @property
    def quorum(self) -> int:
        """How many members must agree: the threshold, and more than half of all that could have been members.

        Who is no member itself need not know those: it opens nothing but what the threshold of members reveals.
        """
        assert self.group is not None
        voters = self._voters if self.is_member else self.group.members.keys()
        return max(self.group.threshold, len(voters) // 2 + 1)

    @property
    def spoke(self) -> Set[PeerId]:
        """Who has sent its keys and was not waited for in vain."""
        return self._spoke - self.silent

    @property
    def has_started(self) -> bool:
        """Whether this node takes part."""
        return self._base is not None

    @property
    def is_ready(self) -> bool:
        """Whether this node is a member and the sum has begun."""
        return self.has_begun and self.is_member

    @property
    def is_member(self) -> bool:
        """Whether this node is in the group."""
        return self.group is not None and self._me in self.group.members

    def start(self, base: Digest) -> list[Effect]:
        """This node begins to train from a model: take part."""
        self._base = base
        self.join(self._me)
        return self._draw()

    def trained(self) -> list[Effect]:
        """This node's update waits for the group: from now on nobody is waited for without end."""
        if self.has_begun or self.failure or self.left_out or self._is_waiting:
            return []
        self._is_waiting = True
        return self._wait()

    def leave(self, peer: PeerId, is_refusal: bool = False) -> list[Effect]:
        """A peer vanished or takes no part.

        Args:
            is_refusal: whether it says so itself; if it has not spoken before, it cannot have voted.
        """
        if is_refusal and peer not in self._spoke:
            self._voters.discard(peer)
        self._has_left = self._has_left or peer == self._me
        self._doubtful.discard(peer)
        if peer not in self._candidates:
            return self._go_on() if self.has_started else []
        self._candidates.discard(peer)
        if self.has_begun or not self.has_started:
            return []
        if self.group is not None and peer in self.group.members and self._leader == self._me:
            return self._next_attempt()
        return self._follow() or self._go_on()

    def hear(self, peer: PeerId) -> None:
        """A node speaks of this round: it may have voted in some group of it, of which this node need not know."""
        self._voters.add(peer)
        self._spoke.add(peer)

    def join(self, peer: PeerId) -> None:
        """A node takes part, expected or not; not again if it held up an attempt."""
        self.hear(peer)
        if peer not in self._out:
            self._candidates.add(peer)

    def meet(self, peer: PeerId) -> None:
        """A node that this one could not reach may have voted in another group of the round, until it says otherwise."""
        self._voters.add(peer)

    def choose(self, chosen: Collection[PeerId]) -> list[Effect]:
        """Only these nodes train in the round, which was not known when it opened."""
        self._candidates &= {*chosen}
        self._doubtful &= {*chosen}
        self._voters &= {*chosen} | self._spoke
        return self._go_on() if self.has_started else []

    def receive(self, sender: PeerId, attempt: int, part: SecurePart) -> list[Effect]:
        """Take a part of this stage."""
        self.hear(sender)
        if attempt > self.attempt + 2 or attempt > LAST_ATTEMPT:
            return []
        match part:
            case KeysPart():
                return self._take_keys(sender, attempt, part)
            case MembersPart():
                if attempt >= self.attempt and self._ranks_first(sender, attempt):
                    self._attempts[attempt].named = sender, part
                return self._go_on()
            case SharesPart(group=group, shares=shares):
                early = [came for one in self._attempts.values() for came in one.early_shares.values()]
                is_known = self.group is not None and group == self.group.id
                if is_known or sum(sender in came for came in early) < MOST_KEPT:
                    self._attempts[attempt].early_shares.setdefault(group, {}).setdefault(sender, shares)
                return self._take_shares()
            case HeldPart() if self.group is not None and part.group == self.group.id:
                return self._note_held(sender, part)
            case BeginPart() if (
                self.group is not None and part.group == self.group.id and sender == self.group.leader
            ):
                return self.begin(part.group)
        return []

    def done(self, attempt: int, result: KeysDrawn | SharesMade | SharesTaken | StepFailed) -> list[Effect]:
        """A step with the own secrets has ended."""
        if attempt != self.attempt:
            return []
        match result:
            case KeysDrawn(keys):
                assert self._base is not None
                part = KeysPart(keys=keys, base=self._base)
                self._now.keys[self._me] = part
                return [*self._say(attempt, None, part), *self._go_on()]
            case SharesMade(shares):
                assert self.group is not None
                self._now.are_out = True
                group = self.group.id
                sent = [
                    effect
                    for peer, text_ in shares.items()
                    for effect in self._say(attempt, peer, SharesPart(group=group, shares=text_))
                ]
                timer = SetTimer(self.shares_timer, self._patience / 2)
                return [timer, *sent, *self._take_shares(), *self._hold()]
            case SharesTaken(sender, why):
                self._now.wanted.discard(sender)
                self._now.lacking |= {sender} if why else set()
                return self._hold()
            case StepFailed(_, peers) if peers:
                return self._refuse_keys(peers)
            case StepFailed(reason):
                self.failure = reason
        return []

    def begin(self, group: str) -> list[Effect]:
        """The sum of a group begins, as its leader or a masked update says."""
        if self.group is None or group != self.group.id or self.has_begun:
            return []
        if self.is_member and (self._now.wanted or not self._now.are_out):
            return []  # this node could not help to open it
        self.has_begun = True
        return [CancelTimer(name) for name in self.timers]

    def timer_fired(self, name: str) -> list[Effect]:
        """The patience is over: go on without those that did not answer."""
        if name == self.shares_timer:
            now = self._now
            if self.has_begun or self._has_left or not (now.are_out and now.wanted):
                return []
            now.lacking, now.wanted = now.lacking | now.wanted, set()
            return self._hold()
        if self.has_begun or self.failure or self.left_out or self._has_left or not self.has_started:
            return []
        self._doubtful = set()
        if name == self.grace_timer:
            return self._go_on()
        leader, now = self._leader, self._now
        keys = now.keys.keys()
        if leader != self._me:  # it is silent, and had twice the time that it would give the others
            self._give_up_on({leader} if self.group else {leader, *(self._candidates - keys - {self._me})})
            return self._next_attempt() if self._leader == self._me else [*self._wait(), *self._follow()]
        if self.group is None:
            self._give_up_on(self._candidates - keys)
            effects = self._go_on()
            if now.named is not None and now.named[0] == self._me:
                return [*self._wait(), *effects]
            self.failure = FEWER_THAN_TWO
            return []
        self._leave_out(self.group.members.keys() - now.ready.keys() - {self._me})
        return self._next_attempt()

    def _give_up_on(self, peers: Collection[PeerId]) -> None:
        self._candidates.difference_update(peers)
        self.silent.update(peers)

    def _leave_out(self, peers: Collection[PeerId]) -> None:
        """These peers held up an attempt: they are in no other one of this round."""
        self._give_up_on(peers)
        self._out.update(peers)

    def _refuse_keys(self, peers: Collection[PeerId]) -> list[Effect]:
        """A group with keys that cannot be used is none; its leader finds that out, too, or is no good."""
        self._leave_out(peers)
        if self._leader == self._me:
            return self._next_attempt()
        self._now.named = self._now.group = None
        return []

    # --- steps

    @property
    def _leader(self) -> PeerId:
        initiator = self._key.initiator
        if initiator in self._candidates:
            return initiator
        return min(self._candidates, default=self._me)

    def _ranks_first(self, sender: PeerId, attempt: int) -> bool:
        """Whether nobody else has named the members of an attempt who comes before this sender.

        Of what one node says, the newest counts until the group is known: it may have been restarted.
        """
        now = self._attempts[attempt]
        if now.named is None or (now.group is None and now.named[0] == sender):
            return True
        before = now.named[0]
        return before != self._key.initiator and (sender == self._key.initiator or sender < before)

    def _wait(self) -> list[Effect]:
        """Bound the wait of this stage; the leader's is shorter, so that others hear of its next attempt first."""
        is_leader = self._leader == self._me
        return [SetTimer(self.timer, self._patience * (1 if is_leader else 2))] if self._is_waiting else []

    def _draw(self) -> list[Effect]:
        return [SecureStep(self._key, self.attempt, DrawKeys())]

    def _next_attempt(self) -> list[Effect]:
        self.attempt += 1
        if self.attempt > LAST_ATTEMPT:
            self.failure = text("the nodes did not agree on who takes part in the secure sum")
            return [CancelTimer(self.timer)]
        return [*self._wait(), *self._draw()]

    def _take_keys(self, sender: PeerId, attempt: int, part: KeysPart) -> list[Effect]:
        if attempt < self.attempt or self.has_begun:
            return []
        has_led = self._leader == self._me
        self.join(sender)
        group = self._attempts[attempt].group
        if group is None:
            self._attempts[attempt].keys[sender] = part  # the newest: a node that was restarted has drawn others
        elif group.leader == self._me and group.members.get(sender, part.keys) != part.keys:
            self._leave_out({sender})
            return self._next_attempt()
        # Who leads now has its time from now on; else this node would begin the next attempt just before it.
        wait = self._wait() if has_led and self._leader != self._me and self.has_started else []
        return [*wait, *(self._go_on() if attempt == self.attempt else self._follow())]

    def _follow(self) -> list[Effect]:
        """Go on to an attempt that the leader has begun, or more peers than may break the protocol.

        A single other one could use up all attempts of each round.
        """
        least = int(self._part_away * len(self._candidates)) + 1
        newer = {number: one.keys for number, one in self._attempts.items() if number > self.attempt}
        begun = [n for n, keys in newer.items() if self._leader in keys or len(keys.keys() - self._out) >= least]
        if not begun or self.has_begun:
            return []
        self.attempt = max(begun)
        takes_part = self.has_started and not (self.left_out or self._has_left)
        return [*(self._wait() if takes_part else []), *(self._draw() if takes_part else []), *self._go_on()]

    def _go_on(self) -> list[Effect]:
        """Name the members if this node leads and all keys are here; know the group if it is named."""
        if self.failure or self.has_begun or self.group is not None:
            return []
        effects: list[Effect] = []
        keys = self._now.keys
        is_complete = self._leader == self._me and self._me in keys and self._candidates <= keys.keys()
        if is_complete and self._doubtful - keys.keys():
            effects = [] if self._has_grace else [SetTimer(self.grace_timer, GRACE)]
            self._has_grace = True
        elif is_complete:
            members = {peer: keys[peer] for peer in sorted(self._candidates) if keys[peer].base == self._base}
            if len(members) < 2:
                return []  # others may still come
            part = MembersPart(members={peer: digest_of(key.keys) for peer, key in members.items()})
            self._now.named = self._me, part
            effects += self._say(self.attempt, None, part)
        return [*effects, *self._know_group()]

    def _know_group(self) -> list[Effect]:
        now, keys = self._now, self._now.keys
        if now.named is None:
            return []
        leader, part = now.named
        if not all(p in keys and digest_of(keys[PeerId(p)].keys) == digest for p, digest in part.members.items()):
            return []
        members = {PeerId(peer): keys[PeerId(peer)].keys for peer in sorted(part.members)}
        bases = {keys[peer].base for peer in members}
        if len(bases) > 1 or len(members) < 2:
            return []
        least = threshold(len(members), self._part_away)
        now.group = Group(self._key, self.attempt, leader, bases.pop(), members, least)
        if self._me not in members:
            self.left_out = text("the nodes of the secure sum are others: this node's keys came too late")
            return []
        now.wanted = members.keys() - {self._me}
        came = {peer: public for peer, public in members.items() if peer == self._me}
        came |= {peer: members[peer] for peer in keys if peer in members}  # a copy of keys comes after them
        request = MakeShares(came, now.group.threshold)
        return [*self._wait(), SecureStep(self._key, self.attempt, request)]

    def _take_shares(self) -> list[Effect]:
        """Decrypt what came, once the own shares are made."""
        now = self._now
        if now.group is None or not now.are_out:
            return []
        came = now.early_shares.get(now.group.id, {})
        ripe = [peer for peer in sorted(came) if peer in now.wanted - now.came]
        now.came |= set(ripe)
        return [SecureStep(self._key, self.attempt, TakeShares(peer, came[peer])) for peer in ripe]

    def _hold(self) -> list[Effect]:
        """Tell the leader once the shares of all others are here, or not waited for any more."""
        now = self._now
        if now.group is None or now.wanted or not now.are_out:
            return []
        part = HeldPart(group=now.group.id, refused=tuple(sorted(now.lacking)))
        if now.group.leader == self._me:
            return self._note_held(self._me, part)
        return self._say(self.attempt, now.group.leader, part)

    def _note_held(self, sender: PeerId, part: HeldPart) -> list[Effect]:
        """The leader hears what a member holds.

        A secret of which the threshold is not held could not be rebuilt. Of so many that lack it some tell the truth.
        """
        group, ready = self.group, self._now.ready
        assert group is not None
        if group.leader != self._me or sender not in group.members or self.has_begun:
            return []
        ready[sender] = frozenset(map(PeerId, part.refused))
        lacked = Counter(peer for refused in ready.values() for peer in refused)
        if lost := {peer for peer, count in lacked.items() if len(group.members) - count < group.threshold}:
            self._leave_out(lost - {self._me})
            return self._next_attempt()
        if ready.keys() < group.members.keys():
            return []
        begun = self._say(self.attempt, None, BeginPart(group=group.id))
        return [*begun, *self.begin(group.id)]
