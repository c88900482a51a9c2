"""Whether other nodes reach this one is noticed by their calls."""

from __future__ import annotations

import pytest

from flnet.node.reach import SILENCE_S, Reachability


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_who_is_alone_or_has_just_met_the_others_is_not_out_of_reach(clock: Clock) -> None:
    reach = Reachability(clock)
    reach.count([])
    clock.now = 1000.0
    assert reach.why_not(4000) == ""
    reach.count(["a", "b"])
    clock.now += SILENCE_S - 1
    assert reach.why_not(4000) == ""


def test_who_is_called_by_nobody_for_a_minute_is_out_of_reach_until_one_calls(clock: Clock) -> None:
    reach = Reachability(clock)
    reach.count(["a", "b"])
    clock.now += SILENCE_S
    words = "no other node has called this one at port 4000 for a minute, though 2 answer it: a firewall"
    assert reach.why_not(4000).startswith(words)
    reach.called("b")
    assert reach.why_not(4000) == ""
    clock.now += SILENCE_S
    assert reach.why_not(4000).startswith(words)
    reach.count(["a"])
    assert "though 1 answer" in reach.why_not(4000)


def test_relays_of_the_mesh_are_named(clock: Clock) -> None:
    reach = Reachability(clock)
    reach.count(["a"])
    clock.now += SILENCE_S
    relays = [f"10.0.0.{number}:9200" for number in range(9)]
    assert "through a relay of this mesh: FLNET_RELAY=10.0.0.0:9200, FLNET_RELAY=" in reach.why_not(4000, relays)
    assert reach.why_not(4000, relays).count("FLNET_RELAY") == 3


def test_calls_of_strangers_do_not_count_and_take_no_memory(clock: Clock) -> None:
    reach = Reachability(clock)
    reach.count(["a"])
    clock.now += SILENCE_S
    for stranger in range(1000):
        reach.called(f"s{stranger}")
    assert "though 1 answer" in reach.why_not(4000)
    assert reach._called == {}
