"""Groups of one node's rows, held against those that Lloyd finds on the rows of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.experiments.driving import run_together
from flnet.experiments.plan import find_plan
from flnet.settings import Settings
from flnet.training.api import TrainerSettings
from tests.clusters.rows import heaps
from tests.experiments.cells import cell
from tests.trainers.mooc_files import COLUMNS, write_data
from trainers._central_groups import CentralGroups, lloyd
from trainers._mooc import FILE, as_counts
from trainers.MOOC_K_MEANS import OPTIONS_FILE, make_trainer


def test_lloyd_ends_where_no_centroid_moves() -> None:
    rows, _ = heaps(0)
    found = lloyd(rows, rows[:3])
    assert np.abs(lloyd(rows, found) - found).max() < 0.001
    nearest = np.argmin(((rows[:, None] - found) ** 2).sum(axis=2), axis=1)
    means = np.array([rows[nearest == group].mean(axis=0) for group in range(3)])
    assert found == pytest.approx(means, abs=0.001)


def test_the_same_groups_are_wholly_alike_whatever_they_are_called() -> None:
    rows, _ = heaps(1)
    start = rows[:3]
    central, found = CentralGroups(rows), lloyd(rows, start)
    assert central.alike(start, found[[2, 0, 1]]) == 1
    assert central.alike(start, found * 0) < 0.5  # all in one
    assert central.alike(start, found) == 1


def write_heaps(folder: Path) -> None:
    """Enrolments of three kinds."""
    write_data(folder)
    with np.load(folder / FILE) as file:
        arrays = dict(file)
    for side in ("x_train", "x_test"):
        rows, _ = heaps(3, len(arrays[side]), columns=COLUMNS)
        arrays[side] = as_counts(rows / 9).astype(np.float32)
    np.savez(folder / FILE, **arrays)


@pytest.mark.parametrize("start", ["spread", "seed"])
def test_schools_come_to_the_groups_of_all_enrolments(tmp_path: Path, start: str) -> None:
    write_heaps(tmp_path)
    name = "after.central_jaccard"
    options = {"rows": 800, "compare": True, "start": start}
    one = cell(
        trainer="MOOC_K_MEANS",
        nodes=4,
        aggregation="k-means",
        rounds=6,
        options_file=OPTIONS_FILE,
        options=options,
        curves=(name,),
    )
    (found,) = run_together([one], Settings(datasets_path=tmp_path))
    assert found.reason == ""
    (course,) = set(found.curves[name])  # all schools have one model
    assert course[-1] is not None
    assert 0.97 < course[-1] <= 1


def test_what_is_compared_must_be_yes_or_no(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text("compare = 1", "utf-8")
    with pytest.raises(TrainerError, match="compare = 1; expected true or false"):
        make_trainer(TrainerSettings(tmp_path, tmp_path))


def test_the_table_has_the_rounds_and_schools_of_the_thesis() -> None:
    setups = {(one.row, one.column): one.setup for one in find_plan("k-means").cells()}
    assert {setup.nodes for setup in setups.values()} == {54}
    counts = {int(row.split()[0]): setup.participation for (row, _), setup in setups.items()}
    assert {schools: int(np.ceil(share * 54)) for schools, share in counts.items()} == {
        n: n for n in (5, 10, 20, 40)
    }
    rounds = {column: setup.rounds for (_, column), setup in setups.items()}
    assert rounds["100 rounds, spread"] == rounds["100 rounds, by chance"] + 1 == 101
