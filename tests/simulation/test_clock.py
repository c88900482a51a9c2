"""A clock that stands still until the next thing happens."""

from __future__ import annotations

from collections.abc import Callable

from flnet.simulation import VirtualClock


class Diary:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.entries: list[tuple[float, str]] = []

    def writes(self, what: str) -> Callable[[], None]:
        return lambda: self.entries.append((self.clock.now, what))


def test_things_happen_in_order_of_time_and_equal_times_in_order_of_appointment() -> None:
    d = Diary()
    for seconds, what in ((2, "c"), (1, "a"), (1, "b")):
        d.clock.after(seconds, d.writes(what))
    d.clock.run()
    assert d.entries == [(1, "a"), (1, "b"), (2, "c")]


def test_what_happens_may_make_new_appointments() -> None:
    d = Diary()

    def first() -> None:
        d.clock.after(0.5, d.writes("later"))

    d.clock.after(1, first)
    d.clock.run()
    assert d.entries == [(1.5, "later")]


def test_a_cancelled_appointment_does_not_happen() -> None:
    d = Diary()
    made = d.clock.after(1, d.writes("never"))
    d.clock.cancel(made)
    d.clock.cancel(made)
    d.clock.after(2, d.writes("this"))
    d.clock.run()
    assert d.entries == [(2, "this")]


def test_to_cancel_what_is_over_changes_nothing() -> None:
    d = Diary()
    made = d.clock.after(1, d.writes("a"))
    d.clock.run()
    d.clock.cancel(made)
    d.clock.after(1, d.writes("b"))
    d.clock.run()
    assert [what for _, what in d.entries] == ["a", "b"]


def test_it_stops_when_that_holds_for_which_it_runs() -> None:
    d = Diary()
    for seconds in (1, 2, 3):
        d.clock.after(seconds, d.writes("x"))
    d.clock.run(lambda: len(d.entries) == 2)
    assert (d.clock.now, len(d.entries)) == (2, 2)


def test_it_stops_at_the_limit() -> None:
    d = Diary()
    d.clock.after(10, d.writes("x"))
    d.clock.run(limit=4)
    assert (d.clock.now, d.entries) == (4, [])
    d.clock.run(limit=10)
    assert d.entries == [(10, "x")]


def test_background_does_not_keep_it_going() -> None:
    d = Diary()

    def again() -> None:
        d.writes("tick")()
        d.clock.after(1, again, background=True)

    d.clock.after(1, again, background=True)
    d.clock.after(2.5, d.writes("work"))
    d.clock.run()
    assert [what for _, what in d.entries] == ["tick", "tick", "work"]


def test_running_to_a_time_lets_background_happen_too() -> None:
    d = Diary()
    d.clock.after(1, d.writes("tick"), background=True)
    d.clock.after(9, d.writes("later"))
    d.clock.run_to(5)
    assert (d.clock.now, d.entries) == (5, [(1, "tick")])


def test_what_is_forgotten_does_not_happen_and_keeps_nothing_going() -> None:
    clock, happened = VirtualClock(), list[str]()
    clock.after(1.0, lambda: happened.append("old"))
    clock.clear()
    clock.after(5.0, lambda: happened.append("background"), background=True)
    clock.run()
    assert (happened, clock.now) == ([], 0.0)
