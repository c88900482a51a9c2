"""`flnet demo`: a mesh of real nodes on this machine that trains before one's eyes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from flnet.cli.alone import Comparison, comparison_table, different_data
from flnet.cli.client import View
from flnet.cli.figures import metrics_option
from flnet.cli.follow import RoundFailed
from flnet.cli.local_run import LocalRun, Plan, opened
from flnet.cli.processes import Interrupted, NodeEnded, interruptible
from flnet.cli.results import RoundResult, failure, figures_tables, results_table, summary
from flnet.cli.tables import console

__all__ = ["command"]

SIGNAL_EXIT = 128  # plus the signal's number, as shells count


@click.command("demo")
@click.option("--nodes", "count", type=click.IntRange(1, 64), default=4, show_default=True, help="How many nodes.")
@click.option("--rounds", type=click.IntRange(0, 10_000), default=5, show_default=True, help="How many rounds.")
@click.option("--trainer", default="MNIST", show_default=True, metavar="ID", help="What is trained.")
@click.option("--exit", "leave", is_flag=True, help="End after the last round instead of staying for the browser.")
@click.option(
    "--base-port",
    type=click.IntRange(1, 65535),
    default=4000,
    show_default=True,
    help="First port to try; ports in use are passed over.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up when nothing has moved for this long.",
)
@click.option("--alone", is_flag=True, help="Then train the same nodes each by itself, and compare.")
@metrics_option
def command(
    *,
    count: int,
    rounds: int,
    trainer: str,
    leave: bool,
    base_port: int,
    patience: float,
    alone: bool,
    every: bool,
) -> None:
    """Start several nodes on this machine and train with them.

    After the rounds the nodes stay up for the browser. Everything stays on loopback and needs no network;
    states and logs lie in a temporary folder that is removed at the end. Data sets are taken from
    $FLNET_DATASETS_PATH where they are there, otherwise the trainer's bundled sample is used.

    With --alone the nodes are started once more with the same data, not knowing each other; each does as many
    rounds by itself, and a table shows what training together brought each of them.

    \b
    Exit codes: 0 all rounds finished, or ended by Ctrl-C; 1 a node, the mesh or a round failed; 2 wrong usage;
    128 + signal when --exit was given and a signal came first.
    """
    if alone and not rounds:
        raise click.UsageError("--alone compares the models after the rounds: --rounds must be 1 or more")
    out, plan = console(), Plan(trainer, count, rounds, base_port, patience)
    try:
        with interruptible(), _folder() as folder, ExitStack() as stack:
            together = stack.enter_context(opened(plan, folder / "together", out))
            results = _train(together, out, every)
            if leave:
                stack.close()  # the lone nodes get their memory
            if alone:
                _compare(plan, folder, out, (together.data, results), every)
            if not leave:
                together.stay()
    except NodeEnded as exc:
        for line in exc.tail:
            click.echo("    " + line, err=True)
        raise
    except Interrupted as exc:
        out.print("\nended")
        # Ctrl-C is how a demo ends; only a script that waits for --exit was cut short.
        raise SystemExit(SIGNAL_EXIT + exc.number if leave else 0) from None


def _train(together: LocalRun, out: Console, every: bool) -> list[RoundResult]:
    """Do the rounds and print their table."""
    results = together.train()
    if results:
        out.print(results_table(results))
        for shown in figures_tables(results, every):
            out.print(shown)
        out.print(summary(results, every), soft_wrap=True)
    if failed := failure(results):
        raise RoundFailed(failed)
    return results


def _compare(
    plan: Plan, folder: Path, out: Console, together: tuple[Mapping[str, View], Sequence[RoundResult]], every: bool
) -> None:
    """Train the same nodes without each other and print what that makes of their models."""
    data, results = together
    out.print()
    with opened(plan, folder / "alone", out, alone=True) as run:
        lone = run.train()
    if failed := failure(lone):
        raise RoundFailed("alone: " + failed)
    comparison = Comparison(results[-1].figures, lone[-1].figures)
    out.print(comparison_table(comparison, every))
    out.print(comparison.words(), soft_wrap=True)
    if differing := different_data(data, run.data):
        out.print(differing, soft_wrap=True)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="flnet-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
