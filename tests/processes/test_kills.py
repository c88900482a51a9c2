"""A few of the kills of `python -m tests.processes.kills`, at points that are drawn for each seed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from flnet.rounds.steps import Phase
from tests.ports import free_port
from tests.processes.campaign import ANYWHERE, OTHER, RETURNING, STARTER
from tests.processes.crashing import Point, arm
from tests.processes.kills import plan, run, table


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_mesh_survives_kills_at_any_step_and_loses_no_update_that_was_taken(kills: int, tmp_path: Path) -> None:
    report = run(kills, 1, tmp_path, free_port(), "thread")
    print(table(report))
    assert report.killed > 0
    assert report.taken > 0
    assert report.broken == []


def test_every_point_of_every_role_is_in_the_plan_and_random_times_too() -> None:
    points = {
        STARTER: [Point("before", "Save", phase.value) for phase in Phase],
        OTHER: [Point("after", "Send", phase.value) for phase in Phase],
        RETURNING: [ANYWHERE],
    }
    everything = {(role, point) for role, found in points.items() for point in found}
    planned = plan(points, Random(1))
    first = [next(planned) for _ in range(len(everything) * 7 // 6)]
    assert everything <= set(first)
    assert any(point == ANYWHERE for role, point in first if role != RETURNING)


def test_a_point_is_written_in_one_piece(tmp_path: Path) -> None:
    arm(tmp_path / "point", Point("before", "Save", "IDLE"), 7)
    assert (tmp_path / "point").read_text() == "before Save IDLE 7"
    assert [path.name for path in tmp_path.iterdir()] == ["point"]
