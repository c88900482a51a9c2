"""Tiny cells and a small table for tests, and the settings with which their trainer is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flnet.experiments.cells import Cell, Outcome, Results, Setup
from flnet.experiments.plan import Plan, read_plan
from flnet.settings import Settings

TRAINERS = Path(__file__).parent / "trainers"
SETTINGS = Settings(trainers_path=TRAINERS)
TABLE = """
title = "A small table"
source = "nobody 2026, table 1"
words = "Seeds are fewer."
seeds = 3
statistics = ["accuracy"]
compared = [["agg0", "agg1", "alone"], ["agg1", "alone"]]
tolerance = 0.05

[base]
trainer = "MNIST"
rounds = 2

[[rows]]
name = "scene"
nodes = 4
[[rows]]
name = "ye|ast"
nodes = 5
[[rows]]
name = "lost"
nodes = 6

[[columns]]
name = "agg0"
aggregation = "agg0"
[[columns]]
name = "agg1"
[[columns]]
name = "alone"
kind = "lone"

[[measures]]
name = "accuracy"
figure = "after.accuracy"
[[measures]]
name = "bytes"
figure = "bytes"
lower_is_better = true

[[published]]
row = "scene"
column = "agg0"
measure = "accuracy"
value = 0.6
[[published]]
row = "scene"
column = "agg1"
measure = "accuracy"
value = 0.90
seeds = 3
[[published]]
row = "scene"
column = "alone"
measure = "accuracy"
value = "> 0.4"

[[notes]]
words = "Theirs is a typing error."
column = "agg1"
"""
BASE = {"agg0": 0.6, "agg1": 0.7, "alone": 0.5}


def cell(seed: int = 0, row: str = "r", column: str = "c", **fields: object) -> Cell:
    """A cell that takes milliseconds."""
    setup = {"trainer": "TINY", "nodes": 3, "rounds": 3, **fields}
    return Cell(row=row, column=column, seed=seed, setup=Setup.model_validate(setup))


def small_plan(folder: Path, table: str = TABLE) -> Plan:
    """The plan of a table."""
    path = folder / "small.toml"
    path.write_text(table, "utf-8")
    return read_plan(path)


def outcome(cell: Cell) -> Outcome:
    """An accuracy that rises with the seed, or a reason in the row "lost"."""
    if cell.row == "lost":
        return Outcome(reason="no data set lost.npz")
    last = BASE[cell.column] + 0.01 * cell.seed
    return Outcome(
        rounds=2,
        figures={"after.accuracy": (last - 0.1, last + 0.1, None)},
        curves={"after.accuracy": ((0.2, last - 0.1), (0.4, last + 0.1))},
        bytes=1000,
        seconds=1.5,
        processor_seconds=1.0,
        machine="two cores",
        data="=made up",
    )


def results_of(folder: Path, cells: Sequence[Cell]) -> Results:
    """Results with the outcomes of these cells."""
    results = Results(folder)
    results.add([(cell, outcome(cell)) for cell in cells])
    return results
