"""When attempts end: the time that they have together, and the time in which something must move."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params.blob import PIECE
from flnet.wire import timeouts
from flnet.wire.timeouts import (
    BUFFERED,
    CAUTIOUS,
    GENEROUS,
    LONGEST,
    REMEMBERED,
    SLOWEST,
    STEP,
    UNSEEN,
    Budget,
    LinkSpeeds,
    TransferWatch,
    now,
)

PEER = "10.0.0.1:4000"


class Even:
    """Chance that always gives the same."""

    def random(self) -> float:
        return 0.0


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; time passes by them alone."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(timeouts, "now", lambda: sum(pauses))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


async def test_pauses_grow_until_no_time_is_left_and_begin_again_when_the_budget_is_renewed(
    slept: list[float],
) -> None:
    budget = Budget(0.5, Even())
    while await budget.pause():
        pass
    assert slept == pytest.approx([0.05, 0.1])  # 0.2 s more would leave no time for an attempt of that length
    budget.renew()
    assert await budget.pause()
    assert slept[-1] == pytest.approx(0.05)
    assert not await Budget(0.0, Even()).pause()


async def test_a_pause_is_as_long_as_the_peer_asks_for_or_there_is_none(slept: list[float]) -> None:
    assert await Budget(5.0, Even()).pause(0.3)
    assert slept == pytest.approx([0.3])
    assert not await Budget(1.0, Even()).pause(1.0)


@pytest.fixture
async def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the loop stands still."""
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)


def watch(timer: asyncio.Timeout, rate: float | None = None, least: float = 10.0) -> TransferWatch:
    pace = LinkSpeeds(least, time.monotonic)
    if rate:
        pace.measured(PEER, 1_000_000, 1_000_000 / rate)
    return TransferWatch(timer, pace, PEER)


def left(timer: asyncio.Timeout) -> float:
    return (timer.when() or 0) - now()


@pytest.mark.usefixtures("still")
async def test_what_moves_puts_the_end_off() -> None:
    async with asyncio.timeout(1) as timer:
        made = watch(timer)
        made.begins(1_000_000)
        assert left(timer) == 1.0  # the budget; nothing is known of this peer
        made.left(STEP)
        assert left(timer) == 10.0
        made.sent(BUFFERED)
        assert left(timer) == 30.0  # what the system holds may need longer
        made.came(STEP)
        assert left(timer) == 30.0  # never earlier than it was
        assert made.seconds == 30.0


@pytest.mark.usefixtures("still")
async def test_a_peer_that_is_known_to_be_slow_gets_more_time() -> None:
    rate = 2048.0
    async with asyncio.timeout(1) as timer:
        made = watch(timer, rate)
        made.begins(STEP)
        assert left(timer) == GENEROUS * STEP / rate
        made.left(STEP)
        assert left(timer) == min(GENEROUS * (CAUTIOUS + UNSEEN) / rate, LONGEST * 10)
        made.sent(10 * BUFFERED)
        assert left(timer) == LONGEST * 10


@pytest.mark.parametrize(("rate", "piece"), [(None, CAUTIOUS), (2048.0, CAUTIOUS), (10e6, PIECE)])
async def test_pieces_are_large_only_where_they_are_known_to_move_soon(rate: float | None, piece: int) -> None:
    async with asyncio.timeout(1) as timer:
        assert watch(timer, rate).piece() == piece


async def test_what_has_run_out_is_not_revived() -> None:
    timer = asyncio.timeout(0)
    made = watch(timer)
    with pytest.raises(TimeoutError):
        async with timer:
            await asyncio.sleep(3600)
    made.left(STEP)
    assert timer.expired()


# How long a piece may take, with a clock that a test moves.


KB = 1024


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def pace(least: float = 30.0) -> tuple[LinkSpeeds, Clock]:
    clock = Clock()
    return LinkSpeeds(least, clock), clock


def at_speed(made: LinkSpeeds, clock: Clock, rate: float, seconds: float) -> None:
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


def test_a_slow_link_gets_a_multiple_of_what_it_needs() -> None:
    made, clock = pace(30)
    assert (made.rate(PEER), made.allowed(PEER, 10**9)) == (None, 30)  # before anything was measured
    at_speed(made, clock, 4 * KB, 60)
    assert made.rate(PEER) == pytest.approx(4 * KB)
    assert made.allowed(PEER, 128 * KB) == pytest.approx(GENEROUS * 32)
    assert made.allowed(PEER, STEP) == 30  # 4 s, four times: less than the timeout
    assert made.allowed("10.0.0.2:4000", 128 * KB) == 30


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
    assert made.allowed(PEER, 128 * KB) == made.allowed(PEER, 4096 * KB) == 30


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
