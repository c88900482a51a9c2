"""Schedules: drawn from a seed alone, made smaller, and readable."""

from __future__ import annotations

from flnet.membership import Pauses
from flnet.simulation.schedule import (
    DEEDS,
    ENDINGS,
    OF_SCHEDULES,
    WEATHER_FIELDS,
    Reduction,
    described,
    draw,
    words_of,
)
from flnet.simulation.weather import Weather


def test_a_seed_draws_the_same_schedule_always_and_another_one_another() -> None:
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_in_many_schedules_everything_happens() -> None:
    drawn = [draw(seed) for seed in range(300)]
    assert {action.deed for schedule in drawn for action in schedule.actions} == {*DEEDS, *OF_SCHEDULES}
    assert {schedule.ending for schedule in drawn} == set(ENDINGS)
    assert {schedule.ending for schedule in drawn if schedule.staleness} == set(ENDINGS)
    assert {schedule.size for schedule in drawn} == {5, 6, 7, 8, 9}
    assert all(0 <= action.size < 1 for schedule in drawn for action in schedule.actions)
    bad = {name for s in drawn for name in WEATHER_FIELDS if getattr(s.weather, name) != getattr(Weather(), name)}
    assert bad == set(WEATHER_FIELDS)
    assert all(schedule.actions[0].deed == "trigger" for schedule in drawn)


def test_where_a_tick_is_a_second_the_membership_has_its_usual_pace() -> None:
    usual = next(s for s in map(draw, range(100)) if s.tick == 1.0)
    assert usual.pauses == Pauses()


def test_a_reduction_leaves_what_it_names() -> None:
    whole = draw(3)
    less = Reduction(size=2, actions=(0, 2), mild=("delay", "duplicate")).of(whole)
    assert (less.size, less.seed) == (2, whole.seed)
    assert less.actions == (whole.actions[0], whole.actions[2])
    assert (less.weather.delay, less.weather.duplicate) == (Weather().delay, Weather().duplicate)
    assert less.weather.training == whole.weather.training
    assert Reduction().of(whole) == whole


def test_a_reduction_as_the_command_line_has_it() -> None:
    assert Reduction().options() == []
    full = Reduction(2, (), ("delay",))
    assert full.options() == ["--nodes", "2", "--actions", "none", "--mild", "delay"]
    assert Reduction(actions=(1, 4)).options() == ["--actions", "1,4"]


def test_a_schedule_can_be_read() -> None:
    schedule = draw(3)
    lines = described(schedule)
    assert lines[0].startswith(f"seed 3: {schedule.size} nodes")
    assert lines[1].startswith("weather: ")
    assert len(lines) == 2 + len(schedule.actions)
    assert words_of(schedule.actions[0], 5).startswith("trigger n0")
