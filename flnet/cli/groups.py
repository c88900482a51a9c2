"""`flnet groups`: how many groups a node's own rows have."""

from __future__ import annotations

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import short

__all__ = ["command"]


@click.command("groups")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one that is held]")
@node_option
def command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show how many groups the rows of this node have (k-means): an elbow, and silhouettes.

    Inertia is the mean squared distance of a row to the middle of its group. A silhouette says how much nearer
    rows are to their own group than to the next one, from -1 to 1. No peer is told any of it.

    \b
    Exit codes: 0 shown; 1 there is nothing to show; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        found = node.findings(trainer, "groups", digest)
    if as_json:
        print_json(found)
        return
    print_table(groups_table(found))
    click.echo(
        f"on {found['judged']} of {found['rows']} own rows; silhouettes compare {found['compared']} of them; the "
        f"inertia bends most at {found['bend']} groups"
    )
    click.echo(f"model {short(found['model'].get('digest'))}")


def groups_table(found: View) -> Table:
    """The common model's groups, and k-means on the own rows alone for each number of groups."""
    shown = table("groups", "inertia", "silhouette", "")
    shown.add_row(*_cells(found["common"]), "the common model")
    for one in found["tried"]:
        shown.add_row(*_cells(one), "own rows alone" + (", bend" if one["k"] == found["bend"] else ""))
    return shown


def _cells(one: View) -> tuple[str, str, str]:
    silhouette = one.get("silhouette")
    return str(one["k"]), f"{one['inertia']:.4g}", "-" if silhouette is None else f"{silhouette:.3f}"
