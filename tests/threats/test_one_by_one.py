"""Attacks one after the other: the judgement of given figures, and one attack on real nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.threats.one_by_one import attacked, besieged
from tests.threats.stranger import MEGA
from tests.threats.watching import MOST_GROWTH, MOST_PEAK, MOST_TOLD, Found, faults

GOOD = Found(
    "replay",
    Counter({"403 signature_refused": 500}),
    Counter({"refused_here": 1}),
    rounds=9,
    seconds=0.5,
    quiet=0.4,
    memory=(80 * MEGA, 95 * MEGA, 90 * MEGA),
    health=(0.004, 0.02),
)


def test_an_attack_that_is_refused_cheaply_and_told_once_is_no_fault() -> None:
    assert faults(GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": Counter({"403": 499, "201": 1})}, "not refused"),
        ({"answers": Counter({"500 internal_error": 1})}, "not refused"),
        ({"answers": Counter({"403": 499, "no answer": 1})}, "not refused"),
        ({"answers": Counter()}, "nothing of it came"),
        ({"rounds": 0}, "no round"),
        ({"told": Counter({"refused_here": MOST_TOLD, "line of the log": 1})}, f"told {MOST_TOLD + 1} times"),
        ({"memory": (0, MOST_GROWTH + 1, MOST_GROWTH + 1)}, "memory"),
        ({"memory": (0, MOST_PEAK + 1, 0)}, "memory"),
    ],
)
def test_each_promise_that_is_broken_is_said(change: dict[str, Any], words: str) -> None:
    (said,) = faults(replace(GOOD, **change))
    assert said.startswith("replay: ") and words in said


@pytest.mark.slow
@pytest.mark.long
def test_a_mesh_trains_on_while_requests_are_replayed(tmp_path: Path) -> None:
    with besieged(tmp_path) as made:
        (found,) = attacked(made, 1.5, 50.0, only="replay")
    assert faults(found) == []
    assert set(found.answers) == {"403 signature_refused"}
