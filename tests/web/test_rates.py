from __future__ import annotations

import pytest

from flnet.node.buckets import Buckets
from flnet.web.rates import network_of


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_at_once_and_then_one_by_one() -> None:
    clock = Clock()
    buckets = Buckets(3, 0.5, clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 2]
    assert buckets.take("b") == 0
    clock.now = 1
    assert (buckets.wait("a"), buckets.take("a")) == (1, 1)
    clock.now = 2
    assert [buckets.wait("a"), buckets.take("a"), buckets.take("a")] == [0, 0, 2]


def test_a_bucket_is_full_after_a_while_and_never_more_than_that() -> None:
    clock = Clock()
    buckets = Buckets(2, 1, clock=clock)
    assert buckets.is_full("a")
    buckets.take("a")
    assert not buckets.is_full("a")
    clock.now = 1000
    assert buckets.is_full("a")
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]


def test_memory_is_bounded_and_who_asks_most_is_remembered() -> None:
    clock = Clock()
    buckets = Buckets(1, 0.001, most=10, clock=clock)
    for number in range(1000):
        assert buckets.take(str(number)) == 0
    assert len(buckets._left) == 10
    assert buckets.take("999") > 0
    assert buckets.take("0") == 0


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
