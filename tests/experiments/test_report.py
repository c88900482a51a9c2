"""What a report says of finished cells, and that it says what is not there."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from flnet.errors import LocalError
from flnet.experiments.report import write_report
from tests.experiments.reported import filled, small_plan

pytest.importorskip("scipy", reason="SciPy is not installed")


def test_the_report_has_numbers_differences_tests_and_reasons(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    paths = write_report(plan, cells, filled(tmp_path, cells), tmp_path / "out")
    assert all(path.is_file() for path in paths)
    text = (tmp_path / "out/report.md").read_text("utf-8")
    assert "18 of 27 trainings are done; they took 27 s, and 18 s of a processor." in text
    assert "| scene | 0.6100 ± 0.0100 (3)<br>0.6000 +0.0100 | 0.7100 ± 0.0100 (3)<br>0.9000 -0.1900 |" in text
    assert "| scene | 1,000 ± 0 (3) |" in text
    assert "| ye\\|ast | 0.6100 ± 0.0100 (3) |" in text
    assert "1 of 2 cells are within 0.05 of it." in text
    assert "| scene | agg1 | accuracy | 0.9000 | 0.7100 | -0.1900 | 0.0100 | 23.3 | 2 |" in text
    assert "0 of the other 1 are no farther than 2 standard errors" in text
    assert "- **agg1** (1): Theirs is a typing error." in text
    assert "agg0 2.0000, agg1 1.0000, alone 3.0000 | 6 | 12.0000 | 0.00248 |" in text
    assert "agg1 above alone" in text
    assert "- lost, agg0; lost, agg1; lost, alone: no data set lost.npz." in text
    assert "Machine: two cores." in text


def test_every_picture_that_is_linked_is_there(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    paths = write_report(plan, cells, filled(tmp_path, cells), tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text("utf-8")
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert len(links) == 6  # bars of two measures, ranks of two sets, curves of two rows
    assert {tmp_path / "out" / link for link in links} <= set(paths)
    assert sorted(path.name for path in paths if path.suffix == ".svg") == [
        *("bars-accuracy.svg", "bars-bytes.svg", "curves-scene-after.accuracy.svg"),
        *(
            "curves-ye-ast-after.accuracy.svg",
            "ranks-accuracy-agg0-agg1-alone.svg",
            "ranks-accuracy-agg1-alone.svg",
        ),
    ]


def test_csv_files_hold_all_numbers(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    write_report(plan, cells, filled(tmp_path, cells), tmp_path / "out")
    with (tmp_path / "out/table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 18
    assert float(table[0]["mean"]) == pytest.approx(0.61)
    assert float(table[0]["difference"]) == pytest.approx(0.01)
    with (tmp_path / "out/cells.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 27
    assert float(lines[1]["accuracy"]) == pytest.approx(0.61)
    assert lines[-1]["reason"] == "no data set lost.npz"


def test_what_was_broken_off_is_reported_as_far_as_it_came(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    write_report(plan, cells, filled(tmp_path, cells[:4]), tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text("utf-8")
    assert "4 of 27 trainings are done" in text
    assert "23 trainings were not run yet" in text


def test_nothing_at_all_is_a_report_too(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    write_report(plan, plan.cells(), filled(tmp_path, []), tmp_path / "out")
    assert "0 of 27" in (tmp_path / "out/report.md").read_text("utf-8")


def test_without_scipy_and_pillow_the_report_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    plan = small_plan(tmp_path)
    cells = plan.cells()
    paths = write_report(plan, cells, filled(tmp_path, cells), tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text("utf-8")
    assert "Not in this report: this test needs SciPy" in text
    assert "Not in this report: a PNG needs Pillow" in text
    assert {path.suffix for path in paths} == {".md", ".csv", ".svg"}
    assert "pictures/bars-accuracy.svg" in text


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(LocalError, match="cannot be written"):
        write_report(plan, plan.cells(), filled(tmp_path, []), tmp_path / "out")
