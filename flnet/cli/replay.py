"""`flnet history --round N`: a past round step by step, as the page shows it."""

from __future__ import annotations

import click

from flnet.cli.client import View
from flnet.cli.output import accuracy, print_table, printable, table
from flnet.node.replay import STATES


def print_replay(trainer: str, told: View) -> None:
    """The steps of a round, what each node did, and which events are not kept any more."""
    record = told.get("record")
    if isinstance(record, dict):
        before, after = accuracy(record.get("pre_fedavg_accuracy")), accuracy(record.get("post_fedavg_accuracy"))
        click.echo(
            f"round {printable(told.get('round'))} of {printable(trainer)}, started by "
            f"{printable(record.get('initiator'))}: {printable(record.get('outcome'))}; accuracy {before} before "
            f"averaging, {after} after"
        )
    else:
        click.echo(
            f"round {printable(told.get('round'))} of {printable(trainer)} is open, or has no record any more"
        )
    for words in told.get("missing") or ():
        click.echo(printable(words))
    for step in told.get("steps") or ():
        click.echo(f"{step['seconds']:+9.2f} s  {printable(step['node'])}: {printable(step['text'])}")
    shown = table("node", "what it did", "why")
    for node, state in (told.get("nodes") or {}).items():
        shown.add_row(
            printable(node), STATES.get(state["state"], printable(state["state"])), printable(state["why"])
        )
    print_table(shown)
