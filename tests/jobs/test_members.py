"""Who is in the mesh: from any connected graph of bootstrap addresses everyone comes to know everyone."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, CancelTimer, Publish, SendAnnounce, SetTimer, TellJobs
from flnet.errors import IdTaken, IllegalStep
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    FormRefused,
    MeshStarted,
    RoundTriggered,
    TimerFired,
)
from flnet.messages import AnnounceReply, Peer
from flnet.params import PeerId
from tests.helpers import frozen, peer
from tests.jobs.meshes import address, announced, at, members, of

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")


# --- announcements


def test_a_node_announces_itself_to_its_bootstrap_peers_with_the_peers_it_knows() -> None:
    m = members("m", "a")
    effects = m.receive(MeshStarted(("10.0.0.9:1", "10.0.0.9:2", "10.0.0.9:1")))
    assert announced(effects) == ["10.0.0.9:1", "10.0.0.9:2"]
    assert of(SendAnnounce, effects)[0].known == (at("a"),)
    assert of(SetTimer, effects) == [SetTimer("refresh", 15, 5)]


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


def test_whoever_answers_becomes_a_peer_and_names_the_next() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    effects = m.receive(AnnounceAnswered(address("a"), at("a"), (at("b"), m.me)))
    assert (m.alive, announced(effects)) == ([A], [address("b")])


def test_a_peer_that_answers_is_told_of_those_met_in_the_meantime() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    m.receive(AnnounceReceived(at("b")))
    effects = m.receive(AnnounceAnswered(address("a"), at("a")))
    assert of(SendAnnounce, effects) == [SendAnnounce(address("a"), (at("a"), at("b")))]
    assert announced(m.receive(AnnounceAnswered(address("a"), at("a")))) == []


def test_nobody_is_announced_to_twice_at_once() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    assert announced(m.receive(AnnounceReceived(at("b"), (at("a"),)))) == []


def test_a_peer_that_moved_is_known_at_its_new_address() -> None:
    m = members("m", "a")
    m.receive(AnnounceReceived(at("a", port=9)))
    assert (m.alive, m.address_of(A)) == ([A], "10.0.0.1:9")


def test_a_new_node_on_a_reused_address_is_a_new_node() -> None:
    m = members("m", "a")
    effects = m.receive(AnnounceReceived(at("b", port=at("a").port)))
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


def test_only_an_answer_of_another_node_means_that_the_mesh_is_joined() -> None:
    m = members("m")
    own = m.me.model_copy(update={"ip": "127.0.0.1"})
    m.receive(MeshStarted((own.address, address("a"))))
    m.receive(AnnounceAnswered(own.address, own))
    assert not m.joined
    m.receive(AnnounceAnswered(address("a"), at("a")))
    assert m.joined


def test_a_node_whose_only_bootstrap_peer_is_itself_has_joined() -> None:
    m = members("m")
    own = m.me.model_copy(update={"ip": "127.0.0.1"})
    m.receive(MeshStarted((own.address,)))
    m.receive(AnnounceAnswered(own.address, own))
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


def test_the_pauses_start_anew_after_an_answer() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    for _ in range(4):
        m.receive(AnnounceFailed(address("a"), ""))
    m.receive(AnnounceAnswered(address("a"), at("a")))
    (timer,) = of(SetTimer, m.receive(AnnounceFailed(address("a"), "")))[-1:]
    assert timer.seconds == 1


def test_the_pauses_start_anew_when_the_silent_peer_calls_itself() -> None:
    m = members("m", "a")
    for _ in range(4):
        m.receive(AnnounceFailed(address("a"), ""))
    m.receive(AnnounceReceived(at("a")))
    (timer,) = of(SetTimer, m.receive(AnnounceFailed(address("a"), "")))[-1:]
    assert timer.seconds == 1


def test_a_bootstrap_address_and_the_address_that_its_node_states_may_differ() -> None:
    m = members()
    m.receive(MeshStarted(("localhost:9",)))
    m.receive(AnnounceFailed("localhost:9", ""))
    m.receive(AnnounceAnswered("localhost:9", at("a")))
    assert (m.failures, m.address_of(A)) == ({}, address("a"))


def test_an_address_that_only_others_named_is_given_up_after_some_attempts() -> None:
    m = members()
    m.receive(AnnounceReceived(at("b"), (at("c"),)))
    timers = [of(SetTimer, m.receive(AnnounceFailed(address("c"), ""))) for _ in range(3)]
    assert [len(t) for t in timers] == [1, 1, 0]
    assert (m.failures, m.asking) == ({}, {})


def test_hearsay_does_not_shorten_the_pauses() -> None:
    m = members()
    m.receive(AnnounceReceived(at("b"), (at("c"),)))
    m.receive(AnnounceFailed(address("c"), ""))
    assert announced(m.receive(AnnounceReceived(at("b"), (at("c"),)))) == []


# --- lost and back


def test_a_peer_that_does_not_get_our_messages_is_lost_and_tried_again() -> None:
    m = members("m", "a")
    effects = m.receive(ContactLost(A, "timed out"))
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="timed out")]
    assert (m.alive, m.address_of(A)) == ([], address("a"))
    (timer,) = of(SetTimer, effects)
    assert announced(m.receive(TimerFired(timer.name))) == [address("a")]
    assert m.receive(ContactLost(A, "again")) == []


def test_a_lost_peer_is_not_named_to_others() -> None:
    m = members("m", "a")
    m.receive(ContactLost(A, ""))
    effects = m.receive(AnnounceReceived(at("b")))
    (answer,) = of(Answer, effects)
    assert isinstance(answer.message, AnnounceReply)
    assert answer.message.announce_yourself_to_peers == []


@pytest.mark.parametrize(
    "word", [ContactMade(A), AnnounceReceived(at("a")), AnnounceAnswered(address("a"), at("a"))]
)
def test_any_word_of_a_lost_peer_brings_it_back(word: ContactMade) -> None:
    m = members("m", "a")
    m.receive(ContactLost(A, ""))
    effects = m.receive(word)
    assert of(TellJobs, effects) == [TellJobs(A, alive=True)]
    assert CancelTimer(f"announce:{address('a')}") in effects
    assert of(Publish, effects)[0].kind == "peer_back"
    assert m.alive == [A]


@pytest.mark.parametrize("news", [ContactMade(A), ContactMade(B), ContactLost(B, ""), FormRefused(B)])
def test_no_news_changes_nothing(news: ContactMade) -> None:
    m = members("m", "a")
    assert m.receive(news) == []


def test_an_announcement_that_fails_loses_its_peer() -> None:
    m = members("m", "a")
    m.receive(TimerFired("refresh"))
    effects = m.receive(AnnounceFailed(address("a"), "refused"))
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="refused")]
    assert m.view()[0] == {
        **{"id": "a", "ip": "10.0.0.1", "port": str(at("a").port), "address": address("a")},
        **{"state": "unreachable", "reason": "refused"},
    }


def test_with_pruning_a_lost_peer_is_forgotten_and_comes_back_as_new() -> None:
    m = members("m", "a", prune=True)
    effects = m.receive(ContactLost(A, "timed out"))
    assert (m.known, of(SetTimer, effects), of(Publish, effects)[0].kind) == ({}, [], "peer_pruned")
    assert of(Publish, m.receive(AnnounceReceived(at("a"))))[0].kind == "peer_joined"


def test_with_pruning_a_failed_announcement_is_not_repeated() -> None:
    m = members("m", "a", prune=True)
    m.receive(TimerFired("refresh"))
    assert of(SetTimer, m.receive(AnnounceFailed(address("a"), ""))) == []


def test_the_refresh_goes_round_all_reachable_peers() -> None:
    m = members("m", "a", "b", "c")
    m.receive(ContactLost(B, ""))
    asked = []
    for _ in range(4):
        effects = m.receive(TimerFired("refresh"))
        assert of(SetTimer, effects) == [SetTimer("refresh", 15, 5)]
        asked += announced(effects)
        m.asking.clear()
    assert sorted(asked) == sorted([address("a"), address("c")] * 2)


def test_without_peers_the_refresh_only_waits_on() -> None:
    assert members().receive(TimerFired("refresh")) == [SetTimer("refresh", 15, 5)]


def test_timers_and_events_of_others() -> None:
    assert members().receive(TimerFired("unknown")) == []
    with pytest.raises(IllegalStep, match="cannot take RoundTriggered"):
        members().receive(RoundTriggered())
