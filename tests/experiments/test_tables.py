"""The tables that flnet ships: their cells are those of their sources."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flnet.experiments.driving import run_together
from flnet.experiments.plan import find_plan, shipped
from flnet.settings import Settings

SEEDS = {
    **{"scene": 30, "yeast": 30, "HumanPseAAC": 5, "20NG": 8, "tmc2007_500": 30, "slashdot": 5},
    **{"YahooEducation": 5, "mediamill": 30, "reutersK500": 5, "Corel5k": 31},
}


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_table_has_cells_that_are_right(name: str) -> None:
    plan = find_plan(name)
    cells = plan.cells()
    assert cells
    assert len(plan.cells(quick=True)) <= len(cells)


@pytest.mark.parametrize("name", ["mlfedavg", "mlfedavg-corrected"])
def test_mlfedavg_has_the_thesis_data_sets_seeds_and_means(name: str) -> None:
    plan = find_plan(name)
    cells = plan.cells()
    assert Counter(cell.row for cell in cells) == {row: 4 * count for row, count in SEEDS.items()}
    assert sum(SEEDS.values()) == 179
    assert len(plan.published) == 10 * 4 * 4
    at = {(one.row, one.column, one.measure): one.value for one in plan.published}
    assert at["scene", "agg0", "F1-CTG"] == 0.7520
    assert at["reutersK500", "agg2", "SA-CTG"] == 0.3292
    assert at["Corel5k", "alone", "SA-CTL"] == 0.1984
    labels = {row.name: sum(row.says["options"]["deal"]) for row in plan.rows}
    assert labels == {
        **{"scene": 6, "yeast": 14, "HumanPseAAC": 14, "20NG": 20, "tmc2007_500": 22, "slashdot": 22},
        **{"YahooEducation": 33, "mediamill": 101, "reutersK500": 103, "Corel5k": 374},
    }
    assert all(row.says["nodes"] == len(row.says["options"]["deal"]) for row in plan.rows)
    assert all(cell.setup.options["draws"] == "notebook" for cell in cells)
    assert [cell.seed for cell in cells if (cell.row, cell.column) == ("reutersK500", "agg0")] == [1, 2, 3, 4, 40]
    assert {cell.seed for cell in cells if cell.row == "Corel5k"} == set(range(31))


def test_the_two_forms_of_mlfedavg_differ_where_their_words_say_so() -> None:
    notebook, corrected = (
        {(cell.row, cell.column, cell.seed): cell.setup for cell in find_plan(name).cells()}
        for name in ("mlfedavg", "mlfedavg-corrected")
    )
    theirs, ours = notebook["scene", "agg1", 1], corrected["scene", "agg1", 1]
    assert (theirs.until, ours.until) == ("mlfedavg cumulative", "mlfedavg")
    assert (theirs.options["split"], ours.options["split"]) == ([72, 8, 20], [60, 20, 20])
    assert (theirs.options["noise"], ours.options["noise"]) == ("half-normal", "normal")
    assert {figure.partition(".")[0] for figure in theirs.curves} == {"before"}
    assert {figure.partition(".")[0] for figure in ours.curves} == {"after"}
    same = {name: getattr(ours, name) for name in ("until", "options", "curves")}
    assert theirs.model_copy(update=same) == ours
    lone_theirs, lone_ours = notebook["scene", "alone", 1], corrected["scene", "alone", 1]
    assert (lone_theirs.rate, lone_theirs.rounds) == (0.01, 1)
    assert lone_ours == ours.model_copy(update={"kind": "lone", "aggregation": lone_ours.aggregation})


def test_a_data_set_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    cell = next(cell for cell in find_plan("mlfedavg").cells() if cell.row == "HumanPseAAC")
    (outcome,) = run_together([cell], Settings(datasets_path=tmp_path))
    assert "ml_humanpseaac.npz" in outcome.reason
