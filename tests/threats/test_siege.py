"""The siege: its judgement of given figures, and a short one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.threats.siege import (
    MOST_GROWTH,
    MOST_LOG,
    MOST_WAIT,
    REFUSED_SECONDS,
    Seen,
    besiege,
    damage,
    described,
    misses,
    training,
)
from tests.threats.stranger import MEGA

CALM = Seen(waits=[0.01] * 200, memory=[95 * MEGA, 96 * MEGA], log=20_000, rounds=40, seconds=60.0)
SIEGE = Seen(waits=[0.05] * 200, memory=[120 * MEGA, 130 * MEGA], log=400_000, rounds=300, seconds=600.0)


def test_a_siege_that_the_node_stands_misses_no_bound() -> None:
    assert misses(CALM, SIEGE) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"waits": [0.05] * 190 + [MOST_WAIT + 0.1] * 10}, "the operator waited 1.10 s at p99"),
        ({"memory": [96 * MEGA + MOST_GROWTH + MEGA, 100 * MEGA]}, "memory grew by 151 MB"),
        ({"log": 2 * MOST_LOG}, "2.00 MB were added to the log"),
        ({"rounds": 8}, "0.8 rounds per minute, 40.0 in a calm time"),
        ({"restarts": 2}, "series was cut short 2 times"),
        ({"tracebacks": 1}, "1 tracebacks"),
        ({"waits": [0.05] * 200 + [REFUSED_SECONDS + 0.1]}, "refused 1 times"),
    ],
)
def test_each_bound_that_is_missed_is_said(change: dict[str, Any], words: str) -> None:
    (said,) = misses(CALM, replace(SIEGE, **change))
    assert words in said


def test_the_figures_stand_beside_those_of_a_calm_time() -> None:
    lines = described(CALM, SIEGE, {"replay": Counter({"403 signature_refused": 5, "closed": 1})})
    assert "| replay | 5 x 403 signature_refused, 1 x closed |" in lines
    assert "| the operator's wait, p99, s | 0.010 | 0.050 | 1 |" in lines
    assert "| memory at most, MB | 96 | 130 | +150 |" in lines


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_node_that_is_attacked_in_all_ways_at_once_answers_keeps_its_memory_and_trains_on(
    tmp_path: Path,
) -> None:
    with training(tmp_path) as made:
        calm, siege, answers = besiege(made, seconds=120.0, calm_seconds=20.0)
    assert damage(calm, siege) == []
    assert siege.rounds >= 3
    assert all(told.total() for told in answers.values()), answers
