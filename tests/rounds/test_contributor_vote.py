"""The vote on the contributors of a secure sum: no two sets are ever settled, and one is if a quorum can talk."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params.params import PeerId
from flnet.protocol.secure_sum import MAX_BALLOT, AcceptPart, PreparePart, PromisePart, ProposePart
from flnet.rounds.contributor_vote import MOST_RAISES, Contributors, ContributorVote, Said, contributors_of

GROUP = "0" * 64
ENDING = 4  # ballots by which a leader is above all others, however far these are


def members(count: int) -> list[PeerId]:
    return [PeerId(f"n{number:02}") for number in range(count)]


def some(*names: str) -> Contributors:
    return contributors_of({name: f"{name}1".encode().hex().rjust(64, "0") for name in names})


class Members:
    """Members of a vote, and the messages between them, which a test delivers, loses and repeats."""

    def __init__(
        self, count: int, quorum: int, least: int = 1, *, has_parts: bool = False, must_hold: bool = False
    ) -> None:
        """`has_parts`: members hold parts of updates, at first those of all; `must_hold`: of all that they accept."""
        names = members(count)
        self.held = dict.fromkeys(names, some(*names))

        def is_sound(name: PeerId, chosen: Contributors) -> bool:
            return len(chosen) >= least and (not must_hold or set(chosen) <= set(self.held[name]))

        self.votes = {
            name: ContributorVote(
                *(name, GROUP, names, lambda: quorum, partial(is_sound, name)),
                partial(self.held.__getitem__, name) if has_parts else None,
                (lambda peer, holders: True) if must_hold else None,
            )
            for name in names
        }
        self.under_way: deque[tuple[PeerId, PeerId, object]] = deque()

    def say(self, sender: PeerId, said: list[Said]) -> None:
        for to, part in said:
            receivers = [to] if to is not None else [name for name in self.votes if name != sender]
            self.under_way += [(sender, receiver, part) for receiver in receivers]

    def deliver(self, place: int = 0, *, again: bool = False) -> None:
        sender, receiver, part = self.under_way[place]
        if not again:
            del self.under_way[place]
        self.say(receiver, self.votes[receiver].receive(sender, part))  # type: ignore[arg-type]

    def deliver_all(self) -> None:
        while self.under_way:
            self.deliver()

    @property
    def settled(self) -> set[Contributors]:
        return {vote.settled for vote in self.votes.values() if vote.settled is not None}


def test_members_that_all_have_everything_settle_it_with_one_message_each() -> None:
    mesh = Members(4, 3)
    everyone = some(*mesh.votes)
    for name, vote in mesh.votes.items():
        mesh.say(name, vote.accept_all(everyone))
    assert len(mesh.under_way) == 4 * 3
    mesh.deliver_all()
    assert all(vote.settled == everyone for vote in mesh.votes.values())


def test_a_leader_settles_what_it_holds() -> None:
    mesh = Members(4, 3)
    mesh.say(PeerId("n01"), mesh.votes[PeerId("n01")].lead(some("n00", "n01", "n02")))
    mesh.deliver_all()
    assert mesh.settled == {some("n00", "n01", "n02")}


def test_a_leader_proposes_what_was_accepted_before_it_asked() -> None:
    mesh = Members(4, 3)
    everyone = some(*mesh.votes)
    for name in ("n01", "n03"):  # nobody hears it
        assert mesh.votes[PeerId(name)].accept_all(everyone)
    mesh.say(PeerId("n00"), mesh.votes[PeerId("n00")].lead(some("n00", "n01", "n02")))
    mesh.under_way = deque(message for message in mesh.under_way if message[1] != PeerId("n02"))
    mesh.deliver_all()
    assert mesh.settled == {everyone}


def test_a_member_that_promised_accepts_nothing_under_a_lower_ballot() -> None:
    vote = ContributorVote(PeerId("n01"), GROUP, members(4), lambda: 3, lambda chosen: True)
    high = PreparePart(group=GROUP, ballot=9)
    low = ProposePart(group=GROUP, ballot=5, contributors=dict(some("n00", "n01", "n02")))
    assert vote.receive(PeerId("n00"), high)
    assert vote.receive(PeerId("n02"), low) == []
    assert vote.accept_all(some("n00")) == []


def test_who_is_no_member_is_not_heard_and_does_not_vote() -> None:
    vote = ContributorVote(PeerId("x"), GROUP, members(3), lambda: 2, lambda chosen: True)
    chosen: dict[str, str] = {str(peer): digest for peer, digest in some("n00", "n01")}
    accept = AcceptPart(group=GROUP, ballot=0, contributors=chosen)
    assert vote.accept_all(some("n00", "n01")) == []
    assert vote.receive(PeerId("n00"), accept) == []
    vote.receive(PeerId("y"), accept)
    assert vote.settled is None
    vote.receive(PeerId("n01"), accept)
    assert vote.settled == some("n00", "n01")


def test_what_a_member_holds_for_unsound_is_not_accepted() -> None:
    mesh = Members(3, 2, least=2)
    mesh.say(PeerId("n00"), mesh.votes[PeerId("n00")].lead(some("n00")))
    mesh.deliver_all()
    assert mesh.settled == set()


@pytest.mark.parametrize("quorum", [3, 4])
def test_a_new_leader_counts_on_from_the_highest_ballot(quorum: int) -> None:
    mesh = Members(5, quorum)
    for name in ("n04", "n00", "n04", "n02"):
        said = mesh.votes[PeerId(name)].lead(some("n00", "n01", "n02"))
        ballots = [part.ballot for _, part in said]
        assert len(set(ballots)) <= 1
        mesh.say(PeerId(name), said)
        mesh.deliver_all()
    assert mesh.settled == {some("n00", "n01", "n02")}


@given(st.integers(2, 7), st.integers(0, 2**32), st.booleans())
def test_no_schedule_of_losses_and_leaders_settles_two_sets(count: int, seed: int, has_parts: bool) -> None:
    rng = Random(seed)
    mesh = Members(count, count // 2 + 1, has_parts=has_parts)
    names, led = list(mesh.votes), Counter[PeerId]()
    for _ in range(80):
        drawn = rng.random()
        name = rng.choice(names)
        if drawn < 0.1:
            mesh.say(name, mesh.votes[name].accept_all(some(*names)))
        elif drawn < 0.25 and led[name] < MOST_RAISES - ENDING:
            led[name] += 1
            here = rng.sample(names, rng.randint(1, count))
            mesh.say(name, mesh.votes[name].lead(some(*here), here if has_parts else ()))
        elif mesh.under_way and drawn < 0.35:
            del mesh.under_way[rng.randrange(len(mesh.under_way))]
        elif mesh.under_way:
            mesh.deliver(rng.randrange(len(mesh.under_way)), again=rng.random() < 0.2)
        assert len(mesh.settled) <= 1
    before = mesh.settled
    mesh.under_way.clear()
    for _ in range(ENDING):  # whoever leads once all can talk settles it, and nothing else
        mesh.say(names[0], mesh.votes[names[0]].lead(some(*names)))
        mesh.deliver_all()
    assert len(mesh.settled) == 1
    assert before <= mesh.settled


def test_who_accepts_under_a_higher_ballot_leads_under_its_own_no_more() -> None:
    """Also where it never heard that the other one asked for promises."""
    mesh, (first, second, third) = Members(3, 2), members(3)
    (_, asks), *_ = mesh.votes[first].lead(some(first))
    late = mesh.votes[third].receive(first, asks)[0][1]
    (_, asks), *_ = mesh.votes[second].lead(some(second, third))
    (_, promise), *_ = mesh.votes[third].receive(second, asks)
    (_, proposal), *_ = mesh.votes[second].receive(third, promise)
    mesh.say(first, mesh.votes[first].receive(second, proposal))
    assert mesh.votes[first].receive(third, late) == []
    mesh.deliver_all()
    assert mesh.settled == {some(second, third)}


# Members that hold parts of updates.


def test_all_must_accept_the_set_of_all_before_it_is_settled_without_a_leader() -> None:
    mesh = Members(4, 3, has_parts=True)
    for name in members(3):
        mesh.say(name, mesh.votes[name].accept_all(some(*mesh.votes)))
    mesh.deliver_all()
    assert mesh.settled == set()
    mesh.say(PeerId("n03"), mesh.votes[PeerId("n03")].accept_all(some(*mesh.votes)))
    mesh.deliver_all()
    assert mesh.settled == {some(*mesh.votes)}


def test_what_all_accepted_binds_a_leader_also_if_some_have_accepted_it_under_a_later_ballot_since() -> None:
    """Of seven members all accept what all have, but hear little of it; then a leader fails half way, and leads again."""
    mesh, (leader, second, *others) = Members(7, 5, has_parts=True), members(7)
    everyone = some(*mesh.votes)
    for name, vote in mesh.votes.items():
        mesh.say(name, vote.accept_all(everyone))
    mesh.under_way = deque(message for message in mesh.under_way if message[1] == others[-1])
    mesh.deliver_all()
    assert mesh.settled == {everyone} and mesh.votes[leader].settled is None
    mesh.say(leader, mesh.votes[leader].lead(everyone))
    while mesh.under_way:
        proposes = isinstance(mesh.under_way[0][2], ProposePart)
        if proposes and mesh.under_way[0][1] != second:  # all others miss the proposal
            mesh.under_way.popleft()
        else:
            mesh.deliver()
    accepted = mesh.votes[second].accepted
    assert accepted is not None and accepted.ballot == 1
    mesh.held = dict.fromkeys(mesh.votes, some("n00", "n01"))  # as if it were settled no longer what all have
    mesh.say(leader, mesh.votes[leader].lead(some("n00", "n01")))
    mesh.deliver_all()
    assert mesh.settled == {everyone}


@pytest.mark.parametrize("is_held", [True, False])
def test_an_update_of_who_has_vanished_is_settled_only_if_all_others_hold_it(is_held: bool) -> None:
    mesh, (leader, second, third, gone) = Members(4, 3, has_parts=True), members(4)
    if not is_held:
        mesh.held[third] = some("n00", "n01", "n02")
    mesh.say(leader, mesh.votes[leader].lead(some(*mesh.votes), {leader, second, third}))
    mesh.under_way = deque(message for message in mesh.under_way if message[1] != gone)
    mesh.deliver_all()
    assert mesh.votes[second].settled == some(*mesh.votes) if is_held else some("n00", "n01", "n02")


def test_a_leader_waits_a_while_for_all_that_are_there() -> None:
    mesh, (leader, *_, last) = Members(4, 3, has_parts=True), members(4)
    mesh.say(leader, mesh.votes[leader].lead(some(*mesh.votes), set(mesh.votes)))
    mesh.under_way = deque(message for message in mesh.under_way if message[1] != last)
    mesh.deliver_all()
    assert mesh.settled == set()
    mesh.say(leader, mesh.votes[leader].wait_no_longer())  # a quorum has promised
    mesh.deliver_all()
    assert mesh.settled == {some(*mesh.votes)}
    assert mesh.votes[leader].wait_no_longer() == []  # it has proposed


@pytest.mark.parametrize(("lacking", "settled"), [(1, 5), (2, 4)])
def test_where_members_may_lie_a_leader_proposes_what_a_quorum_holds(lacking: int, settled: int) -> None:
    """One of five may lie, so four must accept, each of which holds its part of all that it accepts."""
    mesh, names = Members(5, 4, has_parts=True, must_hold=True), members(5)
    mesh.held[names[3]] = some(*names[:4])
    if lacking == 2:
        mesh.held[names[4]] = some(*names[:2], *names[3:])
    mesh.say(names[0], mesh.votes[names[0]].lead(some(*names), set(names)))
    mesh.deliver_all()
    (contributors,) = mesh.settled
    assert len(contributors) == settled


# Members that lie.


def test_one_member_cannot_bind_a_leader_to_what_nobody_sent() -> None:
    mesh, (leader, *_, liar) = Members(4, 3), members(4)
    mine = some("n00", "n01", "n02")
    told = dict.fromkeys(("n00", "n01", "n02"), "f" * 64)
    (_, asked), *_ = mesh.votes[leader].lead(mine)
    promise = PromisePart(group=GROUP, ballot=asked.ballot, accepted=asked.ballot - 1, contributors=told)
    mesh.say(leader, mesh.votes[leader].receive(liar, promise))  # before all others
    for name in ("n01", "n02"):
        mesh.say(PeerId(name), mesh.votes[PeerId(name)].receive(leader, asked))
    mesh.deliver_all()
    assert mesh.settled == {mine}


@pytest.mark.parametrize(
    "part",
    [
        PreparePart(group=GROUP, ballot=1),
        ProposePart(group=GROUP, ballot=1, contributors=dict(some("n00", "n01", "n02"))),
    ],
)
def test_a_ballot_of_another_member_is_not_heard(part: PreparePart | ProposePart) -> None:
    vote = ContributorVote(PeerId("n01"), GROUP, members(4), lambda: 3, lambda chosen: True)
    assert vote.receive(PeerId("n03"), part) == []
    assert vote.receive(PeerId("n00"), part) != []


def test_nobody_uses_up_the_ballots() -> None:
    mesh, liar = Members(4, 3), PeerId("n03")
    for ballot in (MAX_BALLOT, MAX_BALLOT - 4, *range(4, 4000, 4)):
        for name in members(3):
            mesh.votes[name].receive(liar, PreparePart(group=GROUP, ballot=ballot))
            mesh.votes[name].receive(liar, PromisePart(group=GROUP, ballot=ballot))
    mine = some("n00", "n01", "n02")
    for _ in range(2):  # the second time above what the others have promised meanwhile
        mesh.say(PeerId("n01"), mesh.votes[PeerId("n01")].lead(mine))
        mesh.under_way = deque(message for message in mesh.under_way if liar not in message[:2])
        mesh.deliver_all()
    assert mesh.settled == {mine}


def test_who_sent_two_masked_updates_is_left_out() -> None:
    """Two of the others hold one of them, and two the other one: no quorum accepts either."""
    names = members(5)

    def holds(name: PeerId) -> Contributors:
        seen = "a" if name in names[:2] else "b"
        return tuple((peer, (seen if peer == names[4] else "c") * 64) for peer in names)

    def accepts(name: PeerId) -> Callable[[Contributors], bool]:
        return lambda said: len(said) >= 4 and set(said) <= set(holds(name))

    mesh = Members(5, 4)
    for name in names[:4]:
        mesh.votes[name] = ContributorVote(name, GROUP, names, lambda: 4, accepts(name))
        mesh.say(name, mesh.votes[name].accept_all(holds(name)))
    for _ in range(2):
        for name in names[:4]:
            if not mesh.settled:
                mesh.say(name, mesh.votes[name].lead(holds(name)))
            mesh.under_way = deque(message for message in mesh.under_way if message[1] != names[4])
            mesh.deliver_all()
    assert mesh.settled == {holds(names[0])[:4]}


def test_nothing_is_settled_by_the_quorum_of_before_once_more_nodes_may_vote() -> None:
    quorum, names = 2, members(2)
    vote = ContributorVote(names[0], GROUP, names, lambda: quorum, lambda chosen: True)
    chosen = contributors_of(dict.fromkeys(names, "0" * 64))
    vote.accept_all(chosen)
    quorum = 3  # a third node was met, which may be in another group
    vote.receive(names[1], AcceptPart(group=GROUP, ballot=0, contributors=dict(chosen)))
    assert vote.settled is None
    quorum = 2  # it says that it is not
    assert vote.settled == chosen
