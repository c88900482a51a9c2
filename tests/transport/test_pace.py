"""How long a piece may take, with a clock that a test moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.transport.pace import GENEROUS, LONGEST, REMEMBERED, SLOWEST, STEP, Pace

KB = 1024
PEER = "10.0.0.1:4000"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def pace(least: float = 30.0) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(least, clock), clock


def at_speed(made: Pace, clock: Clock, rate: float, seconds: float) -> None:
    """A transfer that moves a STEP at a time."""
    run = made.follow(PEER)
    for _ in range(int(rate * seconds / STEP)):
        clock.now += STEP / rate
        run.moved(STEP)


@pytest.mark.parametrize(("rate", "slow"), [(100_000, True), (11e6, True), (13e6, False), (1e9, False)])
def test_a_peer_is_slow_below_100_megabits_per_second(rate: float, slow: bool) -> None:
    made, _ = pace()
    assert not made.is_slow(PEER)  # nobody knows
    made.measured(PEER, 10_000_000, 10_000_000 / rate)
    assert made.is_slow(PEER) == slow


def test_before_anything_was_measured_the_timeout_holds() -> None:
    made, _ = pace(30)
    assert made.rate(PEER) is None
    assert made.allowed(PEER, 10**9) == 30


def test_a_slow_link_gets_a_multiple_of_what_it_needs() -> None:
    made, clock = pace(30)
    at_speed(made, clock, 4 * KB, 60)
    assert made.rate(PEER) == pytest.approx(4 * KB)
    assert made.allowed(PEER, 128 * KB) == pytest.approx(GENEROUS * 32)
    assert made.allowed(PEER, STEP) == 30  # 4 s, four times: less than the timeout
    assert made.allowed("10.0.0.2:4000", 128 * KB) == 30


def test_a_fast_link_gets_the_timeout() -> None:
    made, clock = pace(30)
    at_speed(made, clock, 10_000 * KB, 10)
    assert made.allowed(PEER, 4096 * KB) == 30


def test_what_buffers_swallow_at_once_is_no_speed() -> None:
    """100 KiB vanish within a millisecond; then the link takes 16 KiB every 4 s."""
    made, clock = pace(30)
    run = made.follow(PEER)
    for _ in range(6):
        clock.now += 0.0002
        run.moved(STEP)
    assert made.rate(PEER) is None
    for _ in range(10):
        clock.now += 4
        run.moved(STEP)
    assert made.rate(PEER) == pytest.approx(4 * KB, rel=0.1)


def test_a_transfer_that_stops_still_shows_how_fast_it_was() -> None:
    made, clock = pace(30)
    run = made.follow(PEER)
    run.moved(64 * KB)
    clock.now += 32
    run.stopped()
    assert made.rate(PEER) == pytest.approx(2 * KB)


def test_what_does_not_move_shows_nothing() -> None:
    made, clock = pace(30)
    run = made.follow(PEER)
    run.moved(STEP - 1)
    clock.now += 1000
    run.stopped()
    run.finished()
    assert made.rate(PEER) is None


def test_a_finished_transfer_can_only_show_that_the_link_is_faster() -> None:
    made, clock = pace(30)
    at_speed(made, clock, 4 * KB, 60)
    slower, faster = made.follow(PEER), made.follow(PEER)
    slower.moved(STEP)
    faster.moved(64 * KB)
    clock.now += 1
    faster.finished()
    assert made.rate(PEER) == pytest.approx(2 / (1 / (4 * KB) + 1 / (64 * KB)))
    before = made.rate(PEER)
    clock.now += 100  # the peer thought for long before it answered
    slower.finished()
    assert made.rate(PEER) == before


def test_a_link_that_recovers_is_soon_taken_for_what_it_is() -> None:
    made, clock = pace(30)
    at_speed(made, clock, 2 * KB, 60)
    at_speed(made, clock, 1000 * KB, 60)
    assert made.allowed(PEER, 128 * KB) == 30


@given(st.integers(1, 10**12), st.floats(0.001, 1e9), st.integers(0, 10**12), st.floats(0.01, 1000))
def test_the_time_lies_between_its_bounds(moved: int, seconds: float, ahead: int, least: float) -> None:
    made, _ = pace(least)
    made.measured(PEER, moved, seconds)
    allowed = made.allowed(PEER, ahead)
    assert least <= allowed <= LONGEST * least
    assert allowed <= max(least, GENEROUS * ahead / SLOWEST)


def test_addresses_are_not_kept_without_end() -> None:
    made, _ = pace()
    for number in range(REMEMBERED + 10):
        made.measured(f"10.0.0.1:{number}", STEP, 1.0)
    assert made.rate("10.0.0.1:9") is None
    assert made.rate("10.0.0.1:10") == STEP
