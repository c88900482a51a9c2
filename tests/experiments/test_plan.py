"""A plan in TOML becomes cells, and mistakes in it are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.errors import SettingsError
from flnet.experiments.plan import Plan, find_plan, read_plan

TABLE = """
title = "A table"
seeds = 2
first_seed = 5

[base]
trainer = "MULTI_LABEL"
nodes = 2
options_file = "multi_label.toml"
options = { noise = "none" }

[[rows]]
name = "{data}, E = {E}"
each = { data = ["scene", "yeast"], E = [1, 4] }
epochs = "{E}"
options = { file = "ml_{data}.npz", deal = [3, 3] }

[[rows]]
name = "long"
rounds = 50

[[columns]]
name = "federated"

[[columns]]
name = "lone"
kind = "lone"
rounds = 3
seeds = 1

[[measures]]
name = "accuracy"

[[published]]
row = "scene, E = 4"
column = "lone"
measure = "accuracy"
value = 0.5
"""


def plan_of(tmp_path: Path, text: str = TABLE) -> Plan:
    path = tmp_path / "own.toml"
    path.write_text(text, "utf-8")
    return read_plan(path)


def test_rows_and_columns_make_cells(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert plan.id == "own"
    assert [row.name for row in plan.rows] == [
        "scene, E = 1",
        "scene, E = 4",
        "yeast, E = 1",
        "yeast, E = 4",
        "long",
    ]
    cells = plan.cells()
    assert len(cells) == 5 * (2 + 1)
    of = {(cell.row, cell.column, cell.seed): cell.setup for cell in cells}
    assert len(of) == len(cells)
    scene = of["scene, E = 4", "federated", 6]
    assert scene.epochs == 4
    assert scene.options == {"noise": "none", "file": "ml_scene.npz", "deal": [3, 3]}
    assert of["long", "federated", 5].rounds == 50
    assert of["long", "lone", 5].rounds == 3  # a column overrides a row
    assert ("long", "lone", 6) not in of


def test_a_quick_run_has_one_seed_and_two_rounds(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert {cell.seed for cell in plan.cells(3)} == {5, 6, 7}
    assert {(cell.seed, cell.setup.rounds) for cell in plan.cells(quick=True)} == {(5, 2)}


def test_seeds_may_be_listed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, TABLE.replace("seeds = 1", "seeds = [40, 2, 7]"))

    def of_lone(count: int | None, *, quick: bool = False) -> list[int]:
        return [c.seed for c in plan.cells(count, quick=quick) if (c.row, c.column) == ("long", "lone")]

    assert of_lone(None) == of_lone(9) == [40, 2, 7]
    assert of_lone(2) == [40, 2]
    assert of_lone(None, quick=True) == [40]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes = 2", "nodes = 0", "row 'scene, E = 1', column 'federated': nodes"),
        ("nodes = 2", "nods = 2", "nods"),
        ('name = "long"', "long = 1", "rows"),
        ('name = "long"', 'name = "scene, E = 1"', "two rows are named 'scene, E = 1'"),
        ("E = [1, 4]", "E = 1", "no list of values"),
        ('column = "lone"', 'column = "alone"', "no column 'alone'; there are federated, lone"),
        ("[base]", '[[means]]\nname = "both"\nof = ["long", "short"]\n[base]', "no row 'short'; there are"),
        ("[base]", '[[means]]\nname = "both"\nof = ["long"]\n[base]', "means"),
        ("[base]", '[[means]]\nname = "long"\nof = ["long", "long"]\n[base]', "two rows are named 'long'"),
        ('title = "A table"', "", "title"),
        ("seeds = 2", "seeds = 2\nmore = 1", "more"),
        ("seeds = 1", "seeds = []", "seeds"),
        ("seeds = 1", "seeds = [1, -1]", "seeds"),
        ('epochs = "{E}"', 'epochs = "{F}"', "epochs"),
        ("[base]", "[base", "cannot be read"),
        ('name = "accuracy"', 'name = "accuracy"\nfigure = "after.loss"\nover = "rows"', "not after.loss"),
        ('name = "accuracy"', 'name = "accuracy"\nfigure = "bytes"\nover = "rows"', "not bytes"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        plan_of(tmp_path, TABLE.replace(old, new, 1))
    assert message in error.value.message


def test_a_plan_is_found_by_name_or_by_file(tmp_path: Path) -> None:
    plan_of(tmp_path)
    assert find_plan(str(tmp_path / "own.toml")).title == "A table"
    with pytest.raises(SettingsError, match=r"no experiment 'own'; expected .*or the path of a TOML file"):
        find_plan("own")
    with pytest.raises(SettingsError, match="cannot be read"):
        find_plan(str(tmp_path / "absent.toml"))
