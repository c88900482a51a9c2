"""News beside probes: the freshest first, each piece some times, never more than a message holds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.roster import PER_MESSAGE, Gossip, Member, Roster, State, Status
from flnet.params.params import PeerId
from flnet.protocol.effects import Publish, TellJobs
from flnet.protocol.messages import MAX_INCARNATION, News, Peer, StateWord
from tests.membership.meshes import at, at_news, of


def about(name: str) -> News:
    return at_news(name, "alive", 1)


def names(news: list[News]) -> list[str]:
    return [piece.id for piece in news]


def test_what_was_told_least_goes_first() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    assert names(gossip.take(9)) == ["a"]
    gossip.add(about("b"))
    assert names(gossip.take(9)) == ["b", "a"]
    gossip.add(about("c"))
    assert names(gossip.take(9)) == ["c", "b", "a"]


def test_news_of_the_addressee_goes_first_however_often_it_was_told() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    gossip.take(9)
    gossip.add(about("b"))
    assert names(gossip.take(9, first=PeerId("a"))) == ["a", "b"]


@given(st.integers(1, 12))
def test_what_was_told_often_enough_is_forgotten(limit: int) -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    assert [names(gossip.take(limit)) for _ in range(limit + 1)] == [["a"]] * limit + [[]]
    assert len(gossip) == 0


def test_a_message_holds_only_so_many_and_the_next_one_has_the_others() -> None:
    gossip = Gossip()
    for i in range(PER_MESSAGE + 5):
        gossip.add(about(f"p{i:03}"))
    first, second = names(gossip.take(9)), names(gossip.take(9))
    assert (len(first), len(second)) == (PER_MESSAGE, PER_MESSAGE)
    assert second[:5] == [f"p{PER_MESSAGE + i:03}" for i in range(5)]


def test_a_newer_claim_takes_the_place_of_an_older_one() -> None:
    gossip = Gossip()
    gossip.add(at_news("a", "suspect", 0, "b"))
    gossip.add(at_news("a", "suspect", 0, "c"))
    assert {piece.by for piece in gossip.take(9)} == {"b", "c"}  # each accuser is told
    gossip.add(at_news("b", "alive", 0))
    gossip.add(at_news("a", "alive", 1))
    assert [(piece.id, piece.state) for piece in gossip.take(9)] == [("b", "alive"), ("a", "alive")]


def test_what_is_said_again_is_told_again() -> None:
    gossip = Gossip()
    gossip.add(about("a"))
    gossip.take(2)
    gossip.add(about("a"))
    assert [names(gossip.take(2)) for _ in range(3)] == [["a"], ["a"], []]


# --- One record for each member: what is seen at first hand, what others say, and what jobs hear of it.


A, B, M = PeerId("a"), PeerId("b"), PeerId("m")
ALIVE, SUSPECT, DEAD, LEFT = State


def roster(*known: str, prune: bool = False) -> Roster:
    r = Roster(M, prune)
    for name in known:
        r.greet(at(name), frozenset(), 0)
    r.gossip.take(1)  # all that was to be told
    return r


def hold(r: Roster, state: StateWord, incarnation: int = 0) -> Member:
    """Let the roster hold a for this."""
    r.hear(at_news("a", state, incarnation))
    return r.known[A]


def told(r: Roster) -> list[tuple[str, str, int, str | None]]:
    return [(news.id, news.state, news.incarnation, news.by) for news in r.gossip.take(1)]


# --- at first hand


def test_a_new_member_is_told_to_jobs_to_people_and_to_others() -> None:
    r = roster()
    effects = r.greet(at("a"), frozenset({"int8"}), 3)
    assert of(TellJobs, effects) == [TellJobs(A, alive=True)]
    assert [effect.kind for effect in of(Publish, effects)] == ["peer_joined"]
    assert (r.known[A].standing, r.known[A].accepts, r.size) == (Status(ALIVE, 3), frozenset({"int8"}), 2)
    assert told(r) == [("a", "alive", 3, None)]


def test_who_greets_again_is_no_news() -> None:
    r = roster("a")
    assert r.greet(at("a"), frozenset({"int8"}), 0) == []
    assert r.known[A].accepts == {"int8"}
    assert told(r) == []


def test_a_live_member_takes_the_higher_incarnation_silently() -> None:
    r = roster("a")
    assert (r.seen(A, 4), r.seen(A, 2)) == ([], [])
    assert r.known[A].standing == Status(ALIVE, 4)


@pytest.mark.parametrize(
    ("state", "kind"), [("suspect", "peer_answers"), ("dead", "peer_back"), ("left", "peer_back")]
)
def test_a_node_that_sees_it_vouches_for_it(state: StateWord, kind: str) -> None:
    r = roster("a")
    hold(r, state, 2)
    effects = r.seen(A, 0)  # it knows nothing of what is said of it
    assert r.known[A].standing == Status(ALIVE, 3)
    assert of(TellJobs, effects) == [TellJobs(A, alive=True)]
    assert of(Publish, effects)[0].kind == kind
    assert told(r) == [("a", "alive", 3, None)]


def test_who_knows_a_higher_incarnation_of_its_own_has_that() -> None:
    r = roster("a")
    hold(r, "dead", 2)
    r.seen(A, 9)
    assert r.known[A].standing == Status(ALIVE, 9)


# --- by hearsay


def test_where_it_is_does_not_change_by_hearsay() -> None:
    r = roster("a")
    elsewhere = at_news("a", "alive", 5).model_copy(update={"ip": "10.9.9.9", "port": 9})
    r.hear(elsewhere)
    assert (r.known[A].peer, r.known[A].standing) == (at("a"), Status(ALIVE, 5))
    moved = r.greet(at("a", port=9), frozenset(), 5)
    assert ([effect.kind for effect in of(Publish, moved)], r.known[A].peer) == (["peer_moved"], at("a", port=9))


def test_nothing_is_learned_of_somebody_unknown() -> None:
    r = roster()
    assert r.hear(at_news("a", "dead", 5)) == []
    assert r.known == {}


def test_old_stories_change_nothing_and_are_not_passed_on() -> None:
    r = roster("a")
    r.seen(A, 3)
    assert r.hear(at_news("a", "dead", 2)) == []
    assert (r.known[A].state, told(r)) == (ALIVE, [])


@pytest.mark.parametrize(("by", "reason"), [("b", "b says so"), (None, "a peer says so")])
def test_a_suspicion_says_whose_it_is(by: str | None, reason: str) -> None:
    r = roster("a")
    effects = r.hear(at_news("a", "suspect", 0, by))
    assert r.known[A].reason == reason
    assert of(Publish, effects)[0].text == f"a may be gone: {reason}"
    assert of(TellJobs, effects) == []
    assert told(r) == [("a", "suspect", 0, by)]


@pytest.mark.parametrize(
    ("state", "reason"), [("alive", ""), ("dead", "others say so"), ("left", "it left the mesh")]
)
def test_the_reason_is_that_of_the_state(state: StateWord, reason: str) -> None:
    r = roster("a")
    r.accuse(A, "timed out")
    assert hold(r, state, 1).reason == reason


def test_a_death_is_told_to_jobs_once() -> None:
    r = roster("a")
    assert of(TellJobs, r.hear(at_news("a", "dead", 0))) == [TellJobs(A, alive=False, reason="others say so")]
    assert of(TellJobs, r.hear(at_news("a", "dead", 1))) == []
    assert (r.alive, r.size) == ([], 1)


# --- accusing and burying


def test_each_accuser_counts_once_and_is_passed_on() -> None:
    r = roster("a", "b")
    assert of(Publish, r.accuse(A, "timed out"))[0].text == "a may be gone: timed out"
    told(r)
    assert (r.accuse(A, "again"), told(r)) == ([], [])
    r.hear(at_news("a", "suspect", 0, "b"))
    assert told(r) == [("a", "suspect", 0, "b")]
    r.hear(at_news("a", "suspect", 0, "b"))
    assert (r.known[A].accusers, told(r)) == (frozenset({M, B}), [])


def test_names_that_somebody_invents_accuse_nobody_and_eight_accusers_are_enough() -> None:
    r = roster("a", *"bcdefghijkl")
    r.accuse(A, "timed out")
    told(r)
    for number in range(1000):
        r.hear(at_news("a", "suspect", 0, f"x{number}"))
    assert (r.known[A].accusers, told(r)) == (frozenset({M}), [])
    for accuser in "bcdefghijkl":
        r.hear(at_news("a", "suspect", 0, accuser))
    assert r.known[A].accusers == {M, *"bcdefgh"}


def test_who_heard_of_a_suspicion_and_finds_the_same_is_an_accuser_too() -> None:
    r = roster("a")
    r.hear(at_news("a", "suspect", 0, "b"))
    r.accuse(A, "timed out")
    assert r.known[A].accusers == {B, M}
    assert ("a", "suspect", 0, "m") in told(r)


def test_a_new_suspicion_has_its_full_time_and_its_own_accusers() -> None:
    r = roster("a")
    r.tick = 10
    r.accuse(A, "timed out")
    r.tick = 12
    r.hear(at_news("a", "suspect", 1, "b"))  # it objected, and was suspected again
    assert (r.known[A].since, r.known[A].accusers) == (12, frozenset({B}))


def test_the_dead_and_the_unknown_are_not_accused() -> None:
    r = roster("a")
    hold(r, "dead")
    assert (r.accuse(A, ""), r.accuse(B, ""), r.known[A].state) == ([], [], DEAD)


def test_with_pruning_it_is_forgotten_but_still_told() -> None:
    r = roster("a", prune=True)
    r.accuse(A, "timed out")
    told(r)
    effects = r.bury(A)
    assert [effect.kind for effect in of(Publish, effects)] == ["peer_pruned"]
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="timed out")]
    assert (r.known, told(r)) == ({}, [("a", "dead", 0, None)])


def test_tombstones_fall_and_live_members_stay() -> None:
    r = roster("a", "b")
    r.tick = 5
    hold(r, "left")
    r.tick = 14
    r.forget_old(10)
    assert set(r.known) == {A, B}
    r.tick = 15
    r.forget_old(10)
    assert set(r.known) == {B}


# --- addresses, views


def test_of_a_dead_node_at_that_address_jobs_hear_nothing_again() -> None:
    r = roster("a")
    hold(r, "dead")
    effects = r.greet(at("b", port=at("a").port), frozenset(), 0)
    assert of(TellJobs, effects) == [TellJobs(B, alive=True)]


def test_members_come_in_the_order_of_their_ids() -> None:
    assert [member.peer.id for member in roster("b", "c", "a")] == ["a", "b", "c"]


def test_the_view_and_the_news_of_a_member() -> None:
    member = Member(Peer(id="a", ip="10.0.0.1", port=9), Status(LEFT, 2), "it goes")
    assert member.view() == {
        **{"id": "a", "ip": "10.0.0.1", "port": "9", "address": "10.0.0.1:9"},
        **{"state": "left", "reason": "it goes", "incarnation": 2, "fingerprint": "", "key": ""},
    }
    news = member.news(B)
    assert (news.id, news.ip, news.port, news.state, news.incarnation, news.by) == (
        "a",
        "10.0.0.1",
        9,
        "left",
        2,
        B,
    )


def test_what_a_member_reads_may_change() -> None:
    r = roster("a")
    r.reads(A, frozenset({"int8"}))
    r.reads(B, frozenset({"int8"}))
    assert (r.known[A].accepts, set(r.known)) == (frozenset({"int8"}), {A})


@pytest.mark.parametrize("state", ["alive", "suspect", "dead", "left"])
def test_what_is_said_already_known_and_by_whom(state: StateWord) -> None:
    r = roster("a")
    member = hold(r, state, 2)
    same = member.news()
    assert member.is_held_for(same)
    assert member.news() == same
    assert not member.is_held_for(same.model_copy(update={"incarnation": 3}))
    assert not member.is_held_for(same.model_copy(update={"incarnation": 1}))
    assert not member.is_held_for(same.model_copy(update={"by": "c"}))
    others = {"alive", "suspect", "dead", "left"} - {state}
    assert not any(member.is_held_for(same.model_copy(update={"state": other})) for other in others)


def test_an_accuser_that_is_known_says_nothing_new() -> None:
    r = roster("b")
    r.accuse(PeerId("b"), "silent")
    assert r.known[PeerId("b")].is_held_for(r.known[PeerId("b")].news(r.me))


# Which of two claims counts: a total order, so nodes that heard the same hold the same.


claims = st.builds(Status, st.sampled_from(State), st.integers(0, 4))


def heard(said: list[Status]) -> Status:
    """What a node holds that heard these claims in this order."""
    roster = Roster(PeerId("m"))
    roster.greet(at("a"), frozenset(), 0)
    for claim in said:
        roster.hear(at_news("a", claim.state.value, claim.incarnation))
    return roster.known[A].standing


@given(claims, claims, claims)
def test_claims_form_a_total_order(one: Status, other: Status, third: Status) -> None:
    assert one.beats(other) + other.beats(one) + (one == other) == 1
    assert not (one.beats(other) and other.beats(third)) or one.beats(third)


@given(st.lists(claims, max_size=8), st.randoms(use_true_random=False))
def test_the_order_and_the_number_of_tellings_do_not_matter(said: list[Status], chance: Random) -> None:
    again = said + [chance.choice(said) for _ in said]
    chance.shuffle(again)
    assert heard(again) == heard(said)


@given(st.lists(claims, max_size=5), st.lists(claims, max_size=5))
def test_two_nodes_that_tell_each_other_hold_the_same(here: list[Status], there: list[Status]) -> None:
    one, other = heard(here), heard(there)
    assert heard([*here, other]) == heard([*there, one])


@given(claims)
def test_a_refutation_beats_what_it_refutes(claim: Status) -> None:
    assert claim.refuted().beats(claim)
    assert claim.refuted().state is ALIVE
    assert heard([claim, claim.refuted(), claim]) == claim.refuted()


def test_no_incarnation_is_beyond_what_messages_carry() -> None:
    assert Status(DEAD, MAX_INCARNATION).refuted() == Status(ALIVE, MAX_INCARNATION)


# "about" a member that is held for the column's state at incarnation 1, somebody says the row's: does it count?
@pytest.mark.parametrize(
    ("claim", "counts_against"),
    [
        (Status(ALIVE, 1), []),
        (Status(SUSPECT, 1), [ALIVE]),
        (Status(DEAD, 1), [ALIVE, SUSPECT]),
        (Status(LEFT, 1), [ALIVE, SUSPECT, DEAD]),
        (Status(ALIVE, 2), [ALIVE, SUSPECT, DEAD, LEFT]),
        (Status(LEFT, 0), []),
    ],
)
def test_the_table(claim: Status, counts_against: list[State]) -> None:
    assert [state for state in State if claim.beats(Status(state, 1))] == counts_against


def test_rounds_count_on_suspects_too() -> None:
    assert [state for state in State if state.takes_part] == [ALIVE, SUSPECT]
