"""Whose name is whose: moves, conflicts, what a lost folder means, and how a person frees a name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import StillThere, UnknownPeer
from flnet.fingerprints import key_text, short
from flnet.membership.members import Members
from flnet.membership.names import NameTaken
from flnet.membership.roster import State
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Effect, Publish, SetTimer, TellJobs
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactMade,
    MeshStarted,
    PeerForgotten,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
)
from flnet.protocol.messages import AnnounceReply, Peer, ProbeReply
from tests.membership.meshes import address, announced, at, bury, kinds, members, miss, of, probes, tick

A, B = PeerId("a"), PeerId("b")
KEYS = [key_text(bytes([n]) * 32) for n in range(1, 5)]
OLD, NEW, OWN, OTHER = KEYS


def keyed(*, prune: bool = False) -> Members:
    m = members(prune=prune)
    m.state.key = OWN
    return m


def call(m: Members, who: Peer, key: str | None, incarnation: int | None = 0) -> list[Effect]:
    return m.receive(AnnounceReceived(who, incarnation=incarnation, key=key))


def replace(m: Members, old: str, who: Peer, key: str | None) -> list[Effect]:
    """A node announces itself at the address of another one, which is asked first, and is not there any more."""
    assert announced(call(m, who, key)) == [address(old)]
    return m.receive(AnnounceAnswered(address(old), who, incarnation=0, key=key))


def refuse(m: Members, who: Peer, key: str | None) -> list[Effect]:
    """The announcement is refused; what the membership makes of that afterwards."""
    before = m.view()
    with pytest.raises(NameTaken) as refusal:
        call(m, who, key)
    assert m.view() == before
    return m.receive(refusal.value.dispute)


def told(effects: Sequence[Effect]) -> list[str]:
    return [effect.text for effect in of(Publish, effects)]


# --- who says a key


def test_a_node_shows_its_key_to_nodes_that_know_of_it_and_the_thesis_gets_its_own_form() -> None:
    m = keyed()
    (answer,) = of(Answer, call(m, at("a"), OLD))
    assert isinstance(answer.message, AnnounceReply)
    assert answer.message.key == OWN
    (answer,) = of(Answer, call(m, at("b"), None, None))
    assert isinstance(answer.message, AnnounceReply)
    assert "key" not in answer.message.fields()
    assert {probe.message.key for probe in probes(tick(m, 4))} == {OWN}
    (answer,) = of(Answer, m.receive(ProbeReceived(at("a"), key=OLD)))
    assert isinstance(answer.message, ProbeReply)
    assert answer.message.key == OWN


def test_a_nodes_own_call_is_still_known_by_its_key() -> None:
    m = keyed()
    m.receive(MeshStarted(("localhost:4109",)))
    (answer,) = of(Answer, call(m, at("m"), OWN))
    assert isinstance(answer.message, AnnounceReply)
    assert m.receive(AnnounceAnswered("localhost:4109", at("m"), key=answer.message.key)) == []
    assert m.joined


# --- the same node, and other nodes


def test_a_node_that_moved_is_the_same_node() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    assert [probe.to for probe in probes(call(m, at("a", port=9, ip="10.0.0.2"), OLD))] == [A]
    assert kinds(m.receive(ProbeFailed(A, None, "no connection"))) == ["peer_moved"]
    assert [(p["id"], p["address"], p["fingerprint"]) for p in m.view()] == [("a", "10.0.0.2:9", short(OLD))]


def test_a_node_that_proves_its_key_moves_at_once() -> None:
    m = keyed()
    m.state.proves_keys = True
    call(m, at("a"), OLD)
    assert kinds(call(m, at("a", port=9), OLD)) == ["peer_moved"]


def test_a_node_that_answers_where_it_was_did_not_move() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    assert kinds(call(m, at("a", port=9), OLD)) == []
    assert kinds(m.receive(ProbeAnswered(A, None))) == []
    assert kinds(bury(m, A)) == ["peer_suspected", "peer_lost"]
    assert kinds(call(m, at("a", port=9), OLD)) == ["peer_moved", "peer_back"]


@pytest.mark.parametrize("key", [NEW, None])
@pytest.mark.parametrize("state", list(State))
def test_a_name_belongs_to_its_first_key_whatever_became_of_the_node(key: str | None, state: State) -> None:
    m = keyed()
    call(m, at("a"), OLD)
    call(m, at("b"), OTHER)
    miss(m, A)
    news = m.known[A].news().model_copy(update={"state": state.value})
    m.receive(ProbeReceived(at("b"), news=(news,), key=OTHER))
    assert m.known[A].state is state
    effects = refuse(m, at("a", port=9), key)
    assert kinds(effects) == ["identity_conflict"]
    claimed = f"the fingerprint {short(NEW)}" if key else "no key"
    assert told(effects) == [
        f"a node at 10.0.0.1:9 calls itself a and has {claimed}; it is refused, because a has {short(OLD)}"
    ]
    assert refuse(m, at("a", port=9), key) == []  # people hear of it once


def test_the_refusal_says_both_fingerprints_and_what_to_do() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    with pytest.raises(NameTaken) as refusal:
        call(m, at("a", port=9), NEW)
    words = refusal.value.message
    assert (refusal.value.status, refusal.value.code) == (409, "id_taken")
    assert all(one in words for one in ("'a'", short(OLD), short(NEW), "FLNET_NODE_ID", "identity.key", "forget"))


def test_a_key_that_comes_later_is_taken_up_and_the_thesis_nodes_are_served_without() -> None:
    m = keyed()
    call(m, at("a"), None, None)
    assert m.alive == [A]
    assert call(m, at("a", port=9), None, None)  # it may move: nobody can tell it from another
    m.receive(ProbeFailed(A, None, "no connection"))
    assert kinds(call(m, at("a", port=9), OLD)) == ["peer_key"]
    assert m.keys() == {A: OLD}
    refuse(m, at("a", port=9), None)


def test_another_node_at_an_address_is_another_node_and_the_old_name_stays_the_old_ones() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    effects = replace(m, "a", at("b", port=at("a").port), NEW)
    assert kinds(effects) == ["peer_replaced", "peer_joined"]
    assert m.keys() == {A: OLD, B: NEW}
    refuse(m, at("a", port=9), OTHER)
    assert kinds(call(m, at("a", port=9), OLD)) == ["peer_joined"]


def test_a_node_with_a_new_name_and_its_old_key_is_one_node_and_its_old_name_is_free() -> None:
    m = keyed()
    m.state.proves_keys = True
    call(m, at("a"), OLD)
    effects = call(m, at("b"), OLD)
    assert told(effects)[0] == "a was forgotten: it is called b now"
    assert [tell.alive for tell in of(TellJobs, effects)] == [False, True]
    assert [p["id"] for p in m.view()] == ["b"]
    assert kinds(call(m, at("a"), NEW)) == ["peer_joined"]


def test_a_key_that_is_only_stated_takes_no_name_from_a_node_that_answers() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    assert announced(call(m, at("b"), OLD)) == [address("a")]
    m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, key=OLD))
    assert m.alive == [A]
    bury(m, A)
    assert kinds(call(m, at("b"), OLD)) == ["peer_replaced", "peer_joined"]


def test_a_live_node_keeps_its_address_as_long_as_it_answers_there() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    thief = at("b", port=at("a").port)
    for _ in range(3):
        assert announced(call(m, thief, NEW)) == [address("a")]
        m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, key=OLD))
    assert address("a") in announced(m.receive(AnnounceAnswered(address("b"), thief, incarnation=0, key=NEW)))
    assert m.alive == [A]


def test_with_pruning_a_name_is_kept_for_its_key_all_the_same() -> None:
    m = keyed(prune=True)
    call(m, at("a"), OLD)
    bury(m, A)
    assert m.view() == []
    refuse(m, at("a"), NEW)


def test_this_nodes_own_name_is_its_own() -> None:
    m = keyed()
    assert kinds(refuse(m, at("m", ip="10.0.0.7"), NEW)) == ["identity_conflict"]
    with pytest.raises(NameTaken):
        m.receive(ProbeReceived(at("m", ip="10.0.0.7"), key=NEW))
    m.receive(MeshStarted(("10.0.0.7:4109",)))
    effects = m.receive(AnnounceAnswered("10.0.0.7:4109", at("m", ip="10.0.0.7"), incarnation=0, key=OTHER))
    assert kinds(effects) == ["identity_conflict"]
    assert [timer.name for timer in of(SetTimer, effects)] == ["announce:10.0.0.7:4109"]
    assert m.state.announcer.bootstrap == ("10.0.0.7:4109",)


def test_a_name_is_free_again_when_its_tombstone_falls() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    replace(m, "a", at("b", port=at("a").port), NEW)
    tick(m, 2)
    refuse(m, at("a", port=9), OTHER)
    m.state.roster.tick += m.state.pauses.tombstone
    tick(m)
    assert kinds(call(m, at("a", port=9), OTHER)) == ["peer_joined"]


# --- other ways in


def test_a_probe_in_a_name_that_is_taken_is_refused() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    bury(m, A)
    with pytest.raises(NameTaken):
        m.receive(ProbeReceived(at("a"), key=NEW))
    assert m.known[A].state is State.DEAD


def test_who_answers_at_the_address_of_a_dead_node_is_not_that_node() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    bury(m, A)
    effects = m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, key=NEW))
    assert kinds(effects) == ["identity_conflict"]
    assert [timer.name for timer in of(SetTimer, effects)] == [f"announce:{address('a')}"]
    assert m.known[A].state is State.DEAD
    assert kinds(m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0, key=OLD))) == ["peer_back"]


def test_what_comes_in_a_dead_nodes_name_while_another_claims_it_does_not_bring_it_back() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    refuse(m, at("a", port=9), NEW)
    m.check_sender(A)  # it is alive: its messages count
    bury(m, A)
    with pytest.raises(NameTaken, match="another node uses the name 'a'") as refusal:
        m.check_sender(A)
    assert m.receive(refusal.value.dispute) == []
    assert m.receive(ContactMade(A)) == []
    assert m.known[A].state is State.DEAD
    call(m, at("a"), OLD)  # the one that it belongs to
    m.check_sender(A)
    assert m.known[A].state is State.ALIVE


# --- the node that is refused


def test_a_node_that_is_refused_says_so_once_and_goes_on_trying() -> None:
    m = members()
    m.receive(MeshStarted((address("a"),)))
    failed = AnnounceFailed(address("a"), "answered 409 id_taken: another node ...", "id_taken")
    effects = m.receive(failed)
    assert told(effects) == [
        f"{address('a')} refuses this node: answered 409 id_taken: another node ...; trying again"
    ]
    assert kinds(effects) == ["identity_conflict"]
    again = [m.receive(failed) for _ in range(5)]
    assert [kinds(effects) for effects in again] == [[]] * 5
    assert all(of(SetTimer, effects) for effects in again)
    m.receive(AnnounceAnswered(address("a"), at("a"), incarnation=0))
    assert kinds(m.receive(failed)) == ["identity_conflict"]  # it is news again


# --- people, and restarts


def test_a_person_frees_the_name_of_a_node_that_is_gone() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    with pytest.raises(StillThere, match="'a' takes part here"):
        m.receive(PeerForgotten(A))
    bury(m, A)
    refuse(m, at("a"), NEW)
    effects = m.receive(PeerForgotten(A))
    assert (kinds(effects), of(TellJobs, effects), m.view(), m.keys()) == (["peer_forgotten"], [], [], {})
    assert kinds(call(m, at("a"), NEW)) == ["peer_joined"]
    m.check_sender(A)


def test_of_two_nodes_with_one_name_a_person_may_forget_the_one_that_is_there() -> None:
    m = keyed()
    call(m, at("a"), OLD)
    refuse(m, at("a", port=9), NEW)
    effects = m.receive(PeerForgotten(A))
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="a person forgot it")]
    assert kinds(call(m, at("a", port=9), NEW)) == ["peer_joined"]


def test_who_is_not_known_cannot_be_forgotten() -> None:
    with pytest.raises(UnknownPeer, match="no peer 'a'"):
        keyed().receive(PeerForgotten(A))


def test_a_restarted_node_still_knows_whose_name_is_whose() -> None:
    m = keyed()
    m.receive(MeshStarted((), (address("a"),), ((A, OLD),)))
    assert m.keys() == {A: OLD}
    refuse(m, at("a"), NEW)
    assert kinds(m.receive(PeerForgotten(A))) == ["peer_forgotten"]
    m.receive(MeshStarted((), (), ((A, OLD),)))
    assert announced(call(m, at("a"), OLD)) == []
    assert m.alive == [A]


# --- any order


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.sampled_from([None, *KEYS[:2]]))))
def test_whatever_comes_a_name_keeps_its_first_key_and_a_key_has_one_name(
    calls: list[tuple[str, int, str | None]],
) -> None:
    m = keyed()
    m.state.proves_keys = True
    for name, port, key in calls:
        before = m.keys().get(PeerId(name))
        try:
            asked = announced(call(m, at(name, port=port), key))
            assert asked in ([], [at(name, port=port).address])
            if asked:
                m.receive(AnnounceAnswered(asked[0], at(name, port=port), incarnation=0, key=key))
        except NameTaken as exc:
            assert before not in (None, key)
            m.receive(exc.dispute)
            continue
        assert before in (None, key)
        assert m.keys().get(PeerId(name)) == key
        shown = [member.key for member in m.known.values() if member.key]
        assert len(set(shown)) == len(shown)
        assert len({member.peer.address for member in m.known.values()}) == len(m.known)
