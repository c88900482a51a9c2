"""`flnet experiment`: a table from one command, and what was ended goes on."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from rich.progress import Progress

from flnet.cli.experiment import _Shown
from flnet.experiments.cells import FILE, Outcome, Results
from flnet.experiments.plan import find_plan
from flnet.settings import Settings
from tests.experiments.cells import TRAINERS

TABLE = """
title = "A small table"
seeds = 2

[base]
trainer = "TINY"
nodes = 3
rounds = 3

[[rows]]
name = "alike"

[[rows]]
name = "unlike"
partition = "dirichlet:0.3"

[[columns]]
name = "federated"

[[columns]]
name = "lone"
kind = "lone"
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(TRAINERS))
    monkeypatch.setattr("flnet.experiments.report.write_plots", lambda *args: [])  # they take a second each
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text(TABLE, "utf-8")
    return path


def kept(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / FILE).read_text("utf-8").splitlines()]


def test_tables_are_listed(flnet: Callable[..., Result]) -> None:
    for arguments in ([], ["--list"]):
        shown = flnet("experiment", *arguments)
        assert shown.exit_code == 0
        assert "heterogeneity" in shown.output


def test_an_unknown_table_is_wrong_usage(flnet: Callable[..., Result], tmp_path: Path) -> None:
    shown = flnet("experiment", "no-such-table")
    assert shown.exit_code == 2
    assert "no experiment 'no-such-table'; expected" in shown.output


def test_a_row_that_the_table_does_not_have_is_wrong_usage(flnet: Callable[..., Result], small: Path) -> None:
    shown = flnet("experiment", "small.toml", "--only", "no such row")
    assert shown.exit_code == 2 and "has 'no such row' in its name; it has '" in shown.output


def test_vertical_training_is_measured_line_by_line(
    flnet: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path | None, bool]] = []

    def measure(folder: Path | None, write: Callable[[str], object], *, quick: bool) -> None:
        seen.append((folder, quick))
        write("| data | AUC |")

    monkeypatch.setattr("flnet.experiments.vertical.main", measure)
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path))
    shown = flnet("experiment", "vertical", "--quick", "--out", str(tmp_path / "out"))
    assert (shown.exit_code, seen) == (0, [(tmp_path, True)])
    report = tmp_path / "out" / "report.md"
    assert shown.output.splitlines() == ["| data | AUC |", str(report)]
    assert report.read_text("utf-8").startswith("# Columns of the same rows at two nodes")
    assert "| data | AUC |" in report.read_text("utf-8")


def test_leaks_are_measured_with_so_many_seeds(
    flnet: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, int | None, bool]] = []

    def measure(
        settings: Settings, folder: Path, write: Callable[[str], object], *, seeds: int | None, quick: bool
    ) -> None:
        seen.append((folder, seeds, quick))
        write("| plain | 0.2 |")

    monkeypatch.setattr("flnet.experiments.leak_report.main", measure)
    monkeypatch.chdir(tmp_path)
    assert flnet("experiment", "leak", "--seeds", "3").exit_code == 0
    assert flnet("experiment", "leak", "--quick").exit_code == 0
    folders = [Path("experiments", name) for name in ("leak", "leak-quick")]
    assert seen == [(folders[0], 3, False), (folders[1], None, True)]
    assert (folders[0] / "report.md").read_text("utf-8").splitlines()[2:] == ["| plain | 0.2 |"]
    assert "leak" in flnet("experiment", "--list").output


def test_rounds_at_scale_are_simulated_into_the_folder(
    flnet: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(folder: Path, write: Callable[[str], object], *, quick: bool) -> None:
        write(f"| {folder.name} | {quick} |")

    monkeypatch.setattr("flnet.experiments.scale_report.main", measure)
    monkeypatch.chdir(tmp_path)
    shown = flnet("experiment", "scale", "--quick")
    assert shown.exit_code == 0 and "| scale-quick | True |" in shown.output
    assert "scale" in flnet("experiment", "--list").output


def test_a_log_has_a_line_for_each_tenth_of_a_long_training(small: Path) -> None:
    log = io.StringIO()
    cells = find_plan(str(small)).cells(1)
    with Progress(console=Console(file=log, width=200), auto_refresh=False) as bar:
        shown = _Shown(bar, cells, Results(small.parent))
        for done in (0.2, 0.3, 0.5, 0.9):  # of the first of four trainings
            shown.progress({0: (cells[:1], done)})
        shown.finished(cells[0], Outcome(rounds=3, seconds=2.0))
        shown.progress({0: (cells[1:2], 0.1)})
        shown.progress({0: (cells[1:2], 1.0)})
    lines = [line for line in log.getvalue().splitlines() if "done" in line]
    assert lines == ["10 % done", "20 % done", "alike, federated, seed 0: done in 2.0 s, 3 to go", "50 % done"]


@pytest.mark.slow
def test_what_ctrl_c_ended_goes_on_and_nothing_is_run_again(
    flnet: Callable[..., Result], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*options: str) -> list[dict[str, object]]:
        shown = flnet("experiment", str(small), "--workers", "1", *options)
        assert shown.exit_code == 0, shown.output
        return kept(folder)

    folder = small.parent / "experiments" / "small"
    report = folder / "report.md"
    refused = flnet("experiment", str(small), "--report")
    assert refused.exit_code == 1
    assert "no training of small is finished in experiments/small; expected some" in refused.stderr
    run_until_ctrl_c(small, monkeypatch)
    (first,) = kept(folder)
    assert "# A small table" in report.read_text("utf-8")
    assert "| alike |" not in report.read_text("utf-8")
    report.unlink()
    assert run("--report") == [first]  # runs nothing
    assert "1 of 8 trainings are done" in report.read_text("utf-8")
    assert len(run("--only", "unlike", "--seeds", "1")) == 2
    whole = run()
    assert (len(whole), whole[0]) == (8, first)
    assert "8 of 8 trainings are done" in report.read_text("utf-8")
    more = run("--seeds", "3")
    assert (len(more), more[:8]) == (12, whole)


def run_until_ctrl_c(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the table in a process of its own, and end it after the first training of the second row."""
    holds = table.parent / "holds"
    holds.touch()
    monkeypatch.setenv("TINY_HOLDS", str(holds))  # the second training waits for this file to go
    command = [sys.executable, "-m", "flnet", "experiment", str(table), "--only", "unlike", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        try:
            assert any("done in" in line for line in iter(run.stderr.readline, ""))
            run.send_signal(signal.SIGINT)
            told = run.stderr.read()
            assert run.wait(60) == 128 + signal.SIGINT, told
        finally:
            run.kill()
    holds.unlink()
    assert "goes on from here" in told


@pytest.mark.slow
def test_a_missing_data_set_gives_its_row_the_reason(flnet: Callable[..., Result], small: Path) -> None:
    asked = ["central-or-federated", "--only", "MNIST", "--quick", "--workers", "1", "--out", "missing"]
    shown = flnet("experiment", *asked)
    assert shown.exit_code == 0, shown.output
    why = "needs mnist or mnist.npz or MNIST: FLNET_DATASETS_PATH is not set"
    assert why in shown.output
    assert why in Path("missing/report.md").read_text("utf-8")
    assert [each["cell"]["row"] for each in kept(Path("missing"))] == [  # type: ignore[index]
        "MNIST, 10 of 10 nodes, R = 20, E = 1",
        "MNIST, 10 of 10 nodes, R = 20, E = 1",
    ]


@pytest.mark.slow
def test_quick_is_for_a_look_and_what_fails_has_its_reason(flnet: Callable[..., Result], small: Path) -> None:
    small.write_text(
        small.read_text("utf-8").replace("seeds = 2", 'first_seed = 901\nwords = "Nothing."'), "utf-8"
    )
    shown = flnet("experiment", str(small), "--quick", "--workers", "1", "--out", "look")
    assert shown.exit_code == 0, shown.output
    assert "alike, federated, seed 901: there are no points" in shown.output
    assert "there are no points" in Path("look/report.md").read_text("utf-8")
    assert len(kept(Path("look"))) == 4
