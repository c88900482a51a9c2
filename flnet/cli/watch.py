"""`flnet watch`: the event feed of a node, line by line."""

from __future__ import annotations

import json
import time

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.text import printable
from flnet.errors import PeerUnreachable

__all__ = ["command"]


@click.command("watch")
@node_option
@click.option(
    "--after", type=click.IntRange(min=0), help="Begin behind this event; without it, with what is next."
)
def command(address: str, as_json: bool, after: int | None) -> None:
    """Print what happens at a node, as it happens.

    It goes on until Ctrl-C; with --json there is one object per line.

    \b
    Exit codes: 0 ended by Ctrl-C; 1 the node refused; 2 wrong usage; 3 the node cannot be reached, or ended.
    """
    try:
        with NodeClient(address) as node:
            for event in node.events(after):
                click.echo(json.dumps(event) if as_json else line(event))
    except KeyboardInterrupt:
        return
    raise PeerUnreachable(f"the node at {address} has ended the feed")


def line(event: View) -> str:
    """One event as a line: time, trainer where there is one, the sentence."""
    at = event.get("at")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else "--:--:--"
    trainer = f"{event['trainer']}: " if event.get("trainer") else ""
    return printable(f"{clock} {trainer}{event.get('text') or event.get('kind')}")
