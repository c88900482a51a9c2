"""The table of drop-out: who trains in a round, how often each row is seen, and a small mesh that learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.experiments.base import Cell
from flnet.experiments.driving import run_together
from flnet.experiments.plan import find_plan
from flnet.params import PeerId
from flnet.policies import Participation
from flnet.settings import Settings
from tests.trainers.mooc_files import write_data

PARTS = {"C = 2 %": (1, 1), "C = 13 %": (7, 6), "C = 25 %": (14, 11), "C = 50 %": (27, 20), "C = 100 %": (54, 39)}


def trains(cell: Cell) -> int:
    setup = cell.setup
    part = Participation(setup.participation, setup.min_participants)
    choice = part.choice_of([PeerId(f"n{number}") for number in range(setup.nodes)])
    return choice.take if choice else setup.nodes


@pytest.mark.parametrize("column", PARTS)
def test_as_many_schools_train_in_a_round_as_the_column_says(column: str) -> None:
    schools, courses = PARTS[column]
    there = [cell for cell in find_plan("dropout").cells(1) if cell.column == column]
    assert {cell.setup.nodes: trains(cell) for cell in there} == {54: schools, 39: courses}


def test_every_way_sees_each_row_twenty_times_and_is_dealt_as_many() -> None:
    cells = find_plan("dropout").cells(1)
    assert {cell.setup.rounds * (cell.setup.epochs or 0) for cell in cells} == {20}
    assert {cell.setup.options["rows"] for cell in cells} == {54_000}
    central = {cell.setup.rounds: cell.key for cell in cells if cell.column == "central"}
    assert len({cell.key for cell in cells if cell.column == "central"}) == len(central)  # trained once per R


def test_schools_that_are_courses_learn_together(tmp_path: Path) -> None:
    """Five courses of made-up enrolments, five rounds; who always says "drops out" has 0.78."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_data(tmp_path, rows=1500)
    of_row = {"nodes": 5, "rounds": 5, "epochs": 4, "options": {"rows": 1500}}
    cells = [cell for cell in find_plan("dropout").cells(1) if cell.row.startswith("39 courses")]
    whole = next(cell for cell in cells if cell.column == "C = 100 %")
    small = whole.model_copy(update={"setup": whole.setup.model_copy(update=of_row)})
    (found,) = run_together([small], Settings(datasets_path=tmp_path))
    assert not found.reason
    known = found.figures["after.official_accuracy"]
    assert len(set(known)) == 1  # all have one average
    assert known[0] is not None
    assert known[0] > 0.82
    assert sum(rows or 0 for rows in found.examples) == pytest.approx(1350, abs=5)  # nine tenths of the enrolments
