"""Whose turn it is to be probed, who is asked for help, and what becomes of silence."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.pace import Pauses
from flnet.membership.probing import HELP_TICKS, Prober
from flnet.params import PeerId

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


def test_one_that_answers_late_is_not_given_up() -> None:
    p = prober()
    silent(p)
    p.answered(A)
    assert p.given_up(1000) == []


def test_what_is_gone_may_be_probed_anew() -> None:
    p = prober()
    silent(p)
    p.forget(A)
    assert p.given_up(1000) == []
    assert p.begin(A, 1)


# --- doubt


def test_helpers_that_answer_nothing_make_a_node_doubt_itself() -> None:
    p = prober()
    silent(p)
    p.given_up(1000)
    assert p.doubt.level == 1


def test_a_helper_that_took_the_request_shows_that_the_own_network_works() -> None:
    p = prober()
    silent(p)
    p.helper_heard(A)
    p.given_up(1000)
    assert p.doubt.level == 0


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
