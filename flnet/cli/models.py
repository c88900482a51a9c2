"""`flnet models`: the models that a node keeps; pin and unpin them, and go back to one."""

from __future__ import annotations

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import accuracy, printable, short

__all__ = ["command"]

BEFORE = (
    "The next round starts from this model on all nodes if it is started at this node. If another node starts the "
    "next round first, it starts from the model that is in use there, and going back has no effect. The rounds "
    "since then stay in the history."
)


@click.command("models")
@click.argument("trainer")
@click.option("--pin", metavar="DIGEST", help="Keep this model until it is unpinned.")
@click.option("--unpin", metavar="DIGEST", help="Let this model go when its turn comes.")
@click.option("--restore", metavar="DIGEST", help="Go back to this model, after a question.")
@click.option("--yes", is_flag=True, help="Do not ask before going back.")
@node_option
def command(
    trainer: str,
    pin: str | None,
    unpin: str | None,
    restore: str | None,
    yes: bool,
    address: str,
    as_json: bool,
) -> None:
    """List the models that a node keeps, and pin, unpin or go back to one.

    A model is named by its digest, or by the beginning of it. The list is shown as it is afterwards.

    \b
    Exit codes: 0 done; 1 refused, or answered with no; 2 wrong usage; 3 the node cannot be reached.
    """
    if sum(order is not None for order in (pin, unpin, restore)) > 1:
        raise click.UsageError("give one of --pin, --unpin and --restore")
    if restore is not None and not yes:
        click.confirm(f"{BEFORE}\nGo back to {printable(restore)}?", abort=True, err=True)
    with NodeClient(address) as node:
        if pin is not None:
            node.pin(trainer, pin)
        elif unpin is not None:
            node.unpin(trainer, unpin)
        elif restore is not None:
            node.restore(trainer, restore)
        models = node.models(trainer)
    if as_json:
        print_json(models)
    else:
        _print(models)


def _print(models: list[View]) -> None:
    shown = table("model", "round", "averaged from", "accuracy here", "bytes", "adopted from", "")
    for model in models:
        marks = [name for name, key in (("in use", "held"), ("pinned", "pinned")) if model.get(key)]
        shown.add_row(
            short(model.get("digest")),
            _round(model.get("round")),
            printable(model.get("contributors", "-")),
            accuracy(model.get("accuracy")),
            printable(model.get("bytes", "-")),
            printable(model.get("exchanged_with") or "-"),
            ", ".join(marks),
        )
    print_table(shown)


def _round(number: object) -> str:
    return "-" if number is None or number == -1 else printable(number)
