"""Peers that fall silent: asked for by others, suspected, declared dead, heard of again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.errors import IdTaken, IllegalStep, NotAccepted, Pending, StrangerThere
from flnet.fingerprints import fingerprint
from flnet.membership.members import Members
from flnet.membership.roster import State
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import (
    Answer,
    CancelTimer,
    Effect,
    Publish,
    SendAnnounce,
    SendProbe,
    SetTimer,
    TellJobs,
)
from flnet.protocol.events import (
    AddressGranted,
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    FormRefused,
    MeshStarted,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    RoundTriggered,
    ShutOutBy,
    TimerFired,
    TrustChanged,
)
from flnet.protocol.messages import AnnounceReply, Peer, ProbeReply
from tests.helpers import frozen, peer
from tests.membership.meshes import (
    address,
    announced,
    at,
    at_news,
    bury,
    kinds,
    members,
    miss,
    of,
    probes,
    silence,
    tick,
)
from tests.security.keypairs import TestKey

A, B, C, M = PeerId("a"), PeerId("b"), PeerId("c"), PeerId("m")


def asked_for(m: Members, peer: PeerId) -> list[PeerId]:
    """Whom this node asks to probe a peer that did not answer."""
    m.receive(ContactLost(peer, ""))
    sent = probes(m.receive(ProbeFailed(peer, None, "timed out")))
    return [probe.to for probe in sent if probe.message.target and probe.message.target.id == peer]


# --- an address of its own


def test_a_granted_address_is_announced_to_all_that_are_there_or_may_be_back() -> None:
    m = members("m", "a", "b", "c")
    bury(m, B)
    assert announced(m.receive(AddressGranted("relay.example", 9202))) == [
        address("a"),
        address("b"),
        address("c"),
    ]
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"))))
    assert isinstance(answer.message, ProbeReply) and answer.message.i_am.address == "relay.example:9202"
    assert m.me.address == "relay.example:9202"


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


def test_a_node_that_is_asked_probes_and_tells() -> None:
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


@pytest.mark.parametrize("news", [ContactMade(A), ContactMade(B), ContactLost(B, ""), FormRefused(B)])
def test_no_news_changes_nothing(news: Event) -> None:
    assert members("m", "a").receive(news) == []


def test_a_peer_that_reads_a_form_no_more() -> None:
    m = members("m")
    m.receive(AnnounceReceived(at("a"), accepts=frozenset({"int8"})))
    assert m.accepts_of(A) == {"int8"}
    m.receive(FormRefused(A))
    assert m.accepts_of(A) == frozenset()


def test_a_node_of_the_thesis_states_no_incarnation_and_answers_no_probe() -> None:
    m = members("m")
    m.receive(AnnounceReceived(at("a")))
    assert m.is_thesis(A) and not m.is_thesis(B)
    m.receive(ProbeAnswered(A))  # an answer of any kind shows that it is there
    assert m.is_thesis(A)
    assert TellJobs(A, alive=True) in m.receive(AnnounceReceived(at("a"), incarnation=0))  # it was updated
    assert not m.is_thesis(A)


def test_nobody_makes_others_take_a_member_for_a_node_of_the_thesis() -> None:
    m = members("m")
    m.receive(AnnounceReceived(at("a"), incarnation=0))
    m.receive(AnnounceReceived(at("a")))  # anybody can say that in its name
    assert not m.is_thesis(A)
    m.receive(AnnounceReceived(at("b")))  # before it has announced itself
    assert TellJobs(B, alive=True) in m.receive(ProbeAnswered(B, incarnation=0, members_digest="d"))
    assert not m.is_thesis(B)


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


# --- announcements


def test_a_node_announces_itself_to_its_bootstrap_peers_with_the_peers_it_knows() -> None:
    m = members("m", "a")
    effects = m.receive(MeshStarted(("10.0.0.9:1", "10.0.0.9:2", "10.0.0.9:1")))
    assert announced(effects) == ["10.0.0.9:1", "10.0.0.9:2"]
    assert of(SendAnnounce, effects)[0].known == (at("a"),)
    assert of(SetTimer, effects) == [SetTimer("tick", 1)]


def test_peers_of_an_earlier_run_are_tried_too_and_given_up_once_others_are_known() -> None:
    m = members()
    assert announced(m.receive(MeshStarted(("10.0.0.9:1",), (address("a"),)))) == ["10.0.0.9:1", address("a")]
    timers = [of(SetTimer, m.receive(AnnounceFailed(address("a"), ""))) for _ in range(9)]
    assert [len(t) for t in timers] == [1] * 9
    m.receive(AnnounceReceived(at("b")))
    assert of(SetTimer, m.receive(AnnounceFailed(address("a"), ""))) == []


def test_a_node_needs_no_bootstrap_peer() -> None:
    assert announced(members().receive(MeshStarted())) == []


def test_an_announcement_is_answered_with_the_peers_that_the_caller_lacks() -> None:
    m = members("m", "a", "b", "c")
    effects = m.receive(AnnounceReceived(at("b"), (at("c"),)))
    (answer,) = of(Answer, effects)
    assert answer.message == AnnounceReply(i_am=m.me, announce_yourself_to_peers=[at("a")])


def test_a_caller_becomes_a_peer_and_the_jobs_hear_of_it_once() -> None:
    m = members()
    assert of(TellJobs, m.receive(AnnounceReceived(at("a")))) == [TellJobs(A, alive=True)]
    assert of(TellJobs, m.receive(AnnounceReceived(at("a")))) == []
    assert (m.alive, m.address_of(A), m.joined) == ([A], address("a"), True)


def test_the_peers_that_a_caller_names_are_announced_to_as_well() -> None:
    m = members("m", "a")
    assert announced(m.receive(AnnounceReceived(at("b"), (at("a"), at("c"), m.me)))) == [address("c")]


def test_a_peer_named_without_an_address_cannot_be_announced_to() -> None:
    assert announced(members().receive(AnnounceReceived(at("b"), (peer("c", ip=None),)))) == []


def test_a_node_that_answers_becomes_a_peer_and_names_the_next() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    effects = m.receive(AnnounceAnswered(address("a"), at("a"), (at("b"), m.me)))
    assert (m.alive, announced(effects)) == ([A], [address("b")])


def test_a_peer_that_answers_is_told_of_those_met_in_the_meantime() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    m.receive(AnnounceReceived(at("b")))
    effects = m.receive(AnnounceAnswered(address("a"), at("a")))
    (call,) = of(SendAnnounce, effects)
    assert (call.address, call.known) == (address("a"), (at("a"), at("b")))
    assert announced(m.receive(AnnounceAnswered(address("a"), at("a")))) == []


def test_nobody_is_announced_to_twice_at_once() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    assert announced(m.receive(AnnounceReceived(at("b"), (at("a"),)))) == []


def test_a_peer_that_moved_is_known_at_its_new_address() -> None:
    m = members("m", "a")
    m.receive(AnnounceReceived(at("a", port=9)))
    m.receive(ProbeFailed(A, None, "no connection"))  # nobody is at its old one
    assert (m.alive, m.address_of(A)) == ([A], "10.0.0.1:9")


def test_a_new_node_on_a_reused_address_is_a_new_node() -> None:
    m = members("m", "a")
    there = at("b", port=at("a").port)
    assert announced(m.receive(AnnounceReceived(there))) == [address("a")]  # who is there is asked first
    assert m.alive == [A]
    effects = m.receive(AnnounceAnswered(address("a"), there))
    assert (m.alive, m.address_of(A)) == ([B], None)
    assert of(TellJobs, effects) == [
        TellJobs(A, alive=False, reason=f"b is at {address('a')} now"),
        TellJobs(B, alive=True),
    ]
    assert of(Publish, effects)[0].kind == "peer_replaced"


def test_ipv6_addresses_are_told_apart_from_ports() -> None:
    m = members()
    m.receive(AnnounceReceived(at("a", ip="fe80::1")))
    assert m.address_of(A) == f"[fe80::1]:{at('a').port}"


# --- the own id, the own call


def test_a_node_that_calls_itself_is_answered_and_is_no_peer_of_itself() -> None:
    m = members("m")
    called = m.me.model_copy(update={"ip": "127.0.0.1"})
    (answer,) = m.receive(AnnounceReceived(called))
    assert answer == Answer(AnnounceReply(i_am=m.me))
    m.receive(MeshStarted((called.address,)))
    assert m.receive(AnnounceAnswered(called.address, called)) == []
    assert m.known == {}


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(None, at("m", port=9)), ("10.0.0.1", at("m", ip="10.0.0.2")), ("10.0.0.1", at("m", port=9))],
)
def test_another_node_with_our_id_is_refused(mine: str | None, theirs: Peer) -> None:
    m = members("m", "a", ip=mine)
    before = frozen(m)
    with pytest.raises(IdTaken, match="'m' is this node's own") as refusal:
        m.receive(AnnounceReceived(theirs))
    assert (refusal.value.status, frozen(m)) == (409, before)


@pytest.mark.parametrize("others", [[], [address("a")]])
def test_the_own_answer_joins_the_mesh_only_where_no_other_bootstrap_peer_is_named(others: list[str]) -> None:
    m = members("m")
    own = m.me.model_copy(update={"ip": "127.0.0.1"})
    m.receive(MeshStarted((own.address, *others)))
    m.receive(AnnounceAnswered(own.address, own))
    assert m.joined is not bool(others)
    if others:
        m.receive(AnnounceAnswered(address("a"), at("a")))
    assert m.joined


# --- silence


def test_a_silent_bootstrap_peer_is_tried_for_ever_with_growing_pauses() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    pauses, shown = [], 0
    for _ in range(7):
        effects = m.receive(AnnounceFailed(address("a"), "no route"))
        (timer,) = of(SetTimer, effects)
        pauses.append((timer.seconds, timer.margin))
        shown += len(of(Publish, effects))
        assert announced(m.receive(TimerFired(timer.name))) == [address("a")]
    assert pauses == [(1, 0.5), (2, 1), (4, 2), (8, 4), (8, 4), (8, 4), (8, 4)]
    assert shown == 1  # people hear of it once


@pytest.mark.parametrize("word", [AnnounceAnswered(address("a"), at("a")), AnnounceReceived(at("a"))])
def test_the_pauses_start_again_after_a_word_of_the_silent_peer(word: AnnounceAnswered) -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    for _ in range(4):
        m.receive(AnnounceFailed(address("a"), ""))
    m.receive(word)
    assert m.state.announcer.failures == {}
    assert m.state.announcer.retry(address("a")).seconds == 1


def test_a_bootstrap_address_and_the_address_that_its_node_states_may_differ() -> None:
    m = members()
    m.receive(MeshStarted(("localhost:9",)))
    m.receive(AnnounceFailed("localhost:9", ""))
    m.receive(AnnounceAnswered("localhost:9", at("a")))
    assert (m.state.announcer.failures, m.address_of(A)) == ({}, address("a"))


def test_an_address_that_only_others_named_is_given_up_after_some_attempts() -> None:
    m = members()
    m.receive(AnnounceReceived(at("b"), (at("c"),)))
    timers = [of(SetTimer, m.receive(AnnounceFailed(address("c"), ""))) for _ in range(3)]
    assert [len(t) for t in timers] == [1, 1, 0]
    assert (m.state.announcer.failures, m.state.announcer.asking) == ({}, {})


def test_hearsay_does_not_shorten_the_pauses() -> None:
    m = members()
    m.receive(AnnounceReceived(at("b"), (at("c"),)))
    m.receive(AnnounceFailed(address("c"), ""))
    assert announced(m.receive(AnnounceReceived(at("b"), (at("c"),)))) == []


# --- what two nodes that probe each other say besides


def test_who_says_its_incarnation_is_told_all_that_is_known_of_members() -> None:
    m = members("m", "a")
    bury(m, A)
    (answer,) = of(Answer, m.receive(AnnounceReceived(at("b"), incarnation=3)))
    assert isinstance(answer.message, AnnounceReply)
    assert answer.message.incarnation == 0
    told = {news.id: (news.state, news.incarnation) for news in answer.message.members or ()}
    assert told == {"a": ("dead", 0), "b": ("alive", 3)}
    assert m.known[B].standing.incarnation == 3


def test_an_announcement_brings_what_its_sender_knows_of_members() -> None:
    m = members("m", "a")
    news = (at_news("a", "dead", 0), at_news("m", "dead", 4))
    miss(m, A)
    m.receive(AnnounceReceived(at("b"), incarnation=0, members=news))
    assert m.known[A].state.value == "dead"
    assert m.state.incarnation == 5  # what was said of this node is wrong


def test_an_answer_brings_what_its_sender_knows_of_members() -> None:
    m = members("m", "a")
    miss(m, A)
    m.receive(AnnounceAnswered(address("b"), at("b"), members=(at_news("a", "left", 0),)))
    assert (m.alive, m.known[A].state.value) == ([B], "left")


# --- bounds


def test_at_most_256_peers_are_known() -> None:
    m = members()
    for i in range(300):
        m.receive(AnnounceReceived(peer(f"p{i}", 1000 + i)))
        m.receive(ProbeAnswered(PeerId(f"p{i}"), None))
    assert len(m.known) == 256
    effects = m.receive(AnnounceReceived(peer("late", 9)))
    assert (of(Publish, effects)[0].kind, of(TellJobs, effects)) == ("mesh_full", [])
    assert len(of(Answer, effects)) == 1  # it is answered all the same
    assert of(TellJobs, m.receive(AnnounceReceived(peer("p0", 5000)))) == []  # a known peer may still move


def test_a_stranger_cannot_make_a_node_knock_at_more_addresses_than_it_has_room_for() -> None:
    m = members()
    knocked = set()
    for i in range(4):
        named = tuple(peer(f"x{i}-{j}", 1 + 300 * i + j) for j in range(256))
        knocked.update(announced(m.receive(AnnounceReceived(at("a"), named))))
        for knocked_at in list(m.state.announcer.asking):
            m.receive(AnnounceFailed(knocked_at, "nobody there"))
    assert len(knocked) <= 256


def test_the_peers_that_are_named_are_at_most_256() -> None:
    m = members()
    for i in range(256):
        m.receive(AnnounceReceived(peer(f"p{i}", 1000 + i)))
    (answer,) = of(Answer, m.receive(AnnounceReceived(at("z"))))
    assert isinstance(answer.message, AnnounceReply)
    assert len(answer.message.announce_yourself_to_peers) == 256


# --- the whole mesh: from any connected graph of bootstrap addresses everyone comes to know everyone


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each node the nodes that it is told of; connected when the direction of telling is ignored."""
    size = draw(st.integers(2, 7))
    told: list[list[int]] = [[] for _ in range(size)]
    for node in range(1, size):
        other = draw(st.integers(0, node - 1))
        a, b = draw(st.permutations([node, other]))
        told[a].append(b)
    for node in range(size):
        told[node] += draw(st.lists(st.integers(0, size - 1), max_size=2))  # more of them, itself included
    return told


def join(told: Sequence[Sequence[int]], order: Sequence[int], picks: Sequence[int]) -> list[Members]:
    """Start the nodes in this order and deliver announcements until it is quiet; no refresh is needed."""
    mesh = [Members(MeshState(peer(f"n{i}", 4000 + i, "10.0.0.1"), Random(i))) for i in range(len(told))]
    starts, due, chosen = deque(order), deque[tuple[int, SendAnnounce]](), iter(picks)
    up: set[int] = set()

    def perform(node: int, effects: Sequence[Effect]) -> None:
        due.extend((node, effect) for effect in of(SendAnnounce, effects))
        for timer in of(SetTimer, effects):
            if timer.name != "tick":
                late.append((node, timer.name))

    late: deque[tuple[int, str]] = deque()
    while starts or due or late:
        if starts and (next(chosen, 1) % 2 or not due):
            node = starts.popleft()
            up.add(node)
            perform(node, mesh[node].receive(MeshStarted(tuple(f"10.0.0.1:{4000 + i}" for i in told[node]))))
        elif due:
            due.rotate(-next(chosen, 0))
            node, call = due.popleft()
            target = int(call.address.rpartition(":")[2]) - 4000
            if target not in up:
                perform(node, mesh[node].receive(AnnounceFailed(call.address, "not up yet")))
                continue
            effects = mesh[target].receive(AnnounceReceived(mesh[node].me, call.known))
            perform(target, effects)
            (answer,) = of(Answer, effects)
            assert isinstance(answer.message, AnnounceReply)
            others = tuple(answer.message.announce_yourself_to_peers)
            perform(node, mesh[node].receive(AnnounceAnswered(call.address, answer.message.i_am, others)))
        else:
            node, timer = late.popleft()
            perform(node, mesh[node].receive(TimerFired(timer)))
    return mesh


@given(st.data(), graphs())
@settings(max_examples=150, deadline=None)
def test_from_any_connected_graph_and_in_any_order_everyone_comes_to_know_everyone(
    data: st.DataObject, told: list[list[int]]
) -> None:
    order = data.draw(st.permutations(range(len(told))))
    mesh = join(told, order, data.draw(st.lists(st.integers(0, 30), max_size=40)))
    assert [len(m.alive) for m in mesh] == [len(mesh) - 1] * len(mesh)


def test_two_joined_pairs_become_one_mesh_when_one_of_each_meets() -> None:
    mesh = join([[], [0], [], [2, 0]], [0, 1, 2, 3], [])
    assert [len(m.alive) for m in mesh] == [3, 3, 3, 3]


# --- Tests of the membership of a pinned mesh: who is accepted is greeted at once, who is not any more is let go.


KEY = TestKey(1).text
WHERE = "10.0.0.9:1"


def test_who_is_accepted_is_announced_to_at_once() -> None:
    m = members("m", "a")
    assert announced(m.receive(TrustChanged((), (WHERE,)))) == [WHERE]


def test_whose_key_is_not_trusted_any_more_is_no_member_and_its_name_is_free() -> None:
    m = members()
    m.receive(AnnounceReceived(at("a"), key=KEY))
    m.receive(AnnounceReceived(at("b"), key=TestKey(2).text))
    effects = m.receive(TrustChanged((fingerprint(KEY),), ()))
    assert [(e.peer, e.alive) for e in of(TellJobs, effects)] == [("a", False)]
    assert [e.kind for e in of(Publish, effects)] == ["peer_untrusted"]
    assert list(m.known) == ["b"] and m.fits(PeerId("a"), TestKey(3).text)


def test_who_does_not_accept_this_node_any_more_is_no_member_and_is_asked_again() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    m.receive(AnnounceReceived(at("a"), key=KEY))
    effects = m.receive(ShutOutBy(PeerId("a")))
    assert of(TellJobs, effects)[0].reason == "a does not accept this node any more"
    assert [e.name for e in of(SetTimer, effects)] == [f"announce:{address('a')}"]
    assert m.receive(ShutOutBy(PeerId("a"))) == []


def test_waiting_elsewhere_is_told_once_for_each_address_and_asking_goes_on() -> None:
    m = members()
    m.receive(MeshStarted((WHERE,)))
    failed = [m.receive(AnnounceFailed(WHERE, "a person has to", Pending.code)) for _ in range(3)]
    assert [[e.kind for e in of(Publish, one)] for one in failed] == [["trust_waits"], [], []]
    assert all(of(SetTimer, one) for one in failed)
    m.receive(AnnounceAnswered(WHERE, at("a"), (), key=KEY))
    again = m.receive(AnnounceFailed(WHERE, "no more", NotAccepted.code))
    assert "trust_waits" in [e.kind for e in of(Publish, again)]


def test_of_strangers_here_people_have_heard_already() -> None:
    m = members()
    m.receive(MeshStarted((WHERE,)))
    effects = m.receive(AnnounceFailed(WHERE, "its key is not accepted here", StrangerThere.code))
    assert of(Publish, effects) == [] and len(of(SetTimer, effects)) == 1
