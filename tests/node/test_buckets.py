"""Turns that come back with time."""

from __future__ import annotations

import pytest

from flnet.node.buckets import Buckets


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_taken_and_comes_back_with_time() -> None:
    clock = Clock()
    buckets = Buckets(3, 2, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0  # each has its own
    clock.now += 0.25
    assert buckets.take("a") == pytest.approx(0.25)
    clock.now += 0.25
    assert buckets.take("a") == 0
    clock.now += 1000
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]  # never more than full


def test_who_was_not_heard_of_for_longest_is_forgotten_first() -> None:
    buckets = Buckets(1, 1, Clock(), most=2)
    assert [buckets.take(caller) for caller in ("a", "b", "a", "c")] == [0, 0, 1, 0]
    assert buckets.take("b") == 1
    assert buckets.take("a") == 0  # forgotten: full again


def test_buckets_that_are_full_again_take_no_room() -> None:
    clock = Clock()
    buckets = Buckets(2, 1, clock)
    for number in range(100):
        buckets.take(f"once {number}")
        buckets.take("steady")
        clock.now += 1
    assert set(buckets._left) == {"once 99", "steady"}
    assert [buckets.take("steady") for _ in range(3)] == [0, 0, 1]


def test_a_million_callers_take_no_more_room_than_the_kept_ones() -> None:
    buckets = Buckets(1, 1, Clock(), most=100)
    for number in range(10_000):
        buckets.take(str(number))
    assert len(buckets._left) == 100
