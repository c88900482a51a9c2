"""How the members of a secure sum find each other: who is waited for, who votes, and who begins an attempt."""

from __future__ import annotations

import base64
from collections import deque
from functools import partial

import pytest

from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Effect, SecureStep, SetTimer
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
from flnet.rounds.secure_group import MOST_KEPT, GroupBuilding, digest_of

KEY, BASE = RoundKey(3, PeerId("n00")), Digest("0" * 64)


def keys_of(name: str, attempt: int) -> str:
    return base64.b64encode(f"{name} {attempt}".encode()).decode()


class Mesh:
    """Nodes that build a group, and the parts between them; `mute` are those of which nothing arrives."""

    def __init__(self, count: int, mute: str = "") -> None:
        names = [PeerId(f"n{number:02}") for number in range(count)]
        self.under_way: deque[tuple[PeerId, PeerId, int, SecurePart]] = deque()
        self.mute, self.timers = mute, set[tuple[PeerId, str]]()
        self.nodes = {
            name: GroupBuilding(KEY, name, names, 1 / 3, 10.0, partial(self.say, name)) for name in names
        }
        for name, node in self.nodes.items():
            self.take(name, node.start(BASE))
        for name, node in self.nodes.items():
            self.take(name, node.trained())
        self.deliver()

    def say(self, me: PeerId, attempt: int, to: PeerId | None, part: SecurePart) -> list[Effect]:
        if me != self.mute:
            self.under_way += [(me, p, attempt, part) for p in ([to] if to else self.nodes) if p != me]
        return []

    def take(self, name: PeerId, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers.add((name, effect.name))
            if isinstance(effect, SecureStep):
                self.take(name, self.nodes[name].done(effect.attempt, self.step(name, effect)))

    def step(self, name: PeerId, effect: SecureStep) -> KeysDrawn | SharesMade | SharesTaken | StepFailed:
        match effect.request:
            case DrawKeys():
                return KeysDrawn(keys_of(name, effect.attempt))
            case MakeShares(members):
                none = frozenset(peer for peer, keys in members.items() if keys == "none")
                return StepFailed("none", none) if none else SharesMade({p: "AAAA" for p in members if p != name})
            case TakeShares(sender):
                return SharesTaken(sender)
        raise AssertionError(effect)

    def deliver(self) -> None:
        while self.under_way:
            sender, name, attempt, part = self.under_way.popleft()
            self.take(name, self.nodes[name].receive(sender, attempt, part))

    def fire(self, name: str, *, shares: bool = False) -> None:
        node = self.nodes[PeerId(name)]
        self.take(PeerId(name), node.timer_fired(node.shares_timer if shares else node.timer))
        self.deliver()

    def members(self) -> dict[str, list[str]]:
        """By node whose sum has begun, and that is not mute: the members."""
        begun = {name: node.group for name, node in self.nodes.items() if node.has_begun and name != self.mute}
        return {name: sorted(group.members) for name, group in begun.items() if group}


def test_all_are_members_where_all_answer() -> None:
    assert Mesh(3).members() == {f"n{n:02}": ["n00", "n01", "n02"] for n in range(3)}


def test_the_group_forms_without_a_leader_that_is_silent_and_without_who_else_is() -> None:
    mesh = Mesh(4, mute="n00")
    for name in ("n01", "n02", "n03"):
        mesh.fire(name)
    assert mesh.members() == {f"n{n:02}": ["n01", "n02", "n03"] for n in range(1, 4)}
    assert mesh.nodes[PeerId("n01")].silent == {"n00"}


def test_only_the_leader_or_more_than_may_lie_begin_another_attempt() -> None:
    node = GroupBuilding(KEY, PeerId("n01"), [PeerId(f"n{n:02}") for n in range(4)], 1 / 3, 10.0, lambda *_: [])
    node.start(BASE)
    for sender, attempt in (("n02", 0), ("n02", 1), ("n02", 2)):
        node.receive(PeerId(sender), attempt, KeysPart(keys=keys_of(sender, attempt), base=BASE))
        assert node.attempt == 0
    node.receive(PeerId("n03"), 1, KeysPart(keys=keys_of("n03", 1), base=BASE))
    assert node.attempt == 1
    node.receive(PeerId("n00"), 2, KeysPart(keys=keys_of("n00", 2), base=BASE))  # the leader
    assert node.attempt == 2


def test_who_holds_up_an_attempt_is_in_no_other_one_of_the_round() -> None:
    mesh = Mesh(4, mute="n03")
    liar = PeerId("n03")
    for attempt in (0, 1):  # it sends its keys, and nothing else
        for name in ("n00", "n01", "n02"):
            part = KeysPart(keys=keys_of(liar, attempt), base=BASE)
            mesh.take(PeerId(name), mesh.nodes[PeerId(name)].receive(liar, attempt, part))
        mesh.deliver()
    assert mesh.members() == {}
    for name in ("n00", "n01", "n02"):
        mesh.fire(name, shares=True)
    assert mesh.members() == {f"n{n:02}": ["n00", "n01", "n02"] for n in range(3)}


def test_no_other_member_than_the_leader_lets_one_begin_alone() -> None:
    mesh, liar = Mesh(4, mute="n03"), PeerId("n03")
    for name in ("n00", "n01", "n02"):
        mesh.take(
            PeerId(name), mesh.nodes[PeerId(name)].receive(liar, 0, KeysPart(keys=keys_of(liar, 0), base=BASE))
        )
    mesh.deliver()
    mesh.fire("n01", shares=True)  # it waits for the shares of the liar no longer
    node = mesh.nodes[PeerId("n01")]
    assert node.group is not None and node.group.leader == "n00"
    for sender in ("n02", "n03"):
        node.receive(PeerId(sender), 0, BeginPart(group=node.group.id))
        assert not node.has_begun
    node.receive(PeerId("n00"), 0, BeginPart(group=node.group.id))
    assert node.has_begun


def test_shares_of_groups_that_do_not_exist_take_no_room_of_those_that_do() -> None:
    node = GroupBuilding(KEY, PeerId("n01"), [PeerId(f"n{n:02}") for n in range(3)], 1 / 3, 10.0, lambda *_: [])
    node.start(BASE)
    for number in range(1000):
        node.receive(PeerId("n02"), 0, SharesPart(group=f"{number:064x}", shares="AAAA"))
    node.receive(PeerId("n00"), 0, SharesPart(group="e" * 64, shares="AAAA"))
    kept = node._attempts[0].early_shares
    assert len(kept) == MOST_KEPT + 1 and "e" * 64 in kept


@pytest.mark.parametrize(("accusers", "is_in"), [(1, True), (2, False)])
def test_shares_that_some_cannot_use_are_borne_with_as_long_as_the_threshold_holds_them(
    accusers: int, is_in: bool
) -> None:
    """Four members, of which three have to hold a secret: the word of one of them excludes nobody."""
    names = [PeerId(f"n{n:02}") for n in range(4)]
    node = GroupBuilding(KEY, names[0], names, 1 / 3, 10.0, lambda *_: [])
    node.start(BASE)
    node.done(0, KeysDrawn(keys_of("n00", 0)))
    for name in names[1:]:
        node.receive(name, 0, KeysPart(keys=keys_of(name, 0), base=BASE))
    group = node.group
    assert group is not None
    node.done(0, SharesMade(dict.fromkeys(names[1:], "AAAA")))
    for name in names[1:]:
        node.done(0, SharesTaken(name))
    for place, name in enumerate(names[1:]):
        refused = (names[1],) if 0 < place <= accusers else ()
        node.receive(name, 0, HeldPart(group=group.id, refused=refused))
    assert (node.attempt, node.has_begun) == ((0, True) if is_in else (1, False))


def test_keys_that_are_none_leave_their_sender_out_and_nobody_else() -> None:
    mesh = Mesh(4, mute="n03")
    for name in ("n00", "n01", "n02"):
        part = KeysPart(keys="none", base=BASE)
        mesh.take(PeerId(name), mesh.nodes[PeerId(name)].receive(PeerId("n03"), 0, part))
    mesh.deliver()
    assert mesh.members() == {f"n{n:02}": ["n00", "n01", "n02"] for n in range(3)}


@pytest.mark.parametrize("is_in_time", [True, False])
def test_who_said_nothing_in_rounds_before_has_a_little_time_and_no_vote_until_it_speaks(is_in_time: bool) -> None:
    names = [PeerId(f"n{n:02}") for n in range(9)]
    node = GroupBuilding(KEY, names[0], names[:2], 1 / 3, 10.0, lambda *_: [], doubtful=names[2:])
    node.start(BASE)
    node.done(0, KeysDrawn(keys_of("n00", 0)))
    effects = node.receive(names[1], 0, KeysPart(keys=keys_of("n01", 0), base=BASE))
    assert effects == [SetTimer(node.grace_timer, GRACE)]
    if is_in_time:
        assert node.receive(names[2], 0, KeysPart(keys=keys_of("n02", 0), base=BASE)) == []
    assert node.group is None
    node.timer_fired(node.grace_timer)
    assert node.group is not None
    assert sorted(node.group.members) == names[: 3 if is_in_time else 2]
    assert node.quorum == 2


def leader_of(candidates: list[PeerId], here: list[PeerId]) -> GroupBuilding:
    """The leader of a group of those of the candidates whose keys came in time."""
    node = GroupBuilding(KEY, here[0], candidates, 1 / 3, 10.0, lambda *_: [])
    node.start(BASE)
    node.done(0, KeysDrawn(keys_of(here[0], 0)))
    for name in here[1:]:
        node.receive(name, 0, KeysPart(keys=keys_of(name, 0), base=BASE))
    node.trained()
    if candidates != here:
        node.timer_fired(node.timer)
    assert node.group is not None
    assert sorted(node.group.members) == here
    return node


def test_a_node_that_is_met_in_the_round_has_a_vote_until_it_says_that_it_has_no_part_in_it() -> None:
    names = [PeerId(f"n{n:02}") for n in range(5)]
    node = leader_of(names[:3], names[:2])
    for name in names[2:]:  # of a part of the mesh that could not be reached: it may have a group of its own
        node.meet(name)
    assert node.quorum == 3
    node.leave(names[2], is_refusal=True)
    node.leave(names[3], is_refusal=True)
    assert node.quorum == 2


def test_who_is_not_chosen_has_no_vote() -> None:
    names = [PeerId(f"n{n:02}") for n in range(9)]
    node = leader_of(names, names[:3])
    assert node.quorum == 5
    node.choose(names[:3])
    assert node.quorum == 2


def test_who_speaks_of_the_round_in_another_group_has_a_vote_though_it_is_not_chosen() -> None:
    names = [PeerId(f"n{n:02}") for n in range(6)]
    node = leader_of(names[:3], names[:3])
    assert node.quorum == 2
    for name in names[3:5]:
        node.receive(name, 0, HeldPart(group="0" * 64))
    assert node.quorum == 3
    node.choose(names[:3])
    node.leave(names[3], is_refusal=True)
    assert node.quorum == 3


def test_a_node_that_was_restarted_before_the_group_is_known_is_in_it_with_its_new_keys() -> None:
    names = [PeerId(f"n{n:02}") for n in range(3)]
    node = GroupBuilding(KEY, names[0], names, 1 / 3, 10.0, lambda *_: [])
    node.receive(names[1], 0, KeysPart(keys=keys_of("n01 before", 0), base=BASE))
    node.start(BASE)
    node.done(0, KeysDrawn(keys_of("n00", 0)))
    for name in names[1:]:
        node.receive(name, 0, KeysPart(keys=keys_of(name, 0), base=BASE))
    assert node.group is not None
    assert node.group.members[names[1]] == keys_of("n01", 0)


def test_a_node_that_was_restarted_afterwards_is_left_out_of_the_next_attempt() -> None:
    names = [PeerId(f"n{n:02}") for n in range(3)]
    node = leader_of(names, names)
    node.receive(names[1], 0, KeysPart(keys=keys_of("n01", 0), base=BASE))  # twice the same
    assert (node.attempt, node.has_begun) == (0, False)
    node.receive(names[1], 0, KeysPart(keys=keys_of("n01 again", 0), base=BASE))
    assert node.attempt == 1
    node.done(1, KeysDrawn(keys_of("n00", 1)))
    node.receive(names[2], 1, KeysPart(keys=keys_of("n02", 1), base=BASE))
    assert node.group is not None
    assert sorted(node.group.members) == [names[0], names[2]]


def test_a_leader_that_comes_late_has_its_time_before_another_one_begins_the_next_attempt() -> None:
    names = [PeerId(f"n{n:02}") for n in range(3)]
    node = GroupBuilding(KEY, names[1], names, 1 / 3, 10.0, lambda *_: [])
    node.start(BASE)
    node.done(0, KeysDrawn(keys_of("n01", 0)))
    assert node.trained() == [SetTimer(node.timer, 20.0)]
    effects = node.timer_fired(node.timer)  # n00 leads, and has said nothing
    assert (node.attempt, SetTimer(node.timer, 10.0) in effects) == (1, True)
    node.done(1, KeysDrawn(keys_of("n01", 1)))
    effects = node.receive(names[0], 1, KeysPart(keys=keys_of("n00", 1), base=BASE))
    assert SetTimer(node.timer, 20.0) in effects


def test_who_is_no_member_takes_what_the_members_settle() -> None:
    mesh = Mesh(3)
    names = [PeerId(f"n{n:02}") for n in range(9)]
    listener = GroupBuilding(KEY, names[8], names, 1 / 3, 10.0, lambda *_: [])
    for name in names[:3]:
        listener.receive(name, 0, KeysPart(keys=keys_of(name, 0), base=BASE))
    members: dict[str, str] = {name: digest_of(keys_of(name, 0)) for name in names[:3]}
    listener.receive(names[0], 0, MembersPart(members=members))
    group, there = listener.group, mesh.nodes[names[0]].group
    assert group is not None and there is not None
    assert group.id == there.id
    assert listener.quorum == 2
