"""`flnet take-over`: list the no-code trainers that other nodes offer, and take one over at a running node."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.data import form_of, transfer_bar
from flnet.cli.output import listed, print_json, print_table, printable, short, table
from flnet.errors import ImportRefused


@click.command("take-over")
@click.argument("name", required=False)
@click.argument("source", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--from", "peer", default="", metavar="NODE", help="The node that offers it, if several do.")
@click.option("--digest", default="", metavar="DIGEST", help="Only if its digest begins so, as the list shows it.")
@node_option
def command(name: str | None, source: Path | None, peer: str, digest: str, address: str, as_json: bool) -> None:
    """List the no-code trainers that other nodes offer, or take over the trainer NAME.

    SOURCE is this node's own table or folder of pictures for it; without it, the data come later. What another node
    offers is a description of data and network, never code: it is checked as on the page of the data.

    \b
    Exit codes: 0 listed or taken over; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    if name is None and (peer or digest):
        raise click.UsageError("--from and --digest go with NAME")
    with NodeClient(address) as node:
        offers = node.offers()
        if name is None:
            return print_json(offers) if as_json else _show(offers)
        chosen = _chosen(offers, name, peer, digest)
        taken = _take(node, chosen, source)
    if as_json:
        return print_json(taken)
    click.echo("\n".join(map(printable, str(chosen["lines"]).strip().splitlines())))
    click.echo(f"{printable(taken['trainer_id'])} was taken over from {printable(chosen['peer'])}.")
    if taken["must_be_named"]:
        click.echo("FLNET_TRAINERS names the trainers of this node: add it there before the next start.")
    return None


def _show(offers: Sequence[View]) -> None:
    if not offers:
        click.echo("no other node offers a trainer that this node does not have")
        return
    shown = table("trainer", "from", "kind", "digest", "label")
    for offer in offers:
        described: Any = offer["description"]
        words = (
            offer["id"],
            offer["peer"],
            described.get("kind"),
            short(offer["digest"]),
            described.get("label", ""),
        )
        shown.add_row(*map(printable, words))
    print_table(shown)
    for offer in offers:
        click.echo(f"\n{printable(offer['id'])} of {printable(offer['peer'])}:")
        click.echo("\n".join(f"    {printable(line)}" for line in str(offer["lines"]).strip().splitlines()))


def _chosen(offers: Sequence[View], name: str, peer: str, digest: str) -> View:
    """The offer that the person means.

    Raises:
        ImportRefused: there is none, or there are several that differ.
    """
    found = [
        offer
        for offer in offers
        if offer["id"] == name and peer in ("", offer["peer"]) and str(offer["digest"]).startswith(digest)
    ]
    if not found:
        known = listed(printable(f"{offer['id']} of {offer['peer']}") for offer in offers) or "nothing"
        raise ImportRefused(f"no node offers this trainer {printable(name)}; offered is {known}")
    if len({offer["digest"] for offer in found}) > 1:
        nodes = listed(printable(offer["peer"]) for offer in found)
        raise ImportRefused(f"{nodes} offer trainers {printable(name)} that differ: choose one with --from")
    return found[0]


def _take(node: NodeClient, offer: View, source: Path | None) -> View:
    boundary = secrets.token_hex(16)
    fields = {"peer": str(offer["peer"]), "name": str(offer["id"]), "digest": str(offer["digest"])}
    with transfer_bar(source) if source is not None else nullcontext(lambda count: None) as moved:
        return node.take_over(form_of(source, boundary, moved, fields), boundary)
