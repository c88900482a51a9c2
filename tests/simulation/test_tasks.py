"""Coroutines of a simulated node wait by the virtual clock, stand still with its loop, and end with it."""

from __future__ import annotations

import pytest

from flnet.simulation.clock import VirtualClock
from flnet.simulation.disk import Pause
from flnet.simulation.tasks import Died, Promise, Tasks


async def counting(seen: list[float], clock: VirtualClock, times: int = 3) -> None:
    for _ in range(times):
        seen.append(clock.now)
        await Pause(1.0)
    seen.append(clock.now)


def test_they_begin_at_once_and_wait_by_the_virtual_clock() -> None:
    clock, seen = VirtualClock(), list[float]()
    Tasks(clock).spawn(counting(seen, clock))
    assert seen == [0.0]
    clock.run()
    assert seen == [0.0, 1.0, 2.0, 3.0]


def test_in_the_background_they_do_not_keep_the_simulation_going() -> None:
    clock, seen = VirtualClock(), list[float]()
    Tasks(clock).spawn(counting(seen, clock), background=True)
    clock.run()
    assert seen == [0.0]
    clock.run_to(1.5)
    assert seen == [0.0, 1.0]


def test_while_the_loop_stands_still_none_goes_on_and_none_begins() -> None:
    clock, first, second = VirtualClock(), list[float](), list[float]()
    tasks = Tasks(clock)
    tasks.spawn(counting(first, clock))
    tasks.stop()
    tasks.spawn(counting(second, clock, times=0))
    clock.run_to(5.0)
    assert (first, second) == ([0.0], [])
    tasks.go_on()
    assert (first, second) == ([0.0, 5.0], [5.0])
    clock.run()
    assert first == [0.0, 5.0, 6.0, 7.0]


def test_when_it_is_killed_none_goes_on() -> None:
    clock, seen, ended = VirtualClock(), list[float](), list[str]()

    async def holding() -> None:
        try:
            await counting(seen, clock)
        finally:
            ended.append("closed")

    tasks = Tasks(clock)
    tasks.spawn(holding())
    tasks.close()
    clock.run()
    assert (seen, ended) == ([0.0], ["closed"])


def test_a_promise_is_kept_or_broken_once() -> None:
    told: list[object] = []
    kept = Promise(told.append, told.append)
    assert not kept.done()
    kept.set_result(None)
    kept.cancel()
    assert (kept.done(), told) == (True, [None])
    broken = Promise(told.append, told.append)
    broken.cancel()
    broken.set_exception(ValueError())
    assert broken.done()
    assert [type(one) for one in told[1:]] == [Died]


def test_what_a_promise_calls_may_fail_and_is_heard_of() -> None:
    def fails(_: object) -> None:
        raise AssertionError("seen")

    with pytest.raises(AssertionError, match="seen"):
        Promise(fails, fails).set_result(None)
