"""Virtual time: scheduled calls, the timers of one node, and coroutines that sleep by the virtual clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flnet.simulation.clock import Died, LocalClock, Pause, Promise, Tasks, VirtualClock


class Log:
    """A virtual clock, the timers of one node, and what they called when."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers = LocalClock(self.clock)
        self.entries: list[tuple[float, str]] = []
        self.fired: list[tuple[float, str, float]] = []

    def call(self, name: str) -> Callable[[], None]:
        return lambda: self.entries.append((self.clock.now, name))

    def fire(self, name: str) -> Callable[[float], None]:
        return lambda late: self.fired.append((self.clock.now, name, late))


# The virtual clock.


def test_calls_run_in_order_of_time_and_then_of_scheduling() -> None:
    log = Log()
    for seconds, name in ((2, "c"), (1, "a"), (1, "b")):
        log.clock.after(seconds, log.call(name))

    def later() -> None:
        log.clock.after(0.5, log.call("scheduled by a call"))

    log.clock.after(3, later)
    log.clock.run()
    assert log.entries == [(1, "a"), (1, "b"), (2, "c"), (3.5, "scheduled by a call")]


def test_a_cancelled_call_does_not_run_and_cancelling_twice_or_too_late_does_nothing() -> None:
    log = Log()
    never, first = log.clock.after(1, log.call("never")), log.clock.after(1, log.call("first"))
    for _ in range(2):
        log.clock.cancel(never)
    log.clock.run()
    log.clock.cancel(first)
    log.clock.after(1, log.call("second"))
    log.clock.run()
    assert log.entries == [(1, "first"), (2, "second")]


def test_it_stops_at_a_condition_or_at_a_limit() -> None:
    log = Log()
    for seconds in (1, 2, 3, 10):
        log.clock.after(seconds, log.call("x"))
    log.clock.run(lambda: len(log.entries) == 2)
    assert (log.clock.now, len(log.entries)) == (2, 2)
    log.clock.run(limit=4)
    assert (log.clock.now, len(log.entries)) == (4, 3)
    log.clock.run(limit=10)
    assert len(log.entries) == 4


def test_background_calls_do_not_keep_it_running_but_run_until_a_time() -> None:
    log = Log()

    def again() -> None:
        log.call("tick")()
        log.clock.after(1, again, background=True)

    log.clock.after(1, again, background=True)
    log.clock.after(2.5, log.call("work"))
    log.clock.run()
    assert [name for _, name in log.entries] == ["tick", "tick", "work"]
    log.clock.run_to(5)
    assert (log.clock.now, log.entries[3:]) == (5, [(3, "tick"), (4, "tick"), (5, "tick")])
    log.clock.clear()
    log.clock.after(5, log.call("tick"), background=True)
    log.clock.run()
    assert (log.clock.now, len(log.entries)) == (5, 6)


# Timers of one node.


def test_a_timer_fires_in_time_unless_it_is_replaced_cancelled_or_closed() -> None:
    log = Log()
    log.timers.set("a", 2.0, log.fire("replaced"))
    log.timers.set("a", 3.0, log.fire("a"))
    log.timers.set("b", 1.0, log.fire("cancelled"))
    for name in ("b", "unknown"):
        log.timers.cancel(name)
    log.clock.run()
    log.timers.set("c", 1.0, log.fire("closed"))
    log.timers.close()
    log.clock.run_to(9.0)
    assert log.fired == [(3.0, "a", 0.0)]


@pytest.mark.parametrize(
    ("rate", "jump", "fires_at", "late"),
    [
        (1.0, 0.0, 3.0, 0.0),
        (2.0, 0.0, 1.5, 0.0),
        (1.0, -4.0, 7.0, 0.0),
        (1.0, 2.0, 1.0, 0.0),
        (1.0, 4.0, 0.0, 1.0),
    ],
)
def test_a_clock_that_is_fast_or_jumps_fires_at_another_time(
    rate: float, jump: float, fires_at: float, late: float
) -> None:
    log = Log()
    log.timers.rate = rate
    log.timers.set("a", 3.0, log.fire("a"))
    log.timers.jump(jump)
    log.clock.run()
    assert log.fired == [(fires_at, "a", late)]


def test_timers_that_come_due_in_a_stall_fire_late_and_in_order() -> None:
    log = Log()
    log.timers.stop()
    for name, seconds in (("b", 2.0), ("a", 1.0), ("c", 9.0)):
        log.timers.set(name, seconds, log.fire(name))
    log.clock.run_to(5.0)
    assert log.fired == []
    log.timers.resume()
    log.clock.run()
    assert log.fired == [(5.0, "a", 4.0), (5.0, "b", 3.0), (9.0, "c", 0.0)]


def test_timers_without_a_name_are_independent_and_in_the_background() -> None:
    log = Log()
    log.timers.after(1.0, log.fire("a"))
    log.timers.cancel(log.timers.after(1.0, log.fire("b")))
    log.clock.run()
    assert log.fired == []
    log.clock.run_to(2.0)
    assert log.fired == [(1.0, "a", 0.0)]


# Coroutines.


async def count(seen: list[float], clock: VirtualClock, times: int = 3) -> None:
    for _ in range(times):
        seen.append(clock.now)
        await Pause(1.0)
    seen.append(clock.now)


def test_coroutines_start_at_once_and_sleep_by_the_virtual_clock() -> None:
    clock, seen, background = VirtualClock(), list[float](), list[float]()
    tasks = Tasks(clock)
    tasks.spawn(count(background, clock), background=True)
    clock.run()
    assert background == [0.0]
    tasks.spawn(count(seen, clock))
    clock.run()
    assert seen == background == [0.0, 1.0, 2.0, 3.0]


def test_coroutines_neither_start_nor_continue_in_a_stall() -> None:
    clock, first, second = VirtualClock(), list[float](), list[float]()
    tasks = Tasks(clock)
    tasks.spawn(count(first, clock))
    tasks.stop()
    tasks.spawn(count(second, clock, times=0))
    clock.run_to(5.0)
    assert (first, second) == ([0.0], [])
    tasks.resume()
    assert (first, second) == ([0.0, 5.0], [5.0])
    clock.run()
    assert first == [0.0, 5.0, 6.0, 7.0]


def test_coroutines_are_aborted_with_their_node() -> None:
    clock, seen, ended = VirtualClock(), list[float](), list[str]()

    async def work() -> None:
        try:
            await count(seen, clock)
        finally:
            ended.append("closed")

    tasks = Tasks(clock)
    tasks.spawn(work())
    tasks.close()
    clock.run()
    assert (seen, ended) == ([0.0], ["closed"])


def test_a_promise_has_one_outcome_and_passes_on_exceptions() -> None:
    outcomes: list[object] = []
    kept, broken = Promise(outcomes.append, outcomes.append), Promise(outcomes.append, outcomes.append)
    assert not kept.done()
    kept.set_result(None)
    kept.cancel()
    broken.cancel()
    broken.set_exception(ValueError())
    assert kept.done() and broken.done()
    assert [type(outcome) for outcome in outcomes] == [type(None), Died]

    def fails(_: object) -> None:
        raise AssertionError("seen")

    with pytest.raises(AssertionError, match="seen"):
        Promise(fails, fails).set_result(None)
