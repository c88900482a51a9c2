"""Slopes in exact numbers, and bounds that are found broken."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.soak.growth import HOUR, Bounds, Sample, Slope, broken, memory_slope, risen, slope

STILL = Sample(0.0, "n0", 1, 0.0, 50_000_000, 20, 4, 9, 100_000, 0)


def samples(count: int = 360, restarts: int = 0, **per_hour: Any) -> list[Sample]:
    """One each ten seconds, with so much more of each figure per hour."""
    noise, length = Random(1), count // (restarts + 1)
    found = []
    for number in range(count):
        at, begin = number * 10.0, number // length * length
        age = at - begin * 10
        one: dict[str, Any] = {"at": at, "age": age, "process": begin, "rounds": number}
        one |= {name: int(getattr(STILL, name) + rate * age / HOUR) for name, rate in per_hour.items()}
        one["memory"] = one.get("memory", STILL.memory) + noise.randrange(200_000)
        found.append(replace(STILL, **one))
    return found


def test_the_slope_of_a_line_is_its_own() -> None:
    found = slope([[(x * 60.0, 5 + x / 60) for x in range(20)]])
    assert found is not None
    assert found.per_hour == pytest.approx(1.0)
    assert found.error == pytest.approx(0.0, abs=1e-6)


def test_series_with_different_levels_share_one_slope() -> None:
    found = slope([[(x * 60.0, level + x / 60) for x in range(10)] for level in (0, 100, -3)])
    assert found is not None
    assert found.per_hour == pytest.approx(1.0)


def test_few_points_give_no_slope() -> None:
    assert slope([[(float(x), 1.0) for x in range(9)]]) is None
    assert slope([]) is slope([[(1.0, 1.0)] * 50]) is None


def test_a_slope_counts_only_if_it_is_no_accident() -> None:
    assert Slope(1.0, 0.4).reaches(1.0)
    assert not Slope(1.0, 0.6).reaches(1.0)
    assert not Slope(0.9, 0.0).reaches(1.0)


@pytest.mark.parametrize("restarts", [0, 5])
def test_a_leak_is_seen_through_noise_and_restarts(restarts: int) -> None:
    found = memory_slope(samples(restarts=restarts, memory=2e6), warm_up=60)
    assert found is not None
    assert abs(found.per_hour - 2) < 3 * found.error + 0.2
    assert "memory rises" in broken("n0", samples(restarts=restarts, memory=3e6), 60, Bounds())[0]


def test_a_node_that_does_not_grow_breaks_no_bound() -> None:
    assert broken("n0", samples(), 60, Bounds()) == []
    assert broken("n0", samples(count=3), 60, Bounds()) == []


def test_the_beginning_of_a_process_does_not_count() -> None:
    rising = [replace(one, memory=one.memory + 40_000_000 * (one.age >= 60)) for one in samples()]
    assert broken("n0", rising, 60, Bounds()) == []
    assert broken("n0", rising, 0, Bounds()) != []


@pytest.mark.parametrize(
    ("figure", "rate", "word"), [("handles", 60.0, "handles"), ("files", 40.0, "files"), ("stored", 4e6, "bytes")]
)
def test_what_else_grows_is_named(figure: str, rate: float, word: str) -> None:
    (told,) = broken("n0", samples(200, 0, **{figure: rate}), 60, Bounds())
    assert word in told


def test_rises_are_those_of_the_largest() -> None:
    assert risen([1, 9, 1, 1, 1, 1, 1, 9, 1]) == 0
    assert risen([1, 2, 5, 6, 7, 8]) == 6
    assert risen([1, 2]) == 0
