"""`flnet history`: what came of a job's rounds, as a table or as a file."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.export import write_file
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import accuracy, printable

__all__ = ["command"]

SHOWN = 20  # newest rounds, if nobody says how many


@click.command("history")
@click.argument("trainer")
@click.option("--last", type=click.IntRange(1, 999_999_999), help="So many of the newest rounds only.")
@click.option("--csv", "form", flag_value="csv", help="Write all figures as CSV.")
@click.option("--svg", "form", flag_value="svg", help="Draw accuracy, participants, seconds and bytes as SVG.")
@click.option("--png", "form", flag_value="png", help="The same as PNG; the node needs Pillow for it.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help='File to write; "-" for stdout.  [default: TRAINER-history.FORM]',
)
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@node_option
def command(
    trainer: str, last: int | None, form: str | None, output: Path | None, force: bool, address: str, as_json: bool
) -> None:
    """Show what came of a job's rounds, or take it away as a file.

    \b
    Exit codes: 0 shown or written; 1 the node refused, or the disk failed; 2 wrong usage, or the file exists;
    3 the node cannot be reached.
    """
    if form is None and (output is not None or force):
        raise click.UsageError("--output and --force go with --csv, --svg or --png")
    with NodeClient(address, WORK_SECONDS) as node:
        if form is not None:
            _write(node, trainer, form, last, output, force)
            return
        records = node.history(trainer, last if last or as_json else SHOWN)
    if as_json:
        print_json(records)
    elif not records:
        click.echo(f"{printable(trainer)}: no rounds yet")
    else:
        print_table(history_table(records))
        for record in records:
            for line in reasons(record):
                click.echo(line)


def history_table(records: list[View]) -> Table:
    """One row per round, oldest first."""
    shown = table("round", "by", "nodes", "pre", "post", "seconds", "sent", "received", "outcome")
    for record in records:
        moved, seconds = record.get("bytes") or {}, record.get("seconds") or {}
        shown.add_row(
            printable(record.get("round")),
            printable(record.get("initiator")),
            str(len(record.get("contributors") or ())),
            accuracy(record.get("pre_fedavg_accuracy")),
            accuracy(record.get("post_fedavg_accuracy")),
            f"{sum(seconds.values()):.2f}",
            printable(moved.get("sent", "")),
            printable(moved.get("received", "")),
            printable(record.get("outcome")),
        )
    return shown


def reasons(record: View) -> list[str]:
    """What was decided, and on which figures."""
    number, decision = printable(record.get("round")), record.get("decision")
    lines = (
        [f"round {number} was started by the schedule: {printable(record['why'])}"] if record.get("why") else []
    )
    if isinstance(decision, dict):
        over = (
            f"the goal is {printable(decision['over']).replace('_', ' ')}" if decision.get("over") else "goes on"
        )
        lines.append(f"after round {number}: {over}: {printable(decision.get('words'))}")
    return lines


def _write(node: NodeClient, trainer: str, form: str, last: int | None, output: Path | None, force: bool) -> None:
    target = output or Path(f"{Path(trainer).name}-history.{form}")
    if str(target) != "-" and target.exists() and not force:
        raise click.UsageError(f"{target} exists; --force writes over, --output names another file")
    with node.history_file(trainer, form, last) as (_, parts):
        if str(target) == "-":
            for part in parts:
                click.echo(part, nl=False)
            return
        size = write_file(target, parts)
    click.echo(f"{target}: {size:,} bytes")
