"""The clock of one node: late, fast, slow, and jumping."""

from __future__ import annotations

from collections.abc import Callable

from flnet.simulation import VirtualClock
from flnet.simulation.local_clock import LocalClock


class Watch:
    def __init__(self) -> None:
        self.true = VirtualClock()
        self.own = LocalClock(self.true)
        self.fired: list[tuple[float, str, float]] = []

    def act(self, what: str) -> Callable[[float], None]:
        return lambda late: self.fired.append((self.true.now, what, late))


def test_a_timer_fires_in_time_and_not_late() -> None:
    w = Watch()
    w.own.set("a", 2.0, w.act("a"))
    w.true.run()
    assert w.fired == [(2.0, "a", 0.0)]


def test_one_of_the_same_name_takes_its_place_and_a_cancelled_one_is_gone() -> None:
    w = Watch()
    w.own.set("a", 2.0, w.act("first"))
    w.own.set("a", 3.0, w.act("second"))
    w.own.set("b", 1.0, w.act("b"))
    w.own.cancel("b")
    w.own.cancel("c")
    w.true.run()
    assert w.fired == [(3.0, "second", 0.0)]


def test_a_clock_that_runs_twice_as_fast_fires_after_half_the_time() -> None:
    w = Watch()
    w.own.rate = 2.0
    w.own.set("a", 3.0, w.act("a"))
    w.true.run()
    assert w.fired == [(1.5, "a", 0.0)]


def test_a_jump_ahead_makes_timers_fire_earlier_and_says_by_how_much_they_are_late() -> None:
    w = Watch()
    w.own.set("short", 3.0, w.act("short"))
    w.own.set("long", 10.0, w.act("long"))
    w.own.jump(4.0)
    w.true.run()
    assert w.fired == [(0.0, "short", 1.0), (6.0, "long", 0.0)]


def test_a_jump_back_makes_them_wait_longer() -> None:
    w = Watch()
    w.own.set("a", 3.0, w.act("a"))
    w.own.jump(-4.0)
    w.true.run()
    assert w.fired == [(7.0, "a", 0.0)]


def test_while_the_loop_stands_still_nothing_fires_and_then_all_is_late_in_its_order() -> None:
    w = Watch()
    w.own.stop()
    for what, seconds in (("b", 2.0), ("a", 1.0), ("c", 9.0)):
        w.own.set(what, seconds, w.act(what))
    w.true.run_to(5.0)
    assert w.fired == []
    w.own.go_on()
    w.true.run()
    assert w.fired == [(5.0, "a", 4.0), (5.0, "b", 3.0), (9.0, "c", 0.0)]


def test_timers_without_a_name_do_not_disturb_each_other_nor_keep_the_simulation_going() -> None:
    w = Watch()
    w.own.after(1.0, w.act("a"))
    w.own.cancel(w.own.after(1.0, w.act("b")))
    w.true.run()
    assert w.fired == []
    w.true.run_to(2.0)
    assert w.fired == [(1.0, "a", 0.0)]


def test_after_its_end_nothing_fires() -> None:
    w = Watch()
    w.own.set("a", 1.0, w.act("a"))
    w.own.close()
    w.true.run_to(2.0)
    assert w.fired == []
