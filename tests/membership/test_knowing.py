"""What this node makes of what it is told of members: who is tried again, and numbers beyond all bounds."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, Publish, SetTimer
from flnet.events import AnnounceReceived, ContactLost, Event, ProbeAnswered, ProbeFailed, ProbeReceived
from flnet.membership import State
from flnet.messages import MAX_INCARNATION, MAX_PEERS, News, StateWord
from flnet.params import PeerId
from tests.helpers import peer
from tests.membership.meshes import address, announced, at, at_news, bury, members, of, probes, tick

A, B = PeerId("a"), PeerId("b")


def said(*news: News) -> ProbeReceived:
    return ProbeReceived(at("b"), news=news)


@pytest.mark.parametrize(("state", "tried"), [("dead", True), ("left", False), ("suspect", False)])
def test_who_is_dead_by_hearsay_is_tried_again(state: StateWord, tried: bool) -> None:
    m = members("m", "a", "b")
    timers = of(SetTimer, m.receive(said(at_news("a", state, 0))))
    assert [timer.name for timer in timers] == ([f"announce:{address('a')}"] if tried else [])
    assert of(SetTimer, m.receive(said(at_news("a", state, 0)))) == []  # once


def test_with_pruning_the_dead_are_not_tried_again() -> None:
    m = members("m", "a", "b", prune=True)
    assert of(SetTimer, m.receive(said(at_news("a", "dead", 0)))) == []
    assert set(m.known) == {B}


def test_who_is_dead_for_others_is_not_accused_again() -> None:
    m = members("m", "a", "b")
    m.receive(ContactLost(A, ""))
    m.receive(ProbeFailed(A, None, "timed out"))
    m.receive(said(at_news("a", "dead", 0)))
    tick(m, 10)
    assert (m.known[A].state, m.state.prober.doubt.level) == (State.DEAD, 0)


def test_a_suspicion_of_a_newer_incarnation_is_looked_into_again() -> None:
    m = members("m", "a", "b")
    m.receive(said(at_news("a", "suspect", 0, "b")))
    m.receive(ProbeFailed(A, None, "timed out"))
    tick(m, 4)
    again = m.receive(said(at_news("a", "suspect", 1, "b")))
    assert [probe.to for probe in probes(again)] == [A]


@pytest.mark.parametrize("state", ["suspect", "dead", "left"])
def test_the_highest_incarnation_of_all_breaks_nothing(state: StateWord) -> None:
    m = members("m", "a", "b")
    (answer, *_) = of(Answer, m.receive(said(at_news("m", state, MAX_INCARNATION))))
    assert answer.message.model_dump_json()
    assert m.state.incarnation == MAX_INCARNATION
    m.receive(said(at_news("a", state, MAX_INCARNATION)))
    m.receive(AnnounceReceived(at("a"), incarnation=0))
    assert m.known[A].standing.incarnation == MAX_INCARNATION
    tick(m, 60)


@pytest.mark.parametrize(
    "word",
    [
        said(at_news("x", "suspect", 9, "y")),
        said(at_news("b", "dead", 9)),
        said(at_news("b", "dead", 9), at_news("b", "alive", 10)),
        ProbeReceived(at("b"), news=(at_news("b", "dead", 9),), target=A, reached=B, missed=B),
        ProbeReceived(at("b"), target=B, reached=PeerId("x"), missed=PeerId("x")),
        ProbeReceived(at("b"), target=PeerId("m"), reached=PeerId("m"), missed=PeerId("m")),
        ProbeAnswered(PeerId("x"), PeerId("y"), 7, (at_news("x", "alive", 3),)),
        ProbeFailed(PeerId("x"), PeerId("y"), ""),
        ProbeFailed(PeerId("x"), None, ""),
        ContactLost(PeerId("x"), ""),
    ],
)
@pytest.mark.parametrize("prune", [False, True])
def test_what_makes_no_sense_breaks_nothing(word: Event, prune: bool) -> None:
    m = members("m", "a", "b", prune=prune)
    for _ in range(2):
        m.receive(word)
        tick(m, 3)
    assert m.known[A].state is State.ALIVE


def test_somebody_unknown_is_announced_to_when_said_to_be_alive_only() -> None:
    m = members("m", "b")
    assert announced(m.receive(said(at_news("a", "dead", 0), at_news("a", "left", 0)))) == []
    assert announced(m.receive(said(at_news("a", "alive", 0)))) == [address("a")]
    assert set(m.known) == {B}  # not before it answers


def test_a_full_mesh_of_dead_peers_has_room_for_newcomers() -> None:
    m = members("m", "a")
    bury(m, A)
    for i in range(MAX_PEERS - 1):
        m.receive(AnnounceReceived(peer(f"p{i}", 1000 + i)))
    effects = m.receive(AnnounceReceived(peer("late", 9)))
    assert [effect.kind for effect in of(Publish, effects)] == ["peer_joined"]
    assert (A in m.known, len(m.known)) == (False, MAX_PEERS)
