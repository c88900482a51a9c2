"""Schedules: what is read of them, when they start rounds, and when a node stays out of those of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage
from flnet.policies.schedule import DAY, Facts, Moment, Next, Schedule, Window

HOUR = 3600.0


def at(hour: float, now: float = 0.0, **more: float) -> Moment:
    return Moment(now, hour * HOUR, **more)


@pytest.mark.parametrize(
    ("words", "schedule", "plain"),
    [
        ("", Schedule(), "never"),
        (" Never ", Schedule(), "never"),
        ("every 6h", Schedule(every=6 * HOUR), "every 6h"),
        ("every 90 min", Schedule(every=5400), "every 90m"),
        ("every 1.5h", Schedule(every=5400), "every 90m"),
        ("EVERY 2d,new 100", Schedule(every=2 * DAY, new=100), "every 2d, new 100"),
        ("drift .05", Schedule(drift=0.05), "drift 0.05"),
        (
            "new 1, between 22:00 - 6:00, battery>=30%, load <= 0.8, decline",
            Schedule(new=1, window=Window(1320, 360), battery=30, load=0.8, declines=True),
            "new 1, between 22:00-06:00, battery>=30, load<=0.8, decline",
        ),
        ("between 20:00-24:00", Schedule(window=Window(1200, 1440)), "between 20:00-24:00"),
    ],
)
def test_schedules_are_read_as_people_write_them_and_written_so_that_they_are_read_again(
    words: str, schedule: Schedule, plain: str
) -> None:
    assert (Schedule.parse(words), str(schedule)) == (schedule, plain)
    assert Schedule.parse(plain) == schedule


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("every", "expected parts such as"),
        ("every 0s", "not from 1 to"),
        ("every 9999d", "not from 1 to"),
        ("every 6h,", "expected parts"),
        ("every 6h, every 7h", "once"),
        ("new 0", "not from 1 to"),
        ("drift 1.1", "expected parts"),
        ("between 22:00", "expected parts"),
        ("between 24:30-25:00", "expected parts"),
        ("between 24:01-06:00", "not from 0 to 1439"),
        ("between 06:00-06:00", "whole day or nothing"),
        ("between 00:00-24:00", "whole day or nothing"),
        ("battery>=101", "not from 1 to 100"),
        ("load<=2", "not from 0 to 1"),
        ("every 6h, decline", "needs a condition"),
        ("every \u0666h", "expected parts"),
        ("x" * 201, "at most 200 characters"),
    ],
)
def test_what_is_no_schedule_is_refused_in_words(words: str, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        Schedule.parse(words)


@given(st.text(max_size=40))
def test_any_text_is_a_schedule_or_refused(words: str) -> None:
    try:
        found = Schedule.parse(words)
    except InvalidMessage:
        return
    assert Schedule.parse(str(found)) == found


@given(st.floats(1, 366, exclude_max=True), st.sampled_from("smhd"), st.floats(0, 1), st.floats(0, 1))
def test_numbers_survive_being_written(number: float, unit: str, drift: float, load: float) -> None:
    found = Schedule.parse(f"every {number:.3f}{unit}, drift 0{f'{drift:.9f}'[1:]}, load<={load:.6f}")
    assert Schedule.parse(str(found)) == found


def test_a_window_over_midnight_holds_on_both_sides_of_it() -> None:
    window = Window(22 * 60, 6 * 60)
    assert [window.holds(hour * HOUR) for hour in (21.99, 22, 23.99, 0, 5.99, 6, 12)] == [
        *(False, True, True, True, True),
        *(False, False),
    ]
    assert (window.opens_in(12 * HOUR), window.opens_in(23 * HOUR)) == (10 * HOUR, 0)
    assert Window(60, 120).opens_in(3 * HOUR) == 22 * HOUR


@given(st.integers(0, 1439), st.integers(0, 1440), st.floats(0, DAY, exclude_max=True))
def test_a_window_holds_as_soon_as_it_has_opened(start: int, end: int, of_day: float) -> None:
    window = Window(start, end)
    if start != end % 1440:
        assert window.holds((of_day + window.opens_in(of_day) + 1e-6) % DAY)


def test_any_trigger_starts_a_round_and_says_on_which_numbers() -> None:
    schedule = Schedule.parse("every 6h, new 100, drift 0.05")
    quiet = Facts(since=0, new_examples=99, fresh_rows=10, fresh_accuracy=0.80, accuracy=0.84)
    assert schedule.due(quiet, at(12, now=6 * HOUR - 1)) == ""
    assert schedule.due(quiet, at(12, now=6 * HOUR)) == "6h have passed since the last round"
    assert schedule.due(Facts(0, new_examples=100), at(12)) == "100 new examples have come"
    worse = Facts(0, 99, 10, fresh_accuracy=0.78, accuracy=0.84)
    assert schedule.due(worse, at(12)) == "accuracy on 10 new test rows is 0.7800, the last one was 0.8400"


@pytest.mark.parametrize(
    "facts",
    [
        Facts(0, fresh_rows=9, fresh_accuracy=0.0, accuracy=1.0),  # too few
        Facts(0, fresh_rows=50, fresh_accuracy=None, accuracy=1.0),
        Facts(0, fresh_rows=50, fresh_accuracy=0.2, accuracy=None),  # nothing to compare with
        Facts(0, fresh_rows=50, fresh_accuracy=0.99, accuracy=0.9),  # better
    ],
)
def test_drift_needs_enough_rows_and_a_fall(facts: Facts) -> None:
    assert Schedule(drift=0.05).due(facts, at(12)) == ""


def test_a_trigger_outside_of_the_window_waits_until_it_opens() -> None:
    schedule, facts = Schedule.parse("new 5, between 22:00-06:00"), Facts(0, new_examples=5)
    assert schedule.due(facts, at(21)) == ""
    waits = "5 new examples have come; it waits: outside of the hours 22:00-06:00"
    assert schedule.next_start(facts, at(21)) == Next(HOUR, waits)
    assert schedule.due(facts, at(22)) == "5 new examples have come"
    assert schedule.next_start(facts, at(22)) == Next(0, "5 new examples have come")


def test_the_next_regular_start_is_moved_into_the_window() -> None:
    schedule = Schedule.parse("every 6h, between 22:00-06:00")
    assert schedule.next_start(Facts(0), at(20, now=HOUR)) == Next(5 * HOUR, "6h after the last round")
    assert schedule.next_start(Facts(0), at(3, now=HOUR)) == Next(19 * HOUR, "6h after the last round")
    assert Schedule(window=Window(0, 60)).next_start(Facts(0), at(0)) is None


def test_what_comes_by_chance_has_no_time() -> None:
    found = Schedule.parse("new 9, drift 0.1").next_start(Facts(0, new_examples=4), at(0))
    words = "when 9 new examples have come (4 so far); when accuracy on new test rows falls by more than 0.1"
    assert found == Next(None, words)
    low = Schedule.parse("new 1, battery>=50").next_start(Facts(0, 1), at(0, battery=20))
    assert low == Next(None, "1 new examples have come; it waits: the battery is below 50 %")


def test_battery_and_load_count_where_they_are_known() -> None:
    schedule = Schedule.parse("every 1s, battery>=30, load<=0.5")
    facts, later = Facts(0), 5.0
    assert schedule.due(facts, at(1, later))
    assert schedule.due(facts, at(1, later, battery=30, load=0.5))
    assert schedule.unmet(at(1, later, battery=29, load=0)) == "the battery is below 30 %"
    assert "more than 50 %" in schedule.unmet(at(1, later, load=0.51))
    assert not schedule.due(facts, at(1, later, load=0.51))


def test_only_who_said_so_declines_rounds_of_others() -> None:
    outside = at(12)
    assert Schedule.parse("between 22:00-06:00").unwilling(outside) == ""
    declining = Schedule.parse("between 22:00-06:00, decline")
    assert declining.unwilling(outside) == "outside of the hours 22:00-06:00"
    assert declining.unwilling(at(23)) == ""


@pytest.mark.parametrize("missing", [2.5, 26.0])
def test_an_hour_that_is_left_out_or_comes_twice_neither_starts_a_second_round_nor_loses_one(
    missing: float,
) -> None:
    """The local hour jumps (from 2 to 3, or back from 3 to 2) while the node's clock runs on."""
    schedule = Schedule.parse("every 12h, between 01:00-05:00")
    starts: list[float] = []
    since = 0.0
    for minute in range(0, 30 * 60):
        now = 60.0 * minute
        hour = now / HOUR + (1 if missing == 2.5 else -1) * (now / HOUR >= 2.5)
        if schedule.due(Facts(since - 12 * HOUR if not starts else since), at(hour % 24, now)):
            starts.append(now / HOUR)
            since = now
    assert [round(start) for start in starts] == ([1, 24] if missing == 2.5 else [1, 26])


def test_a_clock_that_was_put_back_waits_a_whole_interval() -> None:
    schedule = Schedule.parse("every 1h")
    assert schedule.due(Facts(since=10 * HOUR), at(1, now=2 * HOUR)) == ""
    assert schedule.next_start(Facts(since=10 * HOUR), at(1, now=2 * HOUR)) == Next(
        HOUR, "1h after the last round"
    )
