"""Who is in the mesh: from any connected graph of bootstrap addresses everyone comes to know everyone."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, Publish, SendAnnounce, SetTimer, TellJobs
from flnet.errors import IdTaken
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    MeshStarted,
    TimerFired,
)
from flnet.messages import AnnounceReply, Peer
from flnet.params import PeerId
from tests.helpers import frozen, peer
from tests.membership.meshes import address, announced, at, at_news, bury, members, of

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")


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


@pytest.mark.parametrize("word", [AnnounceAnswered(address("a"), at("a")), AnnounceReceived(at("a"))])
def test_the_pauses_start_anew_after_a_word_of_the_silent_peer(word: AnnounceAnswered) -> None:
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
    m.receive(AnnounceReceived(at("b"), incarnation=0, members=news))
    assert m.known[A].state.value == "dead"
    assert m.state.incarnation == 5  # what was said of this node is wrong


def test_an_answer_brings_what_its_sender_knows_of_members() -> None:
    m = members("m", "a")
    m.receive(AnnounceAnswered(address("b"), at("b"), members=(at_news("a", "left", 0),)))
    assert (m.alive, m.known[A].state.value) == ([B], "left")
