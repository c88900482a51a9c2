"""How long a suspect has to show that it is there, and how often news is passed on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.probing import HELP_TICKS, MAX_DOUBT, Doubt, Pauses, Prober, repeats, suspicion_ticks
from flnet.membership.roster import MOST_STEP, State, Status
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, CancelTimer, Publish, SetTimer, TellJobs
from flnet.protocol.events import (
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    Leaving,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
)
from flnet.protocol.messages import MAX_INCARNATION, MAX_PEERS, News, ProbeReply, StateWord
from tests.helpers import peer
from tests.membership.meshes import address, announced, at, at_news, bury, kinds, members, miss, of, probes, tick


# ceil(3 max(1, log10 size)) is the shortest, six times that the longest; between them by log accusers / log 3.
@pytest.mark.parametrize(
    ("size", "ticks"),
    [
        (2, [3, 3, 3, 3]),  # nobody else could accuse
        (3, [18, 3, 3, 3]),  # one other could
        (5, [18, 8, 3, 3]),  # 18 - 15 log 2 / log 3 = 8.54
        (10, [18, 8, 3, 3]),
        (20, [24, 11, 4, 4]),  # 3 log10 20 = 3.90; 24 - 20 log 2 / log 3 = 11.38
        (50, [36, 17, 6, 6]),  # 3 log10 50 = 5.10; 36 - 30 log 2 / log 3 = 17.07
        (100, [60, 28, 10, 10]),  # two probes of 5 s; 60 - 50 log 2 / log 3 = 28.45
    ],
)
def test_how_long_a_suspect_has(size: int, ticks: list[int]) -> None:
    assert [suspicion_ticks(Pauses(), size, accusers) for accusers in (1, 2, 3, 4)] == ticks


@given(st.integers(1, 257), st.integers(1, 10), st.integers(1, 9), st.integers(1, 9))
def test_more_accusers_never_lengthen_it(size: int, accusers: int, suspicion: int, patience: int) -> None:
    pauses = Pauses(suspicion=suspicion, patience=patience)
    ticks = suspicion_ticks(pauses, size, accusers)
    assert suspicion_ticks(pauses, size, accusers + 1) <= ticks
    assert suspicion <= suspicion_ticks(pauses, size, 10) <= ticks <= patience * suspicion_ticks(pauses, size, 10)


@given(st.integers(4, 256), st.integers(1, 5))
def test_a_larger_mesh_never_shortens_it(size: int, accusers: int) -> None:
    assert suspicion_ticks(Pauses(), size, accusers) <= suspicion_ticks(Pauses(), size + 1, accusers)


@pytest.mark.parametrize(("size", "times"), [(1, 4), (2, 4), (9, 4), (10, 8), (99, 8), (100, 12), (257, 12)])
def test_how_often_news_is_passed_on(size: int, times: int) -> None:
    assert repeats(size) == times


@given(st.lists(st.booleans(), max_size=40))
def test_doubt_has_bounds(signs: list[bool]) -> None:
    doubt = Doubt()
    for worse in signs:
        before = doubt.level
        doubt.more() if worse else doubt.less()
        assert doubt.level == (min(before + 1, MAX_DOUBT - 1) if worse else max(before - 1, 0))
        assert 1 <= doubt.factor <= MAX_DOUBT


# --- Whose turn it is to be probed, who is asked for help, and what becomes of silence.


A, B, C, D, E, F = (PeerId(name) for name in "abcdef")


def prober(helpers: int = 3, seed: int = 1) -> Prober:
    return Prober(Pauses(helpers=helpers), Random(seed))


def silent(p: Prober, peer: PeerId = A, reason: str = "timed out", tick: int = 1) -> list[PeerId]:
    """A member is probed and does not answer; who is asked for help."""
    assert p.begin(peer, tick)
    return list(p.silent(peer, reason, [A, B, C, D, E, F], tick) or ())


# --- turns


@given(st.integers(0, 1000), st.integers(1, 8))
def test_everyone_has_a_turn_before_anyone_has_two(seed: int, count: int) -> None:
    p, members = prober(seed=seed), [PeerId(f"p{i}") for i in range(count)]
    for _ in range(3):
        assert sorted(p.next(members) or "" for _ in members) == members


def test_those_who_are_gone_are_passed_over() -> None:
    p = prober()
    p.next([A, B, C])
    assert [p.next([D]) for _ in range(3)] == [D, D, D]
    assert p.next([]) is None


def test_who_is_being_probed_loses_the_turn() -> None:
    p = prober()
    p.begin(A, 1)
    assert p.next([A]) is None


def test_nobody_is_probed_twice_at_once_nor_twice_in_a_tick() -> None:
    p = prober()
    assert [p.begin(A, 1), p.begin(A, 1), p.begin(A, 2)] == [True, False, False]
    p.answered(A)
    assert [p.begin(A, 1), p.begin(A, 2)] == [False, True]


# --- help


@given(st.integers(0, 1000), st.integers(0, 9))
def test_helpers_are_others_and_no_more_than_wanted(seed: int, wanted: int) -> None:
    p = prober(wanted, seed)
    helpers = silent(p)
    assert len(set(helpers)) == len(helpers) == min(wanted, 5)
    assert A not in helpers


def test_help_is_asked_for_once_and_for_those_only_that_are_probed() -> None:
    p = prober()
    assert p.silent(A, "", [B], 1) is None
    silent(p)
    assert p.silent(A, "again", [B], 1) is None


def test_a_probe_under_way_is_not_given_up() -> None:
    p = prober()
    p.begin(A, 1)
    assert p.given_up(1000) == []


def test_it_is_given_up_when_all_helpers_failed() -> None:
    p = prober()
    helpers = silent(p)
    for helper in helpers:
        assert p.given_up(1) == []
        p.helper_done(A, helper)
    assert p.given_up(1) == [(A, "timed out")]
    assert p.given_up(1) == []


def test_it_is_given_up_when_helpers_say_nothing_for_some_ticks() -> None:
    p = prober()
    silent(p, tick=5, reason="")
    assert p.given_up(5 + HELP_TICKS - 1) == []
    assert p.given_up(5 + HELP_TICKS) == [(A, "it does not answer")]


def test_without_others_it_is_given_up_at_once() -> None:
    p = prober()
    p.begin(A, 1)
    assert p.silent(A, "refused", [A], 1) == []
    assert p.given_up(1) == [(A, "refused")]


@pytest.mark.parametrize("end", [Prober.answered, Prober.forget])
def test_one_that_answers_late_or_is_gone_is_not_given_up_and_may_be_probed_again(
    end: Callable[[Prober, PeerId], None],
) -> None:
    p = prober()
    silent(p)
    end(p, A)
    assert p.given_up(1000) == []
    assert p.begin(A, 2)


# --- doubt


@pytest.mark.parametrize("heard", [False, True])
def test_a_node_doubts_itself_unless_a_helper_took_the_request(heard: bool) -> None:
    p = prober()
    silent(p)
    if heard:  # so the own network works
        p.helper_heard(A)
    p.given_up(1000)
    assert p.doubt.level == (0 if heard else 1)


def test_only_the_answer_to_a_probe_lessens_doubt() -> None:
    p = prober()
    p.doubt.more(3)
    p.answered(A)
    assert p.doubt.level == 3
    p.begin(A, 1)
    p.answered(A)
    assert p.doubt.level == 2


@given(st.integers(0, 1000), st.sets(st.sampled_from([A, B, C, D, E, F])), st.integers(0, 8))
def test_what_is_drawn_is_among_those_given(seed: int, peers: set[PeerId], count: int) -> None:
    drawn = prober(seed=seed).some(peers, count)
    assert len(drawn) == len(set(drawn)) == min(count, len(peers))
    assert set(drawn) <= peers


# --- What this node makes of what it is told of members: who is tried again, and numbers beyond all bounds.


def said(*news: News) -> ProbeReceived:
    return ProbeReceived(at("b"), news=news)


@pytest.mark.parametrize(("state", "tried"), [("dead", True), ("left", True), ("suspect", False)])
def test_who_is_gone_by_hearsay_is_tried_again(state: StateWord, tried: bool) -> None:
    m = members("m", "a", "b")
    miss(m, A)
    timers = of(SetTimer, m.receive(said(at_news("a", state, 0))))
    assert [timer.name for timer in timers] == ([f"announce:{address('a')}"] if tried else [])
    assert of(SetTimer, m.receive(said(at_news("a", state, 0)))) == []  # once


def test_with_pruning_the_dead_are_not_tried_again() -> None:
    m = members("m", "a", "b", prune=True)
    miss(m, A)
    assert of(SetTimer, m.receive(said(at_news("a", "dead", 0)))) == []
    assert set(m.known) == {B}


def test_who_is_dead_for_others_is_not_accused_again() -> None:
    m = members("m", "a", "b")
    miss(m, A)
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
    assert m.state.incarnation == MOST_STEP + 1
    miss(m, A)
    m.receive(said(at_news("a", state, MAX_INCARNATION)))
    assert m.known[A].standing == Status()
    m.receive(AnnounceReceived(at("a"), incarnation=MAX_INCARNATION))
    assert m.known[A].standing == Status(State.ALIVE, MOST_STEP)
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


# What this node does when it is itself accused, late, or about to go.


def test_a_node_that_is_accused_raises_its_incarnation_and_doubts_itself() -> None:
    m = members("m", "a")
    effects = m.receive(ProbeReceived(at("a"), news=(at_news("m", "suspect", 0, "b"),)))
    (answer,) = of(Answer, effects)
    assert isinstance(answer.message, ProbeReply)
    assert (answer.message.incarnation, m.state.prober.doubt.level) == (1, 1)
    assert [(n.id, n.state, n.incarnation) for n in answer.message.news if n.id == "m"] == [("m", "alive", 1)]
    assert kinds(effects) == ["refuted"]
    assert kinds(m.receive(ProbeReceived(at("a"), news=(at_news("m", "dead", 0),)))) == []  # an old story


def test_a_node_for_which_others_vouched_takes_over_its_incarnation() -> None:
    m = members("m", "a")
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "alive", 7),)))
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "suspect", 6, "b"),)))
    assert m.state.incarnation == 7


def test_a_node_whose_loop_was_late_accuses_nobody_and_probes_less() -> None:
    m = members("m", "a", "b")
    m.receive(ContactLost(A, ""))
    m.receive(ProbeFailed(A, None, "timed out"))
    tick(m, 30, late=2.0)
    assert m.known[A].state is State.ALIVE
    assert m.state.prober.doubt.level == 7
    m.receive(ProbeAnswered(A))
    assert m.state.prober.doubt.level == 6


def test_a_node_that_goes_tells_all_and_nothing_else_from_then_on() -> None:
    m = members("m", "a", "b")
    effects = m.receive(Leaving())
    assert CancelTimer("tick") in effects
    assert {(p.to, p.message.news[0].id, p.message.news[0].state) for p in probes(effects)} == {
        (A, "m", "left"),
        (B, "m", "left"),
    }
    assert tick(m) == []
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "left", 0),)))
    assert m.state.incarnation == 0


def test_a_peer_that_left_is_no_failure_and_is_back_only_when_it_announces_itself() -> None:
    m = members("m", "a", "b")
    asked = m.receive(ProbeReceived(at("a"), news=(at_news("a", "left", 0),)))
    assert [probe.to for probe in probes(asked)] == [A]
    effects = m.receive(ProbeAnswered(A, None, 0, (at_news("a", "left", 0),)))
    assert kinds(effects) == ["peer_left"]
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="it left the mesh")]
    assert m.receive(ContactMade(A)) == []  # what crossed its farewell on the way
    assert m.alive == [B]
    assert kinds(m.receive(AnnounceReceived(at("a")))) == ["peer_back"]
