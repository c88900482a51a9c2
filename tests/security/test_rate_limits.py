"""Turns that come back with time."""

from __future__ import annotations

import pytest

from flnet.security.rate_limits import Buckets, network_of


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
    assert buckets.wait("a") == buckets.take("a") == 0
    assert buckets.wait("a") == buckets.take("a") == 0.5
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


def test_a_bucket_is_full_after_a_while_and_never_more_than_that() -> None:
    clock = Clock()
    buckets = Buckets(2, 1, clock=clock)
    assert buckets.is_full("a")
    buckets.take("a")
    assert not buckets.is_full("a")
    clock.now += 1000
    assert buckets.is_full("a")
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("<local>", "<local>"),
    ],
)
def test_a_host_counts_once_however_many_addresses_it_takes(address: str, network: str) -> None:
    assert network_of(address) == network
