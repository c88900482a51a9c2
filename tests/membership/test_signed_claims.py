"""Where claims are signed: what is proven counts, what is not is a reason to ask the member, and no more."""

from __future__ import annotations

import pytest

from flnet.membership.members import Members
from flnet.membership.roster import State, Status
from flnet.membership.state import KEPT_AHEAD
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Effect, KeepIncarnation, SetTimer, TellJobs
from flnet.protocol.events import (
    AnnounceAnswered,
    Leaving,
    MeshStarted,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
)
from flnet.protocol.messages import MAX_INCARNATION, News, ProbeReply, StateWord
from tests.membership.meshes import (
    address,
    announced,
    at,
    at_news,
    bury,
    key_of,
    kinds,
    members,
    miss,
    of,
    probes,
    signed_news,
    silence,
    tick,
)

A, B, C, M = PeerId("a"), PeerId("b"), PeerId("c"), PeerId("m")


def mesh(*known: str) -> Members:
    return members("m", *(known or ("a", "b", "c")), signs=True)


def said(*news: News, by: str = "b") -> ProbeReceived:
    return ProbeReceived(at(by), news=news, key=key_of(by))


def asked(effects: list[Effect]) -> list[PeerId]:
    return [probe.to for probe in probes(effects)]


def told(m: Members) -> list[News]:
    """All that it passes on, for the last time."""
    return m.state.roster.gossip.take(1)


# What is not proven.


@pytest.mark.parametrize("state", ["suspect", "dead", "left"])
@pytest.mark.parametrize("incarnation", [0, 1, 900, MAX_INCARNATION])
@pytest.mark.parametrize("by", [None, "a", "c"])
def test_an_unproven_claim_that_a_member_is_gone_leads_to_one_question(
    state: StateWord, incarnation: int, by: str | None
) -> None:
    m = mesh()
    told(m)
    effects = m.receive(said(at_news("a", state, incarnation, by)))
    assert asked(effects) == ([] if incarnation == MAX_INCARNATION else [A])
    assert m.known[A].standing == Status()
    assert of(TellJobs, effects) == []
    assert told(m) == []
    assert asked(m.receive(said(at_news("a", state, incarnation, by)))) == []


@pytest.mark.parametrize("state", ["dead", "left"])
def test_a_member_that_does_not_answer_that_question_is_not_dropped_for_it(state: StateWord) -> None:
    m = mesh()
    m.receive(said(at_news("a", state, 0)))
    effects = m.receive(ProbeFailed(A, None, "timed out"))
    assert sorted(asked(effects)) == [B, C]  # as ever: others probe it first
    assert m.known[A].state is State.ALIVE


def test_an_unproven_claim_that_a_member_is_back_leads_to_a_call_of_it_once_in_a_tick() -> None:
    m = mesh()
    bury(m, A)
    assert m.known[A].state is State.DEAD
    effects = m.receive(said(at_news("a", "alive", 5)))
    assert announced(effects) == [address("a")]
    assert m.known[A].state is State.DEAD
    assert announced(m.receive(said(at_news("a", "alive", 6)))) == []
    effects = m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, key=key_of("a")))
    assert [tell.alive for tell in of(TellJobs, effects)] == [True]
    assert m.known[A].standing == Status(State.ALIVE, 1)


def test_a_suspect_is_not_cleared_by_what_others_say() -> None:
    m = mesh()
    silence(m, A, ticks=2)
    suspected = m.known[A].standing
    assert suspected.state is State.SUSPECT
    m.receive(said(at_news("a", "alive", 9)))
    m.receive(ProbeReceived(at("b"), reached=A, key=key_of("b")))
    assert m.known[A].standing == suspected


def test_a_helper_that_was_asked_ends_the_question_and_nobody_else() -> None:
    m = mesh()
    effects = miss(m, A)
    (helper,) = {probe.to for probe in probes(effects) if probe.message.target} - {C}
    m.receive(ProbeReceived(at("x"), reached=A, key=key_of("x")))
    assert m.state.prober.is_silent(A)
    m.receive(ProbeReceived(at(helper), reached=A, key=key_of(helper)))
    assert not m.state.prober.is_silent(A)


def test_an_own_accusation_that_comes_back_counts_for_nothing() -> None:
    m = mesh()
    assert asked(m.receive(said(signed_news("a", "suspect", 0, "m")))) == []
    assert m.known[A].standing == Status()


# What is proven.


def test_who_signed_that_it_left_is_gone_without_a_question() -> None:
    m = mesh()
    effects = m.receive(said(signed_news("a", "left", 0)))
    assert kinds(effects) == ["peer_left"]
    assert asked(effects) == []
    assert of(SetTimer, effects) == []  # nobody calls it
    assert signed_news("a", "left", 0) in told(m)


def test_who_says_itself_that_it_left_is_gone_without_a_signature() -> None:
    m = mesh()
    assert kinds(m.receive(said(at_news("a", "left", 0), by="a"))) == ["peer_left"]
    assert at_news("a", "left", 0) in told(m)  # others ask the member


@pytest.mark.parametrize("state", ["suspect", "dead"])
@pytest.mark.parametrize("news", [at_news, signed_news])
def test_an_accusation_makes_a_suspect_at_most(state: StateWord, news: object) -> None:
    m = mesh()
    claim = signed_news("a", state, 0, "b") if news is signed_news else at_news("a", state, 0, "b")
    assert asked(m.receive(said(claim))) == [A]
    assert (m.known[A].state, set(m.known[A].accusers)) == (State.SUSPECT, {B})
    m.receive(said(signed_news("a", state, 0, "c")))
    assert m.known[A].accusers == {B, C}
    assert [item.signature for item in told(m) if item.by == "c"] == [signed_news("a", state, 0, "c").signature]


def test_an_accusation_without_an_accuser_is_nobodys() -> None:
    m = mesh()
    m.receive(said(at_news("a", "dead", 0)))
    assert m.known[A].standing == Status()


def test_a_dead_member_is_told_of_as_this_nodes_own_accusation() -> None:
    m = mesh()
    bury(m, A)
    assert (news := m.state.roster.news(m.known[A])).by == "m"
    assert (news.state, news.signature) == ("dead", None)  # signed when it is sent
    assert all(item.by == "m" for item in told(m) if item.id == "a" and item.state == "dead")


def test_a_suspect_is_told_of_with_the_signature_of_an_accuser() -> None:
    m = mesh()
    m.receive(said(signed_news("a", "suspect", 0, "c")))
    assert m.state.roster.news(m.known[A]) == signed_news("a", "suspect", 0, "c")
    assert m.state.all_news()[0] == signed_news("a", "suspect", 0, "c")


def test_a_signature_that_comes_later_is_passed_on() -> None:
    m = mesh()
    m.receive(ProbeReceived(at("a"), 3, key=key_of("a")))
    told(m)
    m.receive(said(signed_news("a", "alive", 3)))
    assert told(m) == [signed_news("a", "alive", 3)]
    m.receive(said(signed_news("a", "alive", 3)))
    assert m.state.all_news()[0] == signed_news("a", "alive", 3)
    m.receive(ProbeReceived(at("a"), 4, key=key_of("a")))
    assert m.state.all_news()[0] == at_news("a", "alive", 4)  # the old one says nothing of this


def test_an_old_claim_never_counts_again() -> None:
    m = mesh()
    m.receive(ProbeReceived(at("a"), 7, key=key_of("a")))
    for state in ("left", "suspect", "dead", "alive"):
        m.receive(said(signed_news("a", state, 6, "b" if state in ("suspect", "dead") else None)))
    assert m.known[A].standing == Status(State.ALIVE, 7)
    m.receive(said(signed_news("a", "left", 7)))
    m.receive(said(signed_news("a", "alive", 7)))
    assert m.known[A].state is State.LEFT


def test_a_member_is_back_with_what_it_signs() -> None:
    m = mesh()
    m.receive(said(signed_news("a", "left", 3)))
    effects = m.receive(said(signed_news("a", "alive", 4)))
    assert [tell.alive for tell in of(TellJobs, effects)] == [True]
    assert asked(effects) == announced(effects) == []


def test_only_what_changes_something_is_worth_checking() -> None:
    m = mesh()
    m.receive(ProbeReceived(at("a"), 3, key=key_of("a")))
    worth = [
        (signed_news("a", "alive", 3), key_of("a")),  # the first signature for it
        (signed_news("a", "alive", 4), key_of("a")),
        (signed_news("a", "left", 3), key_of("a")),
        (signed_news("a", "suspect", 3, "c"), key_of("c")),
        (signed_news("a", "dead", 3, "c"), key_of("c")),
        (signed_news("a", "alive", 2), None),
        (signed_news("a", "suspect", 2, "c"), None),
        (signed_news("a", "suspect", 3, "m"), None),
        (signed_news("a", "suspect", 3, "x"), None),  # nobody knows its key
        (signed_news("x", "alive", 3), None),
        (signed_news("m", "left", 3), None),
    ]
    for news, key in worth:
        assert m.key_to_check(news) == key, news
    m.receive(said(signed_news("a", "left", 3)))
    assert m.key_to_check(signed_news("a", "left", 3)) is None
    assert m.key_to_check(signed_news("a", "suspect", 9, "c")) is None


# What this node says of itself.


def test_a_node_that_others_vouch_for_signs_that_it_is_there() -> None:
    m = mesh()
    told(m)
    m.receive(said(at_news("m", "alive", 2)))
    assert m.state.incarnation == 2
    assert [(item.id, item.state, item.incarnation) for item in told(m)] == [("m", "alive", 2)]
    m.receive(said(at_news("m", "alive", 2)))
    assert told(m) == []


def test_a_node_that_goes_is_gone_for_all_that_it_tells() -> None:
    m, other = mesh("a"), members("a", "m", signs=True)
    for probe in probes(m.receive(Leaving())):
        other.receive(
            ProbeReceived(at("m"), probe.message.incarnation, tuple(probe.message.news), key=key_of("m"))
        )
    assert other.known[M].state is State.LEFT
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"), key=key_of("a"))))
    assert isinstance(answer.message, ProbeReply)
    other.receive(ProbeAnswered(M, None, 0, tuple(answer.message.news)))
    assert other.known[M].state is State.LEFT


# The next start.


def kept(effects: list[Effect]) -> list[int]:
    return [effect.incarnation for effect in of(KeepIncarnation, effects)]


def test_the_next_start_begins_above_all_that_was_signed() -> None:
    m = mesh()
    assert kept(m.receive(MeshStarted(incarnation=40))) == [40 + KEPT_AHEAD]
    assert m.state.incarnation == 40
    last = 40 + KEPT_AHEAD
    for _ in range(100):
        effects = m.receive(said(at_news("m", "suspect", m.state.incarnation, "b")))
        last = max([last, *kept(effects)])
        assert m.state.incarnation < last
    assert last < 40 + 100 + 2 * KEPT_AHEAD
    assert len(kept(m.receive(said(at_news("m", "dead", m.state.incarnation + 900))))) == 1


def test_a_mesh_without_keys_begins_at_zero_and_keeps_nothing() -> None:
    m = members("m", "a", "b")
    assert kept(m.receive(MeshStarted())) == []
    assert kept(m.receive(ProbeReceived(at("b"), news=(at_news("m", "dead", 500),)))) == []
    tick(m)
