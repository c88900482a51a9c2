"""`flnet audit`: who contributed to a model, and whether that is what they signed."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable, share, short
from flnet.contributions import Contribution
from flnet.errors import LocalError
from flnet.fingerprints import check_key
from flnet.fingerprints import short as short_key

__all__ = ["command", "judged"]

SIGNED, UNSIGNED, WRONG, LEFT_OUT = "signed", "not signed", "WRONG", "left out"
MAX_CARD_BYTES = 4 * 1024 * 1024
_BLOCK = re.compile(r"^```json\n(\{.*\})\n```$", re.MULTILINE)


@click.command("audit")
@click.argument("trainer", required=False)
@click.option("--model", metavar="DIGEST", help="Only the round whose average has this digest, or begins so.")
@click.option("--last", type=click.IntRange(1), default=100, show_default=True, help="Rounds to look at.")
@click.option(
    "--card", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model's card instead."
)
@node_option
def command(
    trainer: str | None, model: str | None, last: int, card: Path | None, address: str, as_json: bool
) -> None:
    """Check what nodes stated of their updates: of the rounds of TRAINER on a node, or on a model's card.

    A statement says whose the update is, of which round, with what its training began, and from how many examples.
    Nodes of a mesh with keys sign it with their own. What is WRONG was changed after it was signed. The weight is
    the update's share of the average, where the merging rule gives one; it is what the node that made the average
    says, and nobody signs it.

    \b
    Exit codes: 0 nothing is wrong; 1 something is, or it was refused; 2 wrong usage; 3 the node cannot be reached.
    """
    if (trainer is None) == (card is None):
        raise click.UsageError("give a trainer, or --card with a file")
    if card is not None:
        trainer, records = _from_card(card)
    else:
        assert trainer is not None
        with NodeClient(address) as node:
            records = node.history(trainer, last)
    found = [one for record in records for one in _of_round(trainer, record) if _is_asked(record, model)]
    if as_json:
        print_json(found)
    elif not found:
        click.echo("no round here says who contributed to it")
    else:
        _print(found)
    if any(one["verdict"] == WRONG for one in found):
        raise click.exceptions.Exit(1)


def judged(stated: Contribution) -> str:
    """Whether a contribution is signed, and with the key that it names."""
    if not stated.is_signed:
        return UNSIGNED
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - other commands do without
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(check_key(stated.key)))
        key.verify(base64.b64decode(stated.signature, validate=True), stated.statement())
    except (InvalidSignature, ValueError, binascii.Error):
        return WRONG
    return SIGNED


def _of_round(trainer: str, record: Mapping[str, Any]) -> Iterator[View]:
    round, initiator = record.get("round"), record.get("initiator")
    yield from _left_out(record)
    for view in record.get("contributions") or ():
        said = {
            "round": view.get("round", round),  # without common rounds, the version that it is
            "model": record.get("digest"),
            "peer": view.get("peer"),
            "key": view.get("key", ""),
        }
        said["examples"], said["weight"] = view.get("examples"), _weighed(record, view.get("peer")).get("weight")
        if not view.get("digest"):  # who stated nothing, as in the thesis' form
            yield {**said, "verdict": UNSIGNED}
            continue
        try:
            stated = Contribution.read(view, trainer, int(f"{round}"), str(initiator))
        except (KeyError, TypeError, ValueError):
            yield {**said, "verdict": WRONG}
        else:
            yield {**said, "verdict": judged(stated)}


def _left_out(record: Mapping[str, Any]) -> Iterator[View]:
    """The updates that came and are not in the average; what was stated of them is not kept."""
    weighed, stated = record.get("weighed"), record.get("contributions") or ()
    here = {view.get("peer") for view in stated}
    for peer in sorted(weighed) if isinstance(weighed, dict) else ():
        reason = _weighed(record, peer).get("reason")
        if not reason or peer in here:
            continue
        where = {"round": record.get("round"), "model": record.get("digest"), "peer": peer, "key": ""}
        yield {**where, "examples": None, "weight": 0.0, "verdict": LEFT_OUT, "reason": reason}


def _weighed(record: Mapping[str, Any], peer: object) -> Mapping[str, Any]:
    """How an update counted, as the node or the card tells it."""
    weighed = record.get("weighed")
    one = weighed.get(peer) if isinstance(weighed, dict) and isinstance(peer, str) else None
    return one if isinstance(one, dict) else {}


def _is_asked(record: Mapping[str, Any], model: str | None) -> bool:
    return model is None or str(record.get("digest") or "").startswith(model.lower())


def _from_card(card: Path) -> tuple[str, list[View]]:
    """The trainer of a card, and the record on it.

    Raises:
        LocalError: nothing on it says who contributed.
    """
    with card.open("rb") as file:
        text = file.read(MAX_CARD_BYTES).decode(errors="replace")
    for block in _BLOCK.findall(text):
        try:
            said = json.loads(block)
        except (ValueError, RecursionError):
            continue
        if isinstance(said.get("contributions"), list) and isinstance(said.get("trainer"), str):
            views = [one for one in said["contributions"] if isinstance(one, dict)]
            return said["trainer"], [{**said, "contributions": views}]
    raise LocalError(f"{card} does not say who contributed; cards of models that were never averaged do not")


def _print(found: list[View]) -> None:
    shown = table("round", "model", "node", "key", "examples", "weight", "statement")
    for one in found:
        shown.add_row(
            printable(one["round"]),
            short(one["model"]),
            printable(one["peer"]),
            _key(one["key"]),
            printable("-" if one["examples"] is None else one["examples"]),
            share(one["weight"]),
            str(one["verdict"]),
        )
    print_table(shown)
    for one in found:
        if one["verdict"] == LEFT_OUT:
            who = f"round {printable(one['round'])}: {printable(one['peer'])}"
            click.echo(f"{who} was left out: {printable(one['reason'])}")


def _key(key: object) -> str:
    try:
        return short_key(check_key(str(key))) if key else "-"
    except ValueError:
        return "?"
