"""Schedules: what is read of them, when they start rounds, and when a node stays out of those of others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage, JobBusy
from flnet.node.performer import restored_of
from flnet.protocol.effects import Evaluate, Save, Send, Train
from flnet.protocol.events import (
    DataChanged,
    Evaluated,
    EvaluationFailed,
    Planned,
    RoundTriggered,
    WillingnessChanged,
)
from flnet.protocol.messages import ModelParams
from flnet.rounds.schedule import DAY, Arrived, Facts, Measured, Moment, Next, Schedule, Window
from flnet.rounds.series import OwnSchedule
from flnet.rounds.steps import Phase
from flnet.store.base import SavedJob
from tests.helpers import params
from tests.rounds.helpers import Bench, asked, declaration

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


@pytest.mark.parametrize("words", ["between 22:00-06:00", "load<=0.8, battery>=30"])
def test_conditions_alone_are_refused_because_nothing_would_start(words: str) -> None:
    with pytest.raises(InvalidMessage, match="nothing starts one; add every, new or drift, such as") as refused:
        Schedule.asked(words)
    assert f'"every 6h, {Schedule.parse(words)}"' in str(refused.value)


@pytest.mark.parametrize("words", ["never", "every 6h", "new 1, load<=0.8", "between 22:00-06:00, decline"])
def test_what_starts_or_declines_rounds_is_taken(words: str) -> None:
    assert Schedule.asked(words) == Schedule.parse(words)


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
        schedule = Schedule.parse(words)
    except InvalidMessage:
        return
    assert Schedule.parse(str(schedule)) == schedule


@given(st.floats(1, 366, exclude_max=True), st.sampled_from("smhd"), st.floats(0, 1), st.floats(0, 1))
def test_numbers_survive_being_written(number: float, unit: str, drift: float, load: float) -> None:
    schedule = Schedule.parse(f"every {number:.3f}{unit}, drift 0{f'{drift:.9f}'[1:]}, load<={load:.6f}")
    assert Schedule.parse(str(schedule)) == schedule


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
    schedule = Schedule.parse("new 9, drift 0.1").next_start(Facts(0, new_examples=4), at(0))
    words = "when new examples have come: 4 of 9 so far; when accuracy on new test rows falls by more than 0.1"
    assert schedule == Next(None, words)
    low = Schedule.parse("new 1, battery>=50").next_start(Facts(0, 1), at(0, battery=20))
    assert low == Next(None, "1 new example has come; it waits: the battery is below 50 %")


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


# --- Examples that arrive between rounds: they are counted once, and the model is measured on them.


def rows(test: int, added: int) -> DataChanged:
    return DataChanged(
        declaration(data={"source": "rows", "rows": {"train": 70, "test": test}}), params(w=[9, 9]), added
    )


def trained_once(test: int = 40, accuracy: float = 0.75) -> Bench:
    """A job whose model has this accuracy on so many test rows; its round is over."""
    bench = Bench(peers=[], data={"source": "rows", "rows": {"train": 70, "test": test}})
    bench.hear(RoundTriggered())
    bench.train()
    bench.average()
    bench.measure(accuracy)
    assert bench.phase is Phase.IDLE
    return bench


def test_arrivals_add_up_until_the_next_training_and_not_beyond() -> None:
    bench = trained_once()
    bench.hear(rows(42, added=10))
    bench.hear(rows(45, added=15))
    assert bench.job.arrivals.arrived.rows == 25
    bench.hear(RoundTriggered())
    bench.one(Train)
    assert bench.job.arrivals.arrived == Arrived()


def test_the_accuracy_on_new_test_rows_is_what_is_left_of_that_on_all() -> None:
    bench = trained_once(test=40, accuracy=0.75)  # 30 of 40 are right
    bench.hear(rows(50, added=30))
    measure = bench.one(Evaluate)
    bench.hear(Evaluated(measure.key, measure.shared.digest, 34 / 50))  # so 4 of the 10 new ones are
    assert bench.job.arrivals.arrived.base == Measured(0.75, 40)
    assert bench.job.arrivals.arrived.fresh is not None
    assert bench.job.arrivals.arrived.fresh.rows == 10
    assert bench.job.arrivals.arrived.fresh.accuracy == pytest.approx(0.4)
    assert bench.published["fresh_measured"] == "accuracy on 10 new test rows 0.4000; the last one was 0.7500"
    assert bench.job.held.accuracy == 0.75  # what peers are told stays that of the round
    bench.hear(rows(60, added=30))
    again = bench.one(Evaluate)
    bench.hear(Evaluated(again.key, again.shared.digest, 45 / 60))  # 15 of the 20 that came in all
    assert bench.job.arrivals.arrived.fresh == Measured(0.75, 20)


def test_what_cannot_be_measured_is_counted_all_the_same() -> None:
    bench = trained_once()
    bench.hear(rows(50, added=30))
    measure = bench.one(Evaluate)
    bench.hear(EvaluationFailed(measure.key, measure.shared.digest, "gone"))
    assert (bench.job.arrivals.arrived.rows, bench.job.arrivals.arrived.fresh) == (30, None)


def test_nothing_is_measured_without_a_last_accuracy_or_without_new_test_rows() -> None:
    fresh = Bench(peers=[])
    fresh.hear(rows(50, added=30))
    assert (fresh.all(Evaluate), fresh.job.arrivals.arrived.rows) == ([], 30)
    bench = trained_once(test=40)
    bench.hear(rows(40, added=3))
    assert (bench.all(Evaluate), bench.job.arrivals.arrived.rows) == ([], 3)


def test_data_in_place_of_the_old_ones_are_no_arrivals() -> None:
    bench = trained_once()
    bench.hear(rows(50, added=30))
    bench.hear(rows(80, added=0))
    assert (bench.job.arrivals.arrived, bench.all(Evaluate)) == (Arrived(), [])


def test_what_arrives_twice_in_a_round_is_counted_when_it_is_over() -> None:
    bench = trained_once()
    bench.hear(RoundTriggered())
    bench.hear(rows(42, added=10))
    bench.hear(rows(44, added=5))
    assert bench.job.arrivals.arrived.rows == 0
    bench.train()
    bench.average()
    bench.measure(0.8)
    assert (bench.phase, bench.job.arrivals.arrived.rows) == (Phase.IDLE, 15)


def test_schedule_and_arrivals_outlive_a_restart() -> None:
    bench = trained_once()
    bench.hear(Planned("every 6h", 12.5))
    bench.hear(rows(50, added=30))
    saved = bench.all(Save)[-1]
    json.dumps(dict(saved.snapshot))
    again = Bench(peers=[], prepare=False)
    again.hear(restored_of(SavedJob(saved.snapshot, params(w=[1, 1]))))
    assert again.job.series.plan == OwnSchedule("every 6h", 12.5)
    assert again.job.arrivals.arrived == bench.job.arrivals.arrived


def test_a_state_of_before_there_were_schedules_is_read() -> None:
    saved = trained_once().job.save()
    old = {name: value for name, value in saved.snapshot.items() if name not in ("plan", "arrived")}
    again = Bench(peers=[], prepare=False)
    again.hear(restored_of(SavedJob(old, params(w=[1, 1]))))
    assert (again.job.series.plan, again.job.arrivals.arrived) == (OwnSchedule(), Arrived())


def test_a_person_is_told_once_of_a_schedule() -> None:
    bench = Bench()
    bench.hear(Planned("new 5", 1.0))
    assert bench.published["scheduled"] == "the schedule is new 5"
    bench.hear(Planned("new 5", 9.0))
    assert ("scheduled" in bench.published, len(bench.all(Save))) == (False, 1)
    bench.hear(Planned(None, 9.0))
    assert bench.published["scheduled"] == "the schedule of this node counts again"


def test_a_schedule_says_why_it_starts_a_round_and_the_record_keeps_it() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered(why="5 new examples have come"))
    assert bench.published["round_scheduled"] == "the schedule starts round 0: 5 new examples have come"
    bench.train()
    bench.average()
    bench.measure()
    assert bench.job.records()[0]["why"] == "5 new examples have come"


def test_a_schedule_never_forces_an_average() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    with pytest.raises(JobBusy, match="a schedule forces no average"):
        bench.hear(RoundTriggered(why="6h have passed"))


def test_an_unwilling_node_declines_rounds_of_others_at_once_and_trains_in_its_own() -> None:
    bench = Bench()
    bench.hear(WillingnessChanged("outside of the hours 22:00-06:00"))
    assert bench.hear(WillingnessChanged("outside of the hours 22:00-06:00")) == []
    bench.hear(asked("a"))
    assert (bench.phase, bench.said(ModelParams).declined) == (Phase.GATHERING, "outside of the hours 22:00-06:00")
    other = Bench()
    other.hear(WillingnessChanged("the battery is below 30 %"))
    other.hear(RoundTriggered(rounds=2))  # a person's word counts
    assert other.phase is Phase.TRAINING
    other.hear(WillingnessChanged())
    assert other.published["willing"] == "takes part in rounds of others again"
    assert other.all(Send) == []
