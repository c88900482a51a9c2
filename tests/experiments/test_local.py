"""Cells in processes of this machine: equal numbers with any number of them, and no process is left behind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from flnet.experiments.base import Cell, Outcome
from flnet.experiments.driving import run_together
from flnet.experiments.local import LocalEngine
from tests.experiments.cells import TOLD, cell

pytestmark = pytest.mark.slow


def numbers(engine: LocalEngine, cells: Sequence[Cell]) -> dict[str, Outcome]:
    """What came of the cells, without what differs from run to run."""
    return {
        one.key: outcome.model_copy(update={"seconds": 0.0, "processor_seconds": 0.0})
        for one, outcome in engine.run(cells)
    }


def children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children()}


def test_two_workers_give_what_one_gives_and_what_none_gives() -> None:
    cells = [
        *(cell(seed, together=2, partition="dirichlet:0.5") for seed in range(3)),
        cell(kind="lone"),
        cell(kind="central"),
        cell(901),
    ]
    before = children()
    one, two = (numbers(LocalEngine(TOLD, workers), cells) for workers in (1, 2))
    here = {
        each.key: run_together([each], TOLD)[0].model_copy(update={"seconds": 0.0, "processor_seconds": 0.0})
        for each in cells
    }
    assert one == two == here
    assert len({outcome.value("after.accuracy") for outcome in one.values()}) > 3
    assert children() == before


def test_progress_is_told_and_leaving_early_ends_the_workers() -> None:
    told: list[float] = []
    before = children()
    engine = LocalEngine(TOLD, 2, lambda at_work: told.extend(done for _, done in at_work.values()))
    run = engine.run([cell(seed, rounds=200) for seed in range(4)])
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert children() == before
    assert any(0 < done < 1 for done in told)


def test_a_process_knows_one_trainer(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "trainers" / "TINY.py").read_text("utf-8")
    by_process = text.replace("return DataInfo(self.place", "return DataInfo(str(os.getpid())")
    for name in ("ONE", "TWO"):
        (tmp_path / f"{name}.py").write_text(by_process, "utf-8")
    engine = LocalEngine(TOLD.model_copy(update={"trainers_path": tmp_path}), 1)
    cells = [cell(seed, trainer=name) for name in ("ONE", "TWO", "ONE") for seed in range(2)]
    where = [(one.setup.trainer, outcome.data) for one, outcome in engine.run(cells)]
    assert len(where) == 6
    assert len({process for _, process in where}) == len(set(where)) >= 2


def test_cells_of_a_worker_that_died_have_that_reason_and_others_go_on(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "trainers" / "TINY.py").read_text("utf-8")
    dying = "if task.hyper.e == 9:\n            os._exit(7)\n        w, b = task.params"
    (tmp_path / "DYING.py").write_text(text.replace("w, b = task.params", dying), "utf-8")
    engine = LocalEngine(TOLD.model_copy(update={"trainers_path": tmp_path}), 1)
    cells = [cell(seed, trainer="DYING", epochs=epochs) for seed, epochs in enumerate([1, 9, 1])]
    reasons = {one.seed: outcome.reason for one, outcome in engine.run(cells)}
    assert reasons == {0: "", 1: "the process that trained it ended with code 7", 2: ""}
