"""`flnet labels`: how the classes of a node's own labels correspond to those in which the model answers."""

from __future__ import annotations

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable, short

__all__ = ["command", "waiting_line"]


@click.command("labels")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one that is held]")
@node_option
def command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show how this node's label space corresponds to that of the answers (FLNET_LABELS).

    A row for each own class, a column for each class of the answers: the chance that a row of that class carries
    this label. Of an estimate the standard deviation stands behind it, and in brackets how often the model was
    sure of the class where the row had that label. No peer is told any of it, but for counts that all nodes pool.

    \b
    Exit codes: 0 shown; 1 there is nothing to show; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        found = node.findings(trainer, "labels", digest)
    if as_json:
        print_json(found)
        return
    here, there = printable(found["space"]["id"]), printable(found["desired"]["id"])
    how = "estimated" if found.get("estimated") else "as the labels file says it"
    click.echo(f"{here} (rows) and {there} (columns), {how}")
    if found.get("matrix") is None:
        click.echo("there is no estimate yet")
    else:
        print_table(matrix_table(found))
    if line := waiting_line(found.get("waiting")):
        click.echo(line)
    if found.get("pooled"):
        click.echo(
            "counts are pooled: they are the mean of the nodes that count, for as many rows as are here, and each "
            "of these nodes tells the others how often its labels occur"
        )
    click.echo(f"model {short(found['model'].get('digest'))}")


def matrix_table(found: View) -> Table:
    """The matrix; of an estimate each entry with its deviation and its count, and the counts of each column."""
    shown = table("", *(printable(name) for name in found["desired"]["classes"]))
    deviation, counts = found.get("deviation"), found.get("counts")
    for row, name in enumerate(found["space"]["classes"]):
        cells = [f"{value:.3f}" for value in found["matrix"][row]]
        if deviation and counts:
            more = zip(cells, deviation[row], counts[row], strict=True)
            cells = [f"{cell} ±{spread:.3f} ({count})" for cell, spread, count in more]
        shown.add_row(printable(name), *cells)
    if counts:
        shown.add_row("rows behind it", *(str(sum(column)) for column in zip(*counts, strict=True)))
    return shown


def waiting_line(waiting: View | None) -> str:
    """Why the own labels do not teach yet; empty where they do."""
    if not waiting:
        return ""
    return (
        f"these labels do not teach yet: they do from round {waiting['from_round']} on, once the model is sure "
        f"of {100 * waiting['needed']:.0f} % of the rows; now of {100 * waiting['share']:.0f} % of "
        f"{waiting['judged']}"
    )
