"""Which peer is asked for which part: everything comes while anybody serves, within the limits, and it ends."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flnet.params.params import PeerId
from flnet.rounds.parts import MOST_EACH, MOST_REQUESTS, PartsPlan

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")
NAMES = st.lists(st.sampled_from([PeerId(name) for name in "abcdefgh"]), unique=True)


def test_parts_are_spread_over_the_peers_and_the_next_one_goes_to_who_has_served() -> None:
    plan = PartsPlan([A, B])
    plan.want(range(6))
    assert plan.ask() == [(A, 0), (B, 1), (A, 2), (B, 3)]
    assert plan.ask() == []
    assert plan.came(B, 1)
    assert plan.ask() == [(B, 4)]
    assert plan.came(B, 3)
    assert plan.ask() == [(B, 5)]


def test_the_part_of_a_peer_that_fails_is_asked_of_another_one_and_the_peer_is_not_asked_again() -> None:
    plan = PartsPlan([A, B])
    plan.want([0, 1])
    assert plan.ask() == [(A, 0), (B, 1)]
    plan.failed(A, 0)
    assert plan.ask() == [(B, 0)]
    assert plan.sources == [B]


def test_nobody_is_left() -> None:
    plan = PartsPlan([A])
    plan.want([0])
    assert plan.ask() == [(A, 0)]
    plan.failed(A, 0)
    assert plan.ask() == []
    assert not plan.is_done


def test_a_slow_part_is_asked_of_idle_peers_too_one_more_at_each_hurry_and_counts_once() -> None:
    plan = PartsPlan([A, B, C])
    plan.want([0])
    assert plan.ask() == [(A, 0)]
    plan.hurry()
    assert plan.ask() == [(B, 0)]
    plan.failed(B, 0)
    assert plan.ask() == [(C, 0)]
    assert plan.came(C, 0)
    assert plan.is_done
    assert not plan.came(A, 0)


def test_a_part_that_somebody_else_is_still_asked_for_does_not_begin_again() -> None:
    plan = PartsPlan([A, B])
    plan.want([0])
    plan.ask()
    plan.hurry()
    assert plan.ask() == [(B, 0)]
    plan.failed(A, 0)
    assert plan.ask() == []
    assert plan.came(B, 0)


@given(NAMES, NAMES, st.integers(0, 40), st.randoms(use_true_random=False))
def test_all_parts_come_if_one_peer_serves_whatever_the_others_do(
    sources: list[PeerId], dead: list[PeerId], count: int, rng: Random
) -> None:
    """Peers in `dead` never serve a part: their requests fail sooner or later."""
    plan, came, under_way = PartsPlan(sources), Counter[int](), list[tuple[PeerId, int]]()
    plan.want(range(count))
    steps = 0
    while not plan.is_done:
        under_way += plan.ask()
        assert len(under_way) <= MOST_REQUESTS
        assert len(set(under_way)) == len(under_way)
        assert max(Counter(peer for peer, _ in under_way).values(), default=0) <= MOST_EACH
        if not under_way:
            break
        if rng.random() < 0.3:
            plan.hurry()
            continue
        request = under_way.pop(rng.randrange(len(under_way)))
        steps += 1
        if request[0] in dead:
            plan.failed(*request)
        else:
            came[request[1]] += plan.came(*request)
    assert steps <= count * len(sources) + MOST_EACH * len(dead)
    if set(sources) - set(dead):
        assert plan.is_done
    if plan.is_done:
        assert came == Counter(range(count))
    else:
        assert plan.sources == []
