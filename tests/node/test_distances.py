from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.node.distances import Distances


def test_the_first_measurement_stands_and_later_ones_move_it_by_an_eighth() -> None:
    distances = Distances()
    assert distances.rtt_ms("b") is None
    distances.measured("b", 0.008)
    assert distances.rtt_ms("b") == 8
    distances.measured("b", 0.016)  # 8 + (16 - 8) / 8
    assert distances.rtt_ms("b") == 9
    assert distances.rtt_ms("c") is None


@pytest.mark.parametrize("seconds", [-0.001, math.nan, math.inf])
def test_what_is_no_duration_is_left_out(seconds: float) -> None:
    distances = Distances()
    distances.measured("b", 0.5)
    distances.measured("b", seconds)
    assert distances.rtt_ms("b") == 500


def test_only_so_many_peers_are_remembered_and_those_of_late() -> None:
    distances = Distances(most=2)
    for peer in ("a", "b", "a", "c"):
        distances.measured(peer, 1)
    assert [distances.rtt_ms(peer) for peer in "abc"] == [1000, None, 1000]


@given(st.lists(st.floats(0, 100), min_size=1))
def test_the_average_lies_between_what_was_measured(found: list[float]) -> None:
    distances = Distances()
    for seconds in found:
        distances.measured("b", seconds)
    average = distances.rtt_ms("b")
    assert average is not None
    assert 1000 * min(found) - 0.01 <= average <= 1000 * max(found) + 0.01
