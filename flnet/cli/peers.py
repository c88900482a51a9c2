"""`flnet peers`: who else is in the mesh."""

from __future__ import annotations

import click

from flnet.cli.client import NodeClient, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable

__all__ = ["command"]


@click.command("peers")
@node_option
def command(address: str, as_json: bool) -> None:
    """List the peers that a node knows.

    \b
    Exit codes: 0 shown; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address) as node:
        peers = node.peers()
    if as_json:
        print_json(peers)
    elif not peers:
        click.echo(f"the node at {address} knows no peers yet")
    else:
        columns = {"id": "peer", "address": "address", "state": "state", "fingerprint": "key", "reason": "reason"}
        shown = table(*columns.values())
        for peer in peers:
            shown.add_row(*(printable(peer.get(name) or "") for name in columns))
        print_table(shown)
