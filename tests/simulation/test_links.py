"""Links that transfers share: times that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.simulation.links import BURST, LINKS, Link, SharedLinks, fair_rates

EQUAL = Link(100_000.0, 100_000.0, 0.0)
ASYMMETRIC = Link(up=20_000.0, down=100_000.0, latency=0.0)
Ends = tuple[int, int, float]  # sender, receiver, bytes


def played(links: list[Link], starts: dict[str, tuple[float, Ends]]) -> dict[str, float]:
    """When each transfer ends, of those that start at these times."""
    shared, waiting = SharedLinks[str](links), sorted(starts, key=lambda key: starts[key][0])
    ends: dict[str, float] = {}
    while len(ends) < len(starts):
        begin = starts[waiting[0]][0] if waiting else math.inf
        now = min(begin, shared.next_end())
        ends |= dict.fromkeys(shared.ended(now), now)
        while waiting and starts[waiting[0]][0] <= now:
            key = waiting.pop(0)
            shared.start(now, *starts[key][1], key)
    return ends


def test_one_transfer_has_the_whole_link() -> None:
    assert played([EQUAL] * 2, {"a": (0.0, (0, 1, 300_000.0))}) == pytest.approx({"a": 3.0})


def test_two_transfers_over_one_uplink_take_twice_as_long() -> None:
    starts = {"a": (0.0, (0, 1, 300_000.0)), "b": (0.0, (0, 2, 300_000.0))}
    assert played([EQUAL] * 3, starts) == pytest.approx({"a": 6.0, "b": 6.0})


def test_two_transfers_over_one_downlink_take_twice_as_long() -> None:
    starts = {"a": (0.0, (0, 2, 300_000.0)), "b": (0.0, (1, 2, 300_000.0))}
    assert played([EQUAL] * 3, starts) == pytest.approx({"a": 6.0, "b": 6.0})


def test_what_is_sent_and_what_is_received_do_not_share() -> None:
    starts = {"a": (0.0, (0, 1, 300_000.0)), "b": (0.0, (1, 0, 300_000.0))}
    assert played([EQUAL] * 2, starts) == pytest.approx({"a": 3.0, "b": 3.0})


def test_on_a_radio_link_they_share() -> None:
    radio = Link(100_000.0, 100_000.0, 0.0, is_shared=True)
    starts = {"a": (0.0, (0, 1, 300_000.0)), "b": (0.0, (1, 0, 300_000.0))}
    assert played([radio] * 2, starts) == pytest.approx({"a": 6.0, "b": 6.0})


def test_the_slower_end_decides() -> None:
    starts = {"a": (0.0, (0, 1, 300_000.0))}
    assert played([ASYMMETRIC, EQUAL], starts) == pytest.approx({"a": 15.0})
    assert played([EQUAL, Link(1e9, 50_000.0, 0.0)], starts) == pytest.approx({"a": 6.0})


def test_what_one_transfer_cannot_use_the_other_has() -> None:
    # Node 1 takes 20 kB a second, so 80 of the 100 that node 0 sends are left for node 2.
    links = [EQUAL, Link(1e9, 20_000.0, 0.0), EQUAL]
    starts = {"slow": (0.0, (0, 1, 200_000.0)), "fast": (0.0, (0, 2, 200_000.0))}
    assert played(links, starts) == pytest.approx({"slow": 10.0, "fast": 2.5})


def test_a_transfer_that_comes_later_takes_its_share_from_then_on() -> None:
    # "a" sends 200 kB alone in 2 s and shares the link for its other 100 kB, which takes 2 s; then "b" has it alone.
    starts = {"a": (0.0, (0, 1, 300_000.0)), "b": (2.0, (0, 2, 300_000.0))}
    assert played([EQUAL] * 3, starts) == pytest.approx({"a": 4.0, "b": 6.0})


def test_several_downloads_of_a_slow_sender_fill_its_uplink_only() -> None:
    starts = {name: (0.0, (0, place, 20_000.0)) for place, name in enumerate("abcd", 1)}
    starts["e"] = (0.0, (5, 1, 100_000.0))  # 95 of the 100 kB a second of node 1 are left for it
    ends = played([ASYMMETRIC, *[EQUAL] * 5], starts)
    assert [ends[name] for name in "abcd"] == pytest.approx([4.0] * 4)
    assert ends["e"] == pytest.approx(100_000 / 95_000)


def test_short_messages_pass_one_after_the_other_and_longer_transfers_stand_still() -> None:
    shared = SharedLinks[str]([EQUAL] * 3)
    shared.start(0.0, 0, 1, 100_000.0, "long")
    assert shared.pass_short(0.0, 0, 2, 10_000.0) == pytest.approx(0.2)  # 0.1 s up, and 0.1 s down
    assert shared.pass_short(0.0, 0, 1, 5_000.0) == pytest.approx(0.2)  # it waits for the other one
    assert shared.next_end() == pytest.approx(1.15)
    assert shared.ended(1.0) == []
    assert shared.ended(1.15) == ["long"] and shared.next_end() == math.inf


def test_nothing_is_sent_beyond_the_links() -> None:
    assert SharedLinks[str]([EQUAL] * 2).next_end() == math.inf
    assert SharedLinks[str]([EQUAL] * 2).ended(5.0) == []


@st.composite
def meshes(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    count = draw(st.integers(2, 8))
    capacities = draw(st.lists(st.floats(1.0, 1e6), min_size=2 * count, max_size=2 * count))
    ends = st.tuples(st.integers(0, count - 1), st.integers(count, 2 * count - 1))
    return capacities, draw(st.lists(ends, min_size=1, max_size=30))


@given(meshes())
def test_rates_are_fair(mesh: tuple[list[float], list[tuple[int, int]]]) -> None:
    capacities, crossed = np.array(mesh[0]), np.array(mesh[1])
    rates = fair_rates(capacities, crossed[:, 0], crossed[:, 1])
    used = np.bincount(crossed.ravel(), rates.repeat(2), len(capacities))
    assert (rates > 0).all() and (used <= capacities * (1 + 1e-9)).all()
    for place, rate in enumerate(rates):
        # Max-min: at one of its links, which is full, no other transfer has more.
        bottlenecks = [
            link
            for link in crossed[place]
            if used[link] >= capacities[link] * (1 - 1e-9)
            and rate >= rates[(crossed == link).any(axis=1)].max() * (1 - 1e-9)
        ]
        assert bottlenecks


def test_presets_are_in_bytes_and_seconds() -> None:
    assert LINKS["100mbit"].up * 8 == pytest.approx(94.1e6, rel=0.01)  # what TCP carries at 100 Mbit/s
    assert LINKS["lan"].up == pytest.approx(10 * LINKS["100mbit"].up)
    assert LINKS["dsl"].down == pytest.approx(2.5 * LINKS["dsl"].up)
    assert 4 * LINKS["dsl"].latency == pytest.approx(0.04)
    assert all(BURST / link.up < 0.01 for link in LINKS.values())
