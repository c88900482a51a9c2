"""`flnet schedule`: when a node starts rounds of a job by itself."""

from __future__ import annotations

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.tables import print_json
from flnet.cli.text import printable

__all__ = ["command", "next_line", "time_words"]


@click.command("schedule")
@click.argument("trainer")
@click.argument("when", required=False)
@click.option("--reset", is_flag=True, help="What the node's settings say (FLNET_TRAIN_WHEN) counts again.")
@node_option
def command(trainer: str, when: str | None, reset: bool, address: str, as_json: bool) -> None:
    """Show or change when this node starts rounds by itself.

    WHEN is one or more of these, apart by commas. Any of the first three starts a round: every 6h (after the last
    round, whoever started it), new 100 (examples that have come), drift 0.05 (accuracy on new test rows is below
    the last one by more than that). All of the others must hold: between 22:00-06:00 (local time),
    battery>=30 (percent, while it feeds the machine), load<=0.8 (of the processors, by other programs). With
    decline, this node also takes no part in rounds of others while they do not. "never" ends it.

    It is kept over restarts.

    \b
    Exit codes: 0 shown or changed; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    if reset and when is not None:
        raise click.UsageError("give a schedule, or --reset")
    with NodeClient(address) as node:
        job = node.plan(trainer, when) if reset or when is not None else node.job(trainer)
    schedule: View = job.get("schedule") or {}
    if as_json:
        print_json(schedule)
        return
    whose = "given by a person" if schedule.get("by_person") else "of the node's settings"
    click.echo(f"{printable(trainer)}: {printable(schedule.get('when', 'never'))} ({whose})")
    if line := next_line(schedule):
        click.echo(line)
    if schedule.get("unwilling"):
        click.echo(f"takes no part in rounds of others now: {printable(schedule['unwilling'])}")


def next_line(schedule: View) -> str:
    """When and why the next round starts by itself; empty if none is to come."""
    if not schedule.get("next_words"):
        return ""
    seconds = schedule.get("next_seconds")
    when = f" in {time_words(seconds)}" if isinstance(seconds, int) and seconds > 0 else ""
    return f"next round{when}: {printable(schedule['next_words'])}"


def time_words(seconds: int) -> str:
    """A duration in its two largest units: "3 h 12 min"."""
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
