"""`flnet experiment`: run the table of a paper, or your own, and write a report; no node has to run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from flnet.cli.local_mesh import Interrupted, interruptible
from flnet.cli.options import read_config
from flnet.cli.output import console, counted, print_table, printable, table
from flnet.compute.assignment import processors
from flnet.errors import LocalError
from flnet.experiments import leak_report, scale_report, vertical
from flnet.experiments.cells import Cell, Engine, Outcome, Results
from flnet.experiments.plan import Plan, find_plan, shipped
from flnet.experiments.report import REPORT, write_report
from flnet.experiments.run import LocalEngine, RayEngine
from flnet.settings import Settings, load_settings

FOLDER = Path("experiments")  # in the working directory, if no other is named
VERTICAL, LEAK, SCALE = "vertical", "leak", "scale"
MEASURED = {  # by modules of their own
    VERTICAL: "Columns of the same rows at two nodes: split network, encrypted regression",
    LEAK: leak_report.TITLE,
    SCALE: scale_report.TITLE,
}


@click.command("experiment")
@click.argument("name", required=False)
@click.option("--list", "lists", is_flag=True, help="List the available tables.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for results and report.  [default: experiments/NAME]"
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where trainings run.",
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Number of processes.  [default: one per processor]")
@click.option(
    "--ray-address", metavar="ADDRESS", help="Address of a running Ray cluster.  [default: start one here]"
)
@click.option("--seeds", type=click.IntRange(1, 10_000), help="Number of seeds per cell, instead of the table's.")
@click.option("--only", default="", metavar="TEXT", help="Run only rows whose name contains this text.")
@click.option("--report", "reports", is_flag=True, help="Run nothing; rewrite the report from finished trainings.")
@click.option("--quick", is_flag=True, help="Two rounds of one seed, to check that everything works.")
@click.option("--nice", type=click.IntRange(0, 19), default=0, help="Niceness of the processes.")
def command(
    *,
    name: str | None,
    lists: bool,
    out: Path | None,
    engine: str,
    workers: int | None,
    ray_address: str | None,
    seeds: int | None,
    only: str,
    reports: bool,
    quick: bool,
    nice: int,
) -> None:
    """Run the table NAME (or the one in the TOML file NAME), and write a report next to the published figures.

    Nodes are simulated in child processes: jobs, rounds, aggregation rules and trainers are the real ones, the
    network is in memory, and time is virtual. Data sets are read from $FLNET_DATASETS_PATH.

    Finished trainings are kept in the output folder. Ctrl-C ends a run; the same command continues it.

    The tables "vertical" and "leak" are measured from the beginning each time; "scale" goes on. --out and --quick are
    their options, and --seeds for "leak".

    \b
    Exit codes: 0 done, also if a data set is missing (its row says so); 1 failed; 2 wrong usage or table;
    128 + signal if a signal ended it.
    """
    if lists or name is None:
        _show_tables()
        return
    if name in MEASURED:
        _measure(name, out or FOLDER / (f"{name}-quick" if quick else name), seeds, quick=quick)
        return
    plan = find_plan(name)
    folder = out or FOLDER / (f"{plan.id}-quick" if quick else plan.id)
    results = Results(folder)
    all_cells = plan.cells(seeds, quick=quick)
    cells = [cell for cell in all_cells if only in cell.row]
    if not cells:
        rows = ", ".join(repr(row.name) for row in plan.rows)
        raise click.UsageError(f"--only: no row of {plan.id} has {only!r} in its name; it has {rows}")
    told = [cell for cell in all_cells if only in cell.row or results.get(cell)]
    if not reports:
        _run(cells, told, plan, results, engine, workers or processors(), ray_address, nice)
    elif not any(map(results.get, told)):
        raise LocalError(f"no training of {plan.id} is finished in {folder}; expected some of an earlier run")
    _write(plan, told, results)
    click.echo(f"{folder / REPORT}")


def _run(
    cells: Sequence[Cell],
    told: Sequence[Cell],
    plan: Plan,
    results: Results,
    engine: str,
    workers: int,
    ray_address: str | None,
    nice: int,
) -> None:
    """Run the missing cells; when interrupted, write the report of `told` before exiting."""
    with _bar() as bar:
        shown = _Shown(bar, cells, results)
        settings = load_settings({}, os.environ, read_config(None))
        runs = _engine(engine, settings, workers, ray_address, nice, shown)
        try:
            with interruptible(), closing(runs.run(results.missing(cells))) as outcomes:
                for cell, outcome in outcomes:
                    results.add([(cell, outcome)])
                    shown.finished(cell, outcome)
        except Interrupted as exc:
            _write(plan, told, results)
            click.echo(f"ended with {len(results)} cells done; the same command goes on from here", err=True)
            raise SystemExit(exc.exit_code) from None


class _Shown:
    """The progress bar, in which cells count by their rounds and epochs."""

    def __init__(self, bar: Progress, cells: Sequence[Cell], results: Results) -> None:
        self._bar, self._cells = bar, cells
        self._left = {cell.key: _cost(cell) for cell in results.missing(cells)}
        self._open = len(self._left)
        known = {cell.key: _cost(cell) for cell in cells}
        self._total = sum(known.values())
        self._task = bar.add_task("", total=self._total)
        self._done = self._total - sum(self._left.values())
        self._shown = 0.0
        self._move(self._done)
        self._told = self._tenths

    def finished(self, cell: Cell, outcome: Outcome) -> None:
        """Note that a cell is done; print the reason if it has no numbers."""
        self._done += self._left.pop(cell.key, 0)
        where = f"{cell.row}, {cell.column}, seed {cell.seed}"
        self._open -= 1
        if outcome.reason or not self._bar.console.is_terminal:  # a log has no bar
            words = outcome.reason or f"done in {outcome.seconds:.1f} s, {self._open} to go"
            self._bar.console.print(printable(f"{where}: {words}"), soft_wrap=True)
        self._move(self._done, printable(where))
        self._told = self._tenths

    def progress(self, at_work: Mapping[int, tuple[Sequence[Cell], float]]) -> None:
        """Note the progress of all workers."""
        part = sum(done * sum(map(_cost, cells)) for cells, done in at_work.values())
        self._move(self._done + part)
        if self._tenths > self._told and not self._bar.console.is_terminal:
            self._told = self._tenths
            self._bar.console.print(f"{10 * self._told} % done")

    @property
    def _tenths(self) -> int:
        return int(10 * self._shown / self._total) if self._total else 10

    def _move(self, done: float, words: str | None = None) -> None:
        """Move the bar forward only: the progress of other workers is unknown when a cell is done."""
        self._shown = max(self._shown, done)
        self._bar.update(self._task, completed=self._shown, description=words)


def _cost(cell: Cell) -> float:
    """The approximate cost of a cell: its number of passes over the data."""
    return float(cell.setup.rounds * (cell.setup.epochs or 1) * cell.setup.participation)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console(stderr=True), speed_estimate_period=600.0)


def _engine(
    kind: str, settings: Settings, workers: int, ray_address: str | None, nice: int, shown: _Shown
) -> Engine:
    if kind == "ray":
        return RayEngine(settings, ray_address, workers)
    return LocalEngine(settings, workers, shown.progress, nice)


def _write(plan: Plan, cells: Sequence[Cell], results: Results) -> None:
    if len(results):
        write_report(plan, cells, results, results.path.parent)


def _measure(name: str, folder: Path, seeds: int | None, *, quick: bool) -> None:
    """Measure a table of `MEASURED`, and write the report line by line."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = load_settings({}, os.environ, read_config(None))
    with (folder / REPORT).open("w", encoding="utf-8") as report, interruptible():
        report.write(f"# {MEASURED[name]}\n\n")

        def write(line: str) -> None:
            click.echo(line)
            report.write(f"{line}\n")
            report.flush()

        if name == VERTICAL:
            vertical.main(settings.datasets_path, write, quick=quick)
        elif name == SCALE:
            scale_report.main(folder, write, quick=quick)
        else:
            leak_report.main(settings, folder, write, seeds=seeds, quick=quick)
    click.echo(f"{folder / REPORT}")


def _show_tables() -> None:
    rows = table("name", "table", "cells")
    for name, title in MEASURED.items():
        rows.add_row(name, title, "-")
    for name in shipped():
        plan = find_plan(name)
        rows.add_row(name, plan.title, counted(len(plan.cells()), "training"))
    print_table(rows)
