"""What others say of a member: only a member is heard, and nobody is dropped by a claim before it was asked."""

from __future__ import annotations

import pytest

from flnet.membership.roster import MOST_STEP, State, Status
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Effect, SetTimer, TellJobs
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    Leaving,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    TimerFired,
)
from flnet.protocol.messages import MAX_INCARNATION, AnnounceReply, News, ProbeReply, StateWord
from tests.membership.meshes import address, announced, at, at_news, kinds, members, of, probes, silence, tick

A, B = PeerId("a"), PeerId("b")
GONE: tuple[StateWord, ...] = ("dead", "left")


def said(*news: News, by: str = "b") -> ProbeReceived:
    return ProbeReceived(at(by), news=news)


def asked(effects: list[Effect]) -> list[PeerId]:
    return [probe.to for probe in probes(effects)]


@pytest.mark.parametrize("state", ["suspect", *GONE])
def test_a_stranger_is_not_heard(state: StateWord) -> None:
    m = members("m", "a", "b")
    m.receive(said(at_news("a", state, 0), at_news("m", state, 7), by="x"))
    m.receive(ProbeReceived(at("x"), reached=A, missed=B))
    assert (m.known[A].standing, m.state.incarnation, m.state.doubted) == (Status(), 0, {})


@pytest.mark.parametrize("state", GONE)
@pytest.mark.parametrize("by", ["a", "b"])
def test_a_member_that_answers_is_not_gone_and_all_hear_so(state: StateWord, by: str) -> None:
    m = members("m", "a", "b")
    effects = m.receive(said(at_news("a", state, 0), by=by))
    assert asked(effects) == [A]
    assert probes(effects)[0].message.news[0] == at_news("a", state, 0)  # it can refute that
    assert of(TellJobs, effects) == []
    assert m.known[A].state is State.ALIVE
    effects = m.receive(ProbeAnswered(A, None))
    if state == "left":  # it may be of an earlier version, and about to end
        assert m.state.doubted.keys() == {A}
        assert A in asked(tick(m))
        effects += m.receive(ProbeAnswered(A, None))
    assert of(TellJobs, effects) == []
    assert (m.known[A].standing, m.state.doubted) == (Status(State.ALIVE, 1), {})
    assert at_news("a", "alive", 1) in m.state.roster.gossip.take(9)


@pytest.mark.parametrize("state", GONE)
def test_a_member_that_does_not_answer_is_gone_as_claimed(state: StateWord) -> None:
    m = members("m", "a", "b")
    m.receive(said(at_news("a", state, 0)))
    effects = m.receive(ProbeFailed(A, None, "no connection"))
    assert [tell.alive for tell in of(TellJobs, effects)] == [False]
    assert m.known[A].state.value == state
    tick(m, 9)
    assert m.state.doubted == {}


def test_a_member_that_says_where_it_was_asked_that_it_left_is_gone_and_not_called_any_more() -> None:
    m = members("m", "a", "b")
    m.receive(said(at_news("a", "left", 0), by="a"))
    effects = m.receive(ProbeAnswered(A, None, 0, (at_news("a", "left", 0),)))
    assert kinds(effects) == ["peer_left"]
    assert of(SetTimer, effects) == []
    assert of(SetTimer, m.receive(AnnounceFailed(address("a"), ""))) == []


def test_a_member_that_left_according_to_others_is_called_until_it_answers() -> None:
    m = members("m", "a", "b")
    m.receive(said(at_news("a", "left", 0)))
    (timer,) = of(SetTimer, m.receive(ProbeFailed(A, None, "no connection")))
    for _ in range(20):
        assert announced(m.receive(TimerFired(timer.name))) == [address("a")]
        (timer,) = of(SetTimer, m.receive(AnnounceFailed(address("a"), "no connection")))
    m.receive(TimerFired(timer.name))
    effects = m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0))
    assert [tell.alive for tell in of(TellJobs, effects)] == [True]
    assert m.known[A].standing == Status(State.ALIVE, 1)


def test_a_member_that_goes_is_not_taken_back_when_it_is_called() -> None:
    m, other = members("m", "a"), members("a", "m")
    other.receive(Leaving())
    (answer,) = of(Answer, other.receive(AnnounceReceived(at("m"), incarnation=0)))
    assert isinstance(answer.message, AnnounceReply)
    (left,) = answer.message.members or []
    assert (left.id, left.state) == ("a", "left")
    m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, members=(left,)))
    assert m.known[A].state is State.LEFT


def test_a_member_that_is_held_for_left_is_told_so_when_it_calls_and_is_taken_back_when_it_denies_it() -> None:
    m, other = members("m", "a", "b"), members("a", "m")
    m.receive(said(at_news("a", "left", 0)))
    m.receive(ProbeFailed(A, None, "no connection"))
    while len(m.state.roster.gossip):
        m.state.roster.gossip.take(1)  # it has heard of it too often already
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"))))
    assert isinstance(answer.message, ProbeReply)
    other.receive(ProbeAnswered(PeerId("m"), None, 0, tuple(answer.message.news)))
    assert other.state.incarnation == 1
    m.receive(ProbeReceived(at("a"), incarnation=other.state.incarnation))
    assert m.known[A].standing == Status(State.ALIVE, 1)


def test_a_node_that_left_says_so_to_who_asks() -> None:
    m = members("m", "a")
    m.receive(Leaving())
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"))))
    assert isinstance(answer.message, ProbeReply)
    assert answer.message.news[0].model_copy(update={"ip": None}) == News(
        id="m", port=at("m").port, state="left", incarnation=0
    )


@pytest.mark.parametrize("state", GONE)
def test_an_answer_to_an_earlier_question_decides_nothing(state: StateWord) -> None:
    m = members("m", "a")
    assert A in asked(tick(m))
    assert asked(m.receive(said(at_news("a", state, 0), by="a"))) == []  # it is being asked already
    m.receive(ProbeAnswered(A, None))
    assert m.state.doubted.keys() == {A}
    assert A in asked(tick(m))
    m.receive(ProbeFailed(A, None, ""))
    assert m.known[A].state.value == state


@pytest.mark.parametrize("state", GONE)
def test_who_was_found_silent_is_not_asked_again(state: StateWord) -> None:
    m = members("m", "a", "b")
    silence(m, A, ticks=3)
    assert m.known[A].state is State.SUSPECT
    m.receive(said(at_news("a", state, 0)))
    assert m.known[A].state.value == state


def test_no_message_takes_an_incarnation_to_its_end() -> None:
    m = members("m", "a", "b")
    for state in ("alive", "suspect", "dead", "left"):
        m.receive(said(at_news("a", state, MAX_INCARNATION)))
        assert m.known[A].standing == Status()
    m.receive(said(at_news("a", "suspect", MOST_STEP, "b")))
    assert m.known[A].standing == Status(State.SUSPECT, MOST_STEP)
    m.receive(AnnounceReceived(at("x"), incarnation=MAX_INCARNATION))
    assert m.known[PeerId("x")].standing.incarnation == MOST_STEP


def test_a_node_can_refute_whatever_is_said_of_it() -> None:
    m = members("m", "a", "b")
    for claims in range(1, 4):
        m.receive(said(at_news("m", "dead", MAX_INCARNATION)))
        assert m.state.incarnation == claims * (MOST_STEP + 1)
