"""Peers that fall silent: asked for by others, suspected, declared dead, heard of again."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, CancelTimer, SendProbe, SetTimer, TellJobs
from flnet.errors import IdTaken, IllegalStep
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    FormRefused,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    RoundTriggered,
    TimerFired,
)
from flnet.membership import Members, State
from flnet.messages import AnnounceReply, ProbeReply
from flnet.params import PeerId
from tests.membership.meshes import (
    address,
    announced,
    at,
    at_news,
    bury,
    kinds,
    members,
    of,
    probes,
    silence,
    tick,
)

A, B, C, M = PeerId("a"), PeerId("b"), PeerId("c"), PeerId("m")


def asked_for(m: Members, peer: PeerId) -> list[PeerId]:
    """Whom this node asks to probe a peer that did not answer."""
    m.receive(ContactLost(peer, ""))
    sent = probes(m.receive(ProbeFailed(peer, None, "timed out")))
    return [probe.to for probe in sent if probe.message.target and probe.message.target.id == peer]


# --- probes


def test_every_member_is_probed_once_before_one_is_probed_again() -> None:
    m = members("m", "a", "b", "c")
    m.state.roster.gossip = type(m.state.roster.gossip)()  # nothing to tell
    turns = []
    for _ in range(6):
        for probe in probes(tick(m)):
            turns.append(probe.to)
            m.receive(ProbeAnswered(probe.to))
    assert (sorted(turns[:3]), sorted(turns[3:])) == ([A, B, C], [A, B, C])


def test_a_tick_sets_the_next_one() -> None:
    assert of(SetTimer, tick(members())) == [SetTimer("tick", 1)]


def test_a_probe_is_answered_with_who_we_are() -> None:
    m = members("m", "a")
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"))))
    assert isinstance(answer.message, ProbeReply)
    assert (answer.message.i_am.id, answer.message.incarnation) == ("m", 0)


def test_a_probe_of_somebody_unknown_leads_to_an_announcement() -> None:
    m = members("m")
    assert announced(m.receive(ProbeReceived(at("a")))) == [address("a")]
    assert m.known == {}


def test_a_probe_by_a_node_with_our_id_is_refused() -> None:
    with pytest.raises(IdTaken):
        members("m").receive(ProbeReceived(at("m")))


def test_one_that_does_not_answer_is_probed_by_others() -> None:
    m = members("m", "a", "b", "c", "d", "e")
    assert len(asked_for(m, A)) == 3
    assert A not in asked_for(m, A)
    assert m.known[A].state is State.ALIVE


def test_whoever_is_asked_probes_and_tells() -> None:
    m = members("m", "a", "b", "c")
    asked = m.receive(ProbeReceived(at("b"), target=A))
    assert [probe.to for probe in probes(asked)] == [A]
    assert probes(m.receive(ProbeReceived(at("c"), target=A))) == []  # it is under way
    told = probes(m.receive(ProbeAnswered(A)))
    assert [(probe.to, probe.message.reached) for probe in told] == [(B, "a"), (C, "a")]
    m.receive(ProbeReceived(at("b"), target=A))
    told = [p for p in probes(m.receive(ProbeFailed(A))) if p.message.missed]
    assert [(probe.to, probe.message.missed) for probe in told] == [(B, "a")]


def test_whom_nobody_knows_cannot_be_probed_for_a_stranger() -> None:
    m = members("m", "b")
    (told,) = probes(m.receive(ProbeReceived(at("b"), target=A)))
    assert (told.to, told.message.missed) == (B, "a")
    assert probes(m.receive(ProbeReceived(at("z"), target=B))) == []  # a stranger makes nobody knock


def test_a_member_that_others_reach_is_not_suspected() -> None:
    m = members("m", "a", "b", "c")
    (helper, *_) = asked_for(m, A)
    m.receive(ProbeReceived(at(helper), reached=A))
    tick(m, 60)
    assert m.known[A].state is State.ALIVE


def test_a_member_that_no_helper_reached_is_suspected_at_the_next_tick() -> None:
    m = members("m", "a", "b", "c")
    for helper in asked_for(m, A):
        m.receive(ProbeReceived(at(helper), missed=A))
    effects = tick(m)
    assert kinds(effects) == ["peer_suspected"]
    assert (m.known[A].state, m.known[A].reason, m.alive) == (State.SUSPECT, "timed out", [A, B, C])
    assert of(TellJobs, effects) == []  # rounds still count on it


def test_silent_helpers_are_not_waited_for_for_ever() -> None:
    m = members("m", "a", "b", "c")
    asked_for(m, A)
    tick(m, 2)
    assert m.known[A].state is State.ALIVE
    tick(m)
    assert m.known[A].state is State.SUSPECT


@pytest.mark.parametrize("event", [ContactLost(A, "refused"), AnnounceFailed(address("a"), "refused")])
def test_a_message_that_does_not_get_through_is_a_reason_to_probe_and_none_to_accuse(event: Event) -> None:
    m = members("m", "a")
    (probe,) = probes(m.receive(event))
    assert (probe.to, m.known[A].state) == (A, State.ALIVE)
    assert probes(m.receive(ContactLost(A, "again"))) == []


# --- suspicion and death


def test_a_suspect_that_stays_silent_is_dead_and_tried_again() -> None:
    m = members("m", "a")
    effects = bury(m, A)
    assert kinds(effects)[-1] == "peer_lost"
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="timed out")]
    assert (m.alive, m.address_of(A), m.known[A].state) == ([], address("a"), State.DEAD)
    (timer,) = [t for t in of(SetTimer, effects) if t.name != "tick"]
    assert announced(m.receive(TimerFired(timer.name))) == [address("a")]
    assert of(SetTimer, m.receive(AnnounceFailed(address("a"), "refused"))) != []  # and again


@pytest.mark.parametrize(("accusers", "ticks"), [(("b", "c"), 3), (("b",), 8), ((), 18)])
def test_the_more_nodes_accuse_the_sooner_it_is_over(accusers: tuple[str, ...], ticks: int) -> None:
    m = members("m", "a", "b", "c", "d")
    silence(m, A, ticks=3)
    assert m.known[A].state is State.SUSPECT
    since = m.state.roster.tick - m.known[A].since
    for by in accusers:
        m.receive(ProbeReceived(at(by), news=(at_news("a", "suspect", 0, by),)))
        m.receive(ProbeReceived(at(by), news=(at_news("a", "suspect", 0, by),)))  # once is enough
    tick(m, ticks - since - 1)
    assert m.known[A].state is State.SUSPECT
    tick(m)
    assert m.known[A].state is State.DEAD


def test_who_hears_of_a_suspicion_looks_for_itself() -> None:
    m = members("m", "a", "b")
    effects = m.receive(ProbeReceived(at("b"), news=(at_news("a", "suspect", 0, "b"),)))
    assert [probe.to for probe in probes(effects)] == [A]
    (said,) = probes(effects)
    assert (said.message.news[0].id, said.message.news[0].state) == ("a", "suspect")  # so that it can object


@pytest.mark.parametrize(
    "word",
    [
        ContactMade(A),
        ProbeAnswered(A),
        ProbeReceived(at("a")),
        ProbeReceived(at("b"), reached=A),
        ProbeReceived(at("b"), news=(at_news("a", "alive", 1),)),
    ],
)
def test_a_suspect_that_is_heard_of_is_alive_and_all_hear_so(word: Event) -> None:
    m = members("m", "a", "b")
    m.receive(ProbeReceived(at("b"), news=(at_news("a", "suspect", 0, "b"),)))
    effects = m.receive(word)
    assert kinds(effects) == ["peer_answers"]
    assert of(TellJobs, effects) == [TellJobs(A, alive=True)]
    assert (m.known[A].state, m.known[A].standing.incarnation) == (State.ALIVE, 1)
    tick(m, 60)
    assert m.known[A].state is State.ALIVE


@pytest.mark.parametrize(
    "word",
    [ContactMade(A), AnnounceReceived(at("a")), AnnounceAnswered(address("a"), at("a")), ProbeReceived(at("a"))],
)
def test_any_word_of_a_dead_peer_brings_it_back(word: Event) -> None:
    m = members("m", "a")
    bury(m, A)
    effects = m.receive(word)
    assert of(TellJobs, effects) == [TellJobs(A, alive=True)]
    assert CancelTimer(f"announce:{address('a')}") in effects
    assert kinds(effects) == ["peer_back"]
    assert m.alive == [A]


def test_hearsay_does_not_revive_the_dead() -> None:
    m = members("m", "a", "b")
    bury(m, A)
    m.receive(ProbeReceived(at("b"), news=(at_news("a", "alive", 0),)))
    assert m.known[A].state is State.DEAD
    m.receive(ProbeReceived(at("b"), news=(at_news("a", "alive", 1),)))  # somebody heard of it since
    assert m.known[A].state is State.ALIVE


def test_a_dead_peer_is_not_named_to_newcomers() -> None:
    m = members("m", "a")
    bury(m, A)
    (answer,) = of(Answer, m.receive(AnnounceReceived(at("b"))))
    assert isinstance(answer.message, AnnounceReply)
    assert answer.message.announce_yourself_to_peers == []


def test_tombstones_fall_after_their_time() -> None:
    m = members("m", "a")
    bury(m, A)
    m.state.roster.forget_old(ticks=1000)
    assert A in m.known
    m.state.roster.forget_old(ticks=1)
    assert A not in m.known


def test_with_pruning_a_dead_peer_is_forgotten_and_comes_back_as_new() -> None:
    m = members("m", "a", prune=True)
    effects = bury(m, A)
    assert (m.known, kinds(effects)[-1]) == ({}, "peer_pruned")
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="timed out")]
    assert kinds(m.receive(AnnounceReceived(at("a")))) == ["peer_joined"]


@pytest.mark.parametrize("news", [ContactMade(A), ContactMade(B), ContactLost(B, ""), FormRefused(B)])
def test_no_news_changes_nothing(news: Event) -> None:
    assert members("m", "a").receive(news) == []


def test_a_peer_that_reads_a_form_no_more() -> None:
    m = members("m")
    m.receive(AnnounceReceived(at("a"), accepts=frozenset({"int8"})))
    assert m.accepts_of(A) == {"int8"}
    m.receive(FormRefused(A))
    assert m.accepts_of(A) == frozenset()


def test_from_time_to_time_everything_is_exchanged_with_somebody() -> None:
    m = members("m", "a", "b")
    calls = []
    for _ in range(60):
        for effect in (effects := tick(m)):
            if isinstance(effect, SendProbe):
                m.receive(ProbeAnswered(effect.to))
        calls += announced(effects)
        m.state.announcer.asking.clear()
    assert len(calls) == 4
    assert set(calls) <= {address("a"), address("b")}


def test_the_view_says_what_is_known() -> None:
    m = members("m", "a")
    silence(m, A, ticks=3)
    assert m.view()[0] == {
        **{"id": "a", "ip": "10.0.0.1", "port": str(at("a").port), "address": address("a")},
        **{"state": "suspect", "reason": "timed out", "incarnation": 0, "fingerprint": "", "key": ""},
        "disputed": False,
    }
    m.state.disputes[A] = None
    assert m.view()[0]["disputed"] is True


def test_timers_and_events_of_others() -> None:
    assert members().receive(TimerFired("unknown")) == []
    with pytest.raises(IllegalStep, match="cannot take RoundTriggered"):
        members().receive(RoundTriggered())
