"""When attempts end: the time that they have together, and the time in which something must move."""

from __future__ import annotations

import asyncio
import time

import pytest

from flnet.blob import PIECE
from flnet.transport.limits import BUFFERED, CAUTIOUS, UNSEEN, Budget, Watch, now
from flnet.transport.pace import GENEROUS, LONGEST, STEP, Pace

PEER = "10.0.0.1:4000"


class Even:
    """Chance that always gives the same."""

    def random(self) -> float:
        return 0.0


async def test_pauses_grow_until_no_time_is_left() -> None:
    budget = Budget(0.5, Even())
    began, pauses = now(), 0
    while await budget.pause():
        pauses += 1
    assert pauses == 2  # 0.05 s and 0.1 s; 0.2 s more would leave no time for an attempt of that length
    assert 0.15 <= now() - began < budget.deadline - began


async def test_a_budget_that_is_renewed_begins_with_the_shortest_pause() -> None:
    budget = Budget(0.3, Even())
    while await budget.pause():
        pass
    before = budget.deadline
    budget.renew()
    assert budget.deadline > before
    assert await budget.pause()


async def test_no_time_is_no_pause() -> None:
    assert not await Budget(0.0, Even()).pause()


async def test_a_pause_is_as_long_as_the_peer_asks_for_or_there_is_none() -> None:
    begun = now()
    assert await Budget(5.0, Even()).pause(0.3)
    assert now() - begun >= 0.3
    assert not await Budget(1.0, Even()).pause(1.0)


def watch(timer: asyncio.Timeout, rate: float | None = None, least: float = 10.0) -> Watch:
    pace = Pace(least, time.monotonic)
    if rate:
        pace.measured(PEER, 1_000_000, 1_000_000 / rate)
    return Watch(timer, pace, PEER)


def left(timer: asyncio.Timeout) -> float:
    return round((timer.when() or 0) - now(), 1)


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
