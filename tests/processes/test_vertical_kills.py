"""Some of the kills of `python -m tests.processes.vertical_kills`: holders of a vertical job, at each stage of an epoch."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.ports import free_port
from tests.processes.vertical_kills import POINTS, Kill, plan, run, table


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_killed_holders_lose_at_most_an_epoch_and_no_batch_is_trained_by_one_side_alone(
    kills: int, tmp_path: Path
) -> None:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    outcome = run(kills, 1, tmp_path, free_port(), "thread")
    print(table(outcome))
    assert len(outcome.kills) == kills
    assert outcome.epochs > kills
    assert outcome.broken == []


def test_each_stage_of_each_holder_is_in_the_plan() -> None:
    planned = plan(Random(1))
    kills = {next(planned) for _ in range(20)}
    stages = (*POINTS, "any")
    both = (False, True)
    assert kills == {Kill(stage, has_label, begins) for stage in stages for has_label in both for begins in both}
