"""`flnet demo`: starts a mesh of real nodes on this machine, trains with it and shows the results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from flnet.cli.client import View
from flnet.cli.local_mesh import (
    FORKED_FROM,
    DemoPlan,
    Interrupted,
    LocalRun,
    NodeEnded,
    clean_environment,
    interruptible,
    opened,
)
from flnet.cli.options import variable_name
from flnet.cli.output import ACCURACY, Metrics, accuracy, chosen_metrics, console, metrics_option, printable, table
from flnet.cli.progress import (
    RoundFailed,
    RoundResult,
    failure,
    metrics_tables,
    no_average,
    results_table,
    summary,
)
from flnet.cli.room import settings_for_room, this_machine
from flnet.temporary import temporary_folder

EQUAL = 0.00005  # less is not seen in four digits
WAIT, DEFAULT_WAIT = "wait_time_in_seconds_to_force_fedavg", 60
SHARED_NODE_SECONDS = 10  # where they train one after the other, too
# A node waits for all others between its training and its test; to load its data again would make the others wait.
IDLE, SHARED_IDLE_SECONDS = "worker_idle_seconds", 3600
NODE_SECONDS = 3  # of a round, for each node of many on one machine: 100 nodes send 9,900 updates on its few cores
SHORT_OF_MEMORY = {
    "thread": "each node trains in its own process, and answers late meanwhile",
    "shared": "all nodes share one training process, which trains them one after the other",
}
EPOCHS = 10  # of --vertical, where nobody says otherwise


@dataclass(frozen=True)
class DemoComparison:
    """Metrics of the same nodes after the same number of rounds, trained together and alone.

    Attributes:
        together: after the last average.
        alone: of the model that never met another.
        rows: test rows of each node, by which the accuracy of all is weighted; empty if they are not known.
    """

    together: Mapping[str, Metrics]
    alone: Mapping[str, Metrics]
    rows: Mapping[str, int] = field(default_factory=dict)

    def names(self, every: bool) -> list[str]:
        """The figures that some node has in both; the accuracy first."""
        shared = [name for node, figures in self.together.items() for name in figures if self.pair(node, name)]
        return [ACCURACY, *chosen_metrics(shared, every)]

    def pair(self, node: str, name: str) -> tuple[float, float] | None:
        """A node's figure together and alone; None unless it has both."""
        both = self.together[node].get(name), self.alone.get(node, {}).get(name)
        return None if both[0] is None or both[1] is None else (both[0], both[1])

    @property
    def is_of_rows(self) -> bool:
        """Whether the accuracy of all is that on all test rows, rather than a mean over the nodes."""
        return self.together.keys() <= self.rows.keys() and any(self.rows[node] for node in self.together)

    def mean(self, name: str) -> tuple[float, float] | None:
        """The means together and alone, over the nodes that have both; the accuracy is that of all test rows, if known."""
        pairs = {node: pair for node in self.together if (pair := self.pair(node, name))}
        if not pairs:
            return None
        is_weighted = name == ACCURACY and self.is_of_rows and any(self.rows[node] for node in pairs)
        weights = [float(self.rows[node]) for node in pairs] if is_weighted else None
        together, alone = zip(*pairs.values(), strict=True)
        return fmean(together, weights), fmean(alone, weights)

    def words(self) -> str:
        """One sentence: which mean accuracy is higher, and by how much."""
        mean = self.mean(ACCURACY)
        if mean is None:
            return "no node has an accuracy both together and alone: there is nothing to compare"
        together, alone = mean
        difference = together - alone
        verdict = (
            "they are equal in four digits"
            if abs(difference) < EQUAL
            else f"{'together' if difference > 0 else 'alone'} it is higher by {abs(difference):.4f}"
        )
        rows = sum(self.rows[node] for node in self.together) if self.is_of_rows else 0
        figure = f"accuracy on all {rows} test rows" if rows else "mean accuracy"
        return f"{figure} {together:.4f} together and {alone:.4f} alone: {verdict}"


def comparison_table(comparison: DemoComparison, every: bool) -> Table:
    """A table with a row per metric and node, and one for the mean."""
    shown = table("figure", "node", "together", "alone", "difference", title="Together and alone")
    for name in comparison.names(every):
        for node in comparison.together:
            shown.add_row(printable(name), printable(node), *_cells(comparison.pair(node, name)))
        over = "all rows" if name == ACCURACY and comparison.is_of_rows else "mean"
        shown.add_row(printable(name), over, *_cells(comparison.mean(name)), end_section=True)
    return shown


def _cells(pair: tuple[float, float] | None) -> Sequence[str]:
    if pair is None:
        return "-", "-", "-"
    return accuracy(pair[0]), accuracy(pair[1]), f"{pair[0] - pair[1]:+.4f}"


def different_data(together: Mapping[str, View], alone: Mapping[str, View]) -> str | None:
    """A warning when a node did not have the same data both times; None when all had."""
    keys = ("source", "rows", "classes", "sample")
    nodes = [
        node
        for node, data in together.items()
        if any(data.get(key) != alone.get(node, {}).get(key) for key in keys)
    ]
    return f"beware: the data changed meanwhile on {', '.join(map(printable, nodes))}" if nodes else None


@click.command("demo")
@click.option(
    "--nodes", "count", type=click.IntRange(1, 128), default=4, show_default=True, help="How many nodes."
)
@click.option(
    "--rounds",
    type=click.IntRange(0, 10_000),
    default=5,
    show_default=f"5; {EPOCHS} with --vertical",
    help="How many rounds.",
)
@click.option("--trainer", default="MNIST", show_default=True, metavar="ID", help="Trainer to use.")
@click.option(
    "--vertical",
    is_flag=True,
    help="Three nodes that hold different columns of the same patients; rounds are epochs.",
)
@click.option("--exit", "leave", is_flag=True, help="Stop after the last round instead of keeping the pages open.")
@click.option(
    "--base-port",
    type=click.IntRange(1, 65535),
    default=4000,
    show_default=True,
    help="First port to try; ports in use are skipped.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time without progress.",
)
@click.option("--alone", is_flag=True, help="Then train each node by itself with the same data, and compare.")
@metrics_option
@click.pass_context
def command(
    context: click.Context,
    *,
    count: int,
    rounds: int,
    trainer: str,
    vertical: bool,
    leave: bool,
    base_port: int,
    patience: float,
    alone: bool,
    every: bool,
) -> None:
    """Start several nodes on this machine and train with them.

    After the rounds the nodes keep running, so that you can open their pages. They use loopback only and need no
    network; states and logs are in a temporary folder that is removed at the end. Data sets are read from
    $FLNET_DATASETS_PATH if they exist, otherwise the trainer's bundled sample is used.

    From 10 nodes on they are forked from one process, so that flnet is imported once. Where memory is short, they share one
    training process, or train in their own ones. The demo says so, and also if 100 nodes, say, do not fit into memory or
    may not open enough files.

    With --alone the nodes are started again with the same data but without peers. Each trains as many rounds by
    itself, and a table compares the results.

    With --vertical three nodes hold different columns of patients, from data that scikit-learn bundles. They find the
    patients that all of them have, and train one network. A table compares it with each node's columns alone, and with
    all columns in one place. The files of the nodes, CSV and TOML, are in the temporary folder.

    \b
    Exit codes: 0 all rounds finished, or ended by Ctrl-C; 1 a node, the mesh or a round failed; 2 wrong usage;
    128 + signal when --exit was given and a signal came first.
    """
    out, given = console(), {name for name in context.params if _is_given(context, name)}
    _must_go_together(given, alone=alone, vertical=vertical, rounds=rounds)
    with _explained_end(out, leave=leave), interruptible(), temporary_folder("demo") as folder:
        if vertical:
            from flnet.cli.vertical_demo import run_vertical  # noqa: PLC0415  brings numpy along

            epochs = rounds if "rounds" in given else EPOCHS
            run_vertical(epochs, base_port, patience, folder, out, leave=leave)
        else:
            settings = common_settings(trainer, count, out)
            plan = DemoPlan(trainer, count, rounds, base_port, patience, None, settings)
            _run(plan, folder, out, leave=leave, alone=alone, every=every)


def _must_go_together(given: Set[str], *, alone: bool, vertical: bool, rounds: int) -> None:
    if alone and not rounds:
        raise click.UsageError("--alone compares the models after the rounds: --rounds must be 1 or more")
    if vertical and given & {"alone", "trainer", "count"}:
        raise click.UsageError(
            "--vertical has three nodes and data of its own: leave --nodes, --trainer and --alone away"
        )


@contextmanager
def _explained_end(out: Console, *, leave: bool) -> Iterator[None]:
    """Say why a demo ends before its time: a node that died, or a signal."""
    try:
        yield
    except NodeEnded as exc:
        for line in exc.tail:
            click.echo("    " + line, err=True)
        raise
    except Interrupted as exc:
        out.print("\nended")
        # Ctrl-C is how a demo ends; only a script that waits for --exit was cut short.
        raise SystemExit(exc.exit_code if leave else 0) from None


def common_settings(trainer: str, count: int, out: Console) -> Mapping[str, object]:
    """Settings by which many nodes fit this machine and have the time that their messages take on it.

    Raises:
        StartError: they do not fit.
    """
    if count < FORKED_FROM:
        return {}
    settings = settings_for_room(trainer, count, this_machine(), clean_environment(os.environ))
    way = settings.get("compute", os.environ.get(variable_name("compute")))
    seconds = count * (SHARED_NODE_SECONDS if way == "shared" else NODE_SECONDS)
    if seconds > DEFAULT_WAIT and variable_name(WAIT) not in os.environ:
        settings = {**settings, WAIT: seconds}
    if way == "shared" and variable_name(IDLE) not in os.environ:
        settings = {**settings, IDLE: SHARED_IDLE_SECONDS}
    if "compute" in settings:
        out.print(f"memory is short: {SHORT_OF_MEMORY[str(way)]}", soft_wrap=True)
    return settings


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _run(plan: DemoPlan, folder: Path, out: Console, *, leave: bool, alone: bool, every: bool) -> None:
    """Train, compare, and keep the nodes running."""
    with ExitStack() as stack:
        together = stack.enter_context(opened(LocalRun, plan, folder / "together", out))
        results = _train(together, out, every)
        if leave:
            stack.close()  # the lone nodes get their memory
        if alone:
            _compare(plan, folder, out, (together.data, results), every)
        if not leave:
            together.stay()
        elif empty := no_average(results):
            raise RoundFailed(empty)


def _train(together: LocalRun, out: Console, every: bool) -> list[RoundResult]:
    """Do the rounds and print their table."""
    results = together.train()
    if results:
        out.print(results_table(results))
        for shown in metrics_tables(results, every):
            out.print(shown)
        out.print(summary(results, every), soft_wrap=True)
    if failed := failure(results):
        raise RoundFailed(failed)
    return results


def _compare(
    plan: DemoPlan,
    folder: Path,
    out: Console,
    together: tuple[Mapping[str, View], Sequence[RoundResult]],
    every: bool,
) -> None:
    """Train the same nodes without peers, and print the comparison."""
    data, results = together
    out.print()
    with opened(LocalRun, plan, folder / "alone", out, alone=True) as run:
        lone = run.train()
    if failed := failure(lone):
        raise RoundFailed("alone: " + failed)
    comparison = DemoComparison(results[-1].figures, lone[-1].figures, results[-1].test_rows)
    out.print(comparison_table(comparison, every))
    out.print(comparison.words(), soft_wrap=True)
    if differing := different_data(data, run.data):
        out.print(differing, soft_wrap=True)
