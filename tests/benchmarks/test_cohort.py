"""The cohort that is measured is trained alike in both ways, and its arithmetic is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.cohort import Found, report
from benchmarks.cohort_training import apart, cohort, flop, plain
from benchmarks.options import Options
from benchmarks.report import Report


def test_nodes_differ_in_rows_and_labels_and_train_alike_in_both_ways() -> None:
    jobs = cohort(4, rows=60)
    assert len({trainer.data_info().rows["train"] for trainer, _ in jobs}) == 4
    assert {len(trainer.data_info().classes) for trainer, _ in jobs} == {2, 3, 4}
    assert apart(jobs) < 1e-5
    plain(*jobs[0])


def test_the_arithmetic_is_that_of_the_layers() -> None:
    """A node of 60 rows and 4 labels: 294 x 100 twice, 100 x 20 and 20 x 4 three times, two operations each."""
    assert flop(cohort(1, rows=60)) == 2 * 60 * (2 * 29_400 + 3 * (2_000 + 80))


def test_each_way_has_its_rows_and_the_machine_its_figure() -> None:
    ways = {"together": [1.0, 1.0], "one by one": [4.0, 6.0], "plain": [8.0, 8.0]}
    said: list[str] = []
    options = Options(Report(said.append), Path(), 1)
    report(options, 20, Found(ways, ways, flop=50e9, flops=[100e9, 90e9], apart=2e-6))
    rows = options.report.rows
    assert [row.verdict for row in rows] == ["held", "", "", ""]
    assert "5.0 x as fast; at best 50 of the 100 GFLOP/s of a large matrix product: 50%" in rows[0].note
