"""Which pictures a report draws."""

from __future__ import annotations

from pathlib import Path

from flnet.experiments.report_pictures import write_pictures
from flnet.experiments.summary import entries
from tests.experiments.reported import filled, outcome, small_plan


def test_curves_are_the_mean_of_the_nodes_and_bars_stop_where_there_are_no_numbers(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    there = entries(plan, cells, filled(tmp_path, cells))
    shown, _ = write_pictures(plan, there, [(cell, outcome(cell)) for cell in cells], [], tmp_path)
    assert [picture.kind for picture in shown] == ["bars accuracy", "bars bytes", "curves", "curves"]
    curve = (tmp_path / "pictures/curves-scene-after.accuracy.svg").read_text("utf-8")
    assert "agg0 (0.6100)" in curve  # of the last round, over three seeds
    bars = (tmp_path / "pictures/bars-accuracy.svg").read_text("utf-8")
    assert "scene" in bars
    assert "lost" not in bars
    assert "published" in bars


def test_a_single_round_is_no_curve(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = [cell for cell in plan.cells() if cell.row == "scene"]
    one = {"after.accuracy": ((0.5,), (0.6,))}
    done = [(cell, outcome(cell).model_copy(update={"curves": one})) for cell in cells]
    shown, _ = write_pictures(plan, [], done, [], tmp_path)
    assert shown == []
