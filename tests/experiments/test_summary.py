"""Means, spreads and differences, and which rows the rank tests see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.experiments.summary import comparisons, entries, seed_rows
from tests.experiments.reported import filled, small_plan


def test_entries_hold_mean_spread_and_difference(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    there = {(e.row, e.column, e.measure): e for e in entries(plan, cells, filled(tmp_path, cells))}
    assert len(there) == 3 * 3 * 2
    scene = there["scene", "agg0", "accuracy"]
    assert scene.mean == pytest.approx(0.61)
    assert scene.spread == pytest.approx(0.01)
    assert scene.difference == pytest.approx(0.01)
    assert dict(scene.values) == pytest.approx({seed: 0.6 + 0.01 * seed for seed in range(3)})
    assert scene.standard_errors is None  # how many seeds the source has is not said
    agg1 = there["scene", "agg1", "accuracy"]
    assert agg1.standard_errors == pytest.approx(0.19 / (0.01 * (1 / 3 + 1 / 3) ** 0.5))
    assert (agg1.nearest, scene.nearest) == (2, 2)  # the means rise from 0.3 in the first round
    lost = there["lost", "alone", "accuracy"]
    assert lost.nearest is None
    assert (lost.mean, lost.spread, lost.difference) == (None, None, None)
    assert lost.reasons == ("no data set lost.npz",)
    assert there["scene", "agg0", "bytes"].mean == 1000


def test_what_was_not_run_yet_is_missing(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    there = entries(plan, cells, filled(tmp_path, cells[:2]))
    assert [e.missing for e in there if e.measure == "accuracy"] == [1, *[3] * 8]
    assert there[0].mean == pytest.approx(0.605)


def test_rank_tests_see_rows_in_which_every_column_has_a_number(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = [
        cell for cell in plan.cells() if not (cell.row == "scene" and cell.seed == 2 and cell.column == "agg0")
    ]
    there = entries(plan, cells, filled(tmp_path, cells))
    table = seed_rows(there, "accuracy", ("agg0", "agg1", "alone"))
    assert table.shape == (5, 3)  # two data sets of three seeds, one of them without agg0
    assert np.allclose(table - table[:, :1], [0, 0.1, -0.1])
    three, two = comparisons(plan, there)
    assert three.friedman.ranks == (2, 1, 3)
    assert {(pair.better, pair.other) for pair in three.pairs} == {
        ("agg1", "agg0"),
        ("agg0", "alone"),
        ("agg1", "alone"),
    }
    # Of five rows that all differ one way, two of 32 choices of signs are as far apart; three such pairs.
    assert [pair.test.p for pair in three.pairs] == pytest.approx([2 / 32] * 3)
    assert [pair.p for pair in three.pairs] == pytest.approx([6 / 32] * 3)
    assert two.friedman.rows == 6
    assert [pair.test.rows for pair in two.pairs] == [6]
    assert two.pairs[0].p == two.pairs[0].test.p


def test_columns_without_common_rows_are_not_compared(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = [cell for cell in plan.cells() if cell.column == "agg0"]
    assert comparisons(plan, entries(plan, cells, filled(tmp_path, cells))) == []
