"""`flnet params`: show and change what a job's rounds are trained with."""

from __future__ import annotations

from collections.abc import Iterable

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable

__all__ = ["command"]

KINDS: dict[str, type[int] | type[float] | type[str]] = {"e": int, "u": float, "b": int, "aggregation": str}
MEANING = {"e": "local epochs", "u": "learning rate", "b": "batch size"}


@click.command("params")
@click.argument("trainer")
@click.argument("changes", nargs=-1, metavar="[e=N] [u=RATE] [b=N] [aggregation=RULE]")
@node_option
def command(trainer: str, changes: tuple[str, ...], address: str, as_json: bool) -> None:
    """Show or change hyper-parameters, and the rule by which updates become one model.

    e is the number of local epochs, u the learning rate, b the batch size. A change counts for the rounds that
    this node starts from now on. The merging rule (such as aggregation=clip,cosine,agg1) is changed between
    rounds, and all nodes need the same one.

    \b
    Exit codes: 0 shown or changed; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    try:
        wanted = parse(changes)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="CHANGES") from exc
    with NodeClient(address) as node:
        job = node.edit(trainer, wanted) if wanted else node.job(trainer)
    hyper: View = job.get("hyper") or {}
    if as_json:
        print_json(hyper)
        return
    if not hyper:
        click.echo(f"{printable(trainer)} has none yet: {printable(job.get('error') or 'it is still loading')}")
        return
    shown = table("", "value", "meaning")
    for name, meaning in MEANING.items():
        shown.add_row(name, printable(hyper.get(name)), meaning)
    if job.get("merging_rule"):
        shown.add_row("aggregation", printable(job["merging_rule"]), "merging rule")
    print_table(shown)


def parse(changes: Iterable[str]) -> dict[str, int | float | str]:
    """Changes from "e=2" and the like.

    Raises:
        ValueError: another name, a value that is no number, or a name that comes twice.
    """
    wanted: dict[str, int | float | str] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in KINDS or name in wanted:
            raise ValueError(f"expected e=, u=, b= or aggregation=, each at most once, got {change!r}")
        try:
            wanted[name] = KINDS[name](value)
        except ValueError as exc:
            kind = "a whole number" if KINDS[name] is int else "a number"
            raise ValueError(f"expected {name}= with {kind}, got {change!r}") from exc
    return wanted
