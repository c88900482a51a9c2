"""The results of a job's rounds (`flnet history`), and the nodes that contributed to a model (`flnet audit`)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.epochs import epochs_table, is_vertical
from flnet.cli.output import (
    accuracy,
    fairness_words,
    mesh_words,
    metric_words,
    numbers,
    print_json,
    print_table,
    printable,
    share,
    short,
    table,
    write_file,
)
from flnet.cli.replay import print_replay
from flnet.errors import LocalError
from flnet.fingerprints import check_key
from flnet.fingerprints import short as short_key
from flnet.params.params import PeerId
from flnet.protocol.messages import LAST_ROUND
from flnet.protocol.segments import SumPart
from flnet.protocol.updates import Contribution, RoundKey

SHOWN = 20  # newest rounds, if nobody says how many


@click.command("history")
@click.argument("trainer")
@click.option("--last", type=click.IntRange(1, 999_999_999), help="Only this many of the newest rounds.")
@click.option(
    "--round", "number", type=click.IntRange(0, LAST_ROUND), help="One round step by step, from the kept events."
)
@click.option("--csv", "form", flag_value="csv", help="Write all figures as CSV.")
@click.option("--svg", "form", flag_value="svg", help="Draw accuracy, participants, seconds and bytes as SVG.")
@click.option("--png", "form", flag_value="png", help="The same as PNG; the node needs Pillow.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help='File to write; "-" for stdout.  [default: TRAINER-history.FORM]',
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@node_option
def command(
    trainer: str,
    last: int | None,
    number: int | None,
    form: str | None,
    output: Path | None,
    force: bool,
    address: str,
    as_json: bool,
) -> None:
    """Show the results of a job's rounds, or of one round step by step, or write them to a file.

    \b
    Exit codes: 0 shown or written; 1 the node refused, or the disk failed; 2 wrong usage, or the file exists;
    3 the node cannot be reached.
    """
    if form is None and (output is not None or force):
        raise click.UsageError("--output and --force go with --csv, --svg or --png")
    if number is not None and (form is not None or last is not None):
        raise click.UsageError("--round goes without --last, --csv, --svg and --png")
    with NodeClient(address, WORK_SECONDS) as node:
        if number is not None:
            told = node.replay(trainer, number)
            print_json(told) if as_json else print_replay(trainer, told)
            return
        if form is not None:
            _write(node, trainer, form, last, output, force)
            return
        records = node.history(trainer, last if last or as_json else SHOWN)
        shows_epochs = not as_json and bool(records) and is_vertical(node.job(trainer))
    if as_json:
        print_json(records)
    elif not records:
        click.echo(f"{printable(trainer)}: no rounds yet")
    else:
        print_table(epochs_table(records) if shows_epochs else history_table(records))
        for record in records:
            for line in reasons(record):
                click.echo(line)
        if isinstance(mesh := records[-1].get("mesh"), dict):
            further = metric_words(numbers(mesh.get("figures")), every=True)
            words = filter(None, [mesh_words(mesh), further, fairness_words(mesh)])
            click.echo(f"mesh of round {printable(records[-1].get('round'))}: {'; '.join(words)}")


def history_table(records: list[View]) -> Table:
    """One row per round, oldest first."""
    shown = table("round", "by", "nodes", "pre", "post", "mesh", "seconds", "sent", "received", "outcome")
    for record in records:
        moved, seconds = record.get("bytes") or {}, record.get("seconds") or {}
        shown.add_row(
            printable(record.get("round")),
            printable(record.get("initiator")),
            "-" if record.get("taken_from") else str(len(record.get("contributors") or ())),
            accuracy(record.get("pre_fedavg_accuracy")),
            accuracy(record.get("post_fedavg_accuracy")),
            accuracy((record.get("mesh") or {}).get("accuracy")),
            f"{sum(seconds.values()):.2f}",
            printable(moved.get("sent", "")),
            printable(moved.get("received", "")),
            printable(record.get("outcome")),
        )
    return shown


def reasons(record: View) -> list[str]:
    """The decisions after a round, with their reasons, its secure sum, and what privacy the own update has spent."""
    number, decision = printable(record.get("round")), record.get("decision")
    lines = (
        [f"round {number} was started by the schedule: {printable(record['why'])}"] if record.get("why") else []
    )
    if isinstance(decision, dict):
        over = (
            f"the goal is {printable(decision['over']).replace('_', ' ')}" if decision.get("over") else "goes on"
        )
        rows = f" (on {printable(decision['rows'])} rows)" if decision.get("rows") else ""
        lines.append(f"after round {number}: {over}: {printable(decision.get('words'))}{rows}")
    return lines + sum_lines(record) + privacy_lines(record) + disputed_lines(record)


def disputed_lines(record: View, trainer: str | None = None) -> list[str]:
    """Who told nodes different things in a round that was averaged in segments, or stated wrong results.

    Args:
        trainer: to check what these nodes signed; None: that is not said.
    """
    disputed, lines = record.get("disputed"), []
    for peer, dispute in sorted(disputed.items()) if isinstance(disputed, dict) else ():
        why = f"round {printable(record.get('round'))}: {printable(peer)}: {printable(dispute.get('reason'))}"
        signed = dispute.get("statements") or ()
        verdicts = (
            [] if trainer is None else [_verdict_of_disputed(view, trainer, record, peer) for view in signed]
        )
        lines.append(f"{why} (what it stated is: {', '.join(verdicts)})" if verdicts else why)
    return lines


def _verdict_of_disputed(view: View, trainer: str, record: View, peer: str) -> str:
    try:
        key = RoundKey(int(record["round"]), PeerId(record["initiator"]))
        if "results" not in view:
            stated = Contribution.read({**view, "peer": peer}, trainer, key.number, key.initiator)
            return verdict_of(stated)
        part = SumPart.model_validate(view)
        return verdict_of_bytes(part.key or "", part.signature or "", part.statement(peer, trainer, key))
    except (KeyError, TypeError, ValueError):
        return WRONG


def sum_lines(record: View) -> list[str]:
    """That only the sum of the updates of a round was opened; nothing where they were not masked."""
    secure = record.get("secure")
    if not isinstance(secure, dict):
        return []
    return [f"secure sum of round {printable(record.get('round'))}: {printable(secure.get('words'))}"]


def privacy_lines(record: View) -> list[str]:
    """What the node had spent of its privacy budget with its update of a round; nothing where it promises nothing."""
    privacy = record.get("privacy")
    if not isinstance(privacy, dict):
        return []
    return [f"privacy with round {printable(record.get('round'))}: {printable(privacy.get('words'))}"]


def _write(node: NodeClient, trainer: str, form: str, last: int | None, output: Path | None, force: bool) -> None:
    target = output or Path(f"{Path(trainer).name}-history.{form}")
    if str(target) != "-" and target.exists() and not force:
        raise click.UsageError(f"{target} exists; --force writes over, --output names another file")
    with node.history_file(trainer, form, last) as (_, parts):
        if str(target) == "-":
            for part in parts:
                click.echo(part, nl=False)
            return
        size = write_file(target, parts)
    click.echo(f"{target}: {size:,} bytes")


SIGNED, UNSIGNED, WRONG, LEFT_OUT, IN_SUM = "signed", "not signed", "WRONG", "left out", "in the sum"
OF_SUMS = (
    "The contributors of a secure sum are those on whom its members agreed by vote. Nobody signs a statement about a "
    "single update, because nobody sees one; its examples are known as part of the sum only."
)
MAX_CARD_BYTES = 4 * 1024 * 1024
_BLOCK = re.compile(r"^```json\n(\{.*\})\n```$", re.MULTILINE)


@click.command("audit")
@click.argument("trainer", required=False)
@click.option(
    "--model", metavar="DIGEST", help="Only the round whose average has this digest, or a digest with this prefix."
)
@click.option(
    "--last", type=click.IntRange(1), default=100, show_default=True, help="Number of newest rounds to check."
)
@click.option(
    "--card", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model's card instead."
)
@node_option
def audit_command(
    trainer: str | None, model: str | None, last: int, card: Path | None, address: str, as_json: bool
) -> None:
    """Verify the signed statements of nodes about their updates: of TRAINER's rounds on a node, or on a model card.

    A statement names the node, the round, the model that its training started from, and the number of examples.
    In a mesh with keys, each node signs it. WRONG means that a statement was changed after it was signed. The
    weight is the update's share of the average, if the aggregation rule gives one. It is not signed: the node that
    computed the average reports it. Of a secure sum (FLNET_AGGREGATION=secure) there are no statements: its members
    agree by vote whose updates are in it.

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
    statements = [
        statement for record in records for statement in _of_round(trainer, record) if _is_asked(record, model)
    ]
    if as_json:
        print_json(statements)
    elif not statements:
        click.echo("no round here says who contributed to it")
    else:
        _print_statements(statements)
        shown = [record for record in records if _is_asked(record, model)]
        for record in shown:
            for line in (*sum_lines(record), *privacy_lines(record), *disputed_lines(record, trainer)):
                click.echo(line)
        if any(isinstance(record.get("secure"), dict) for record in shown):
            click.echo(OF_SUMS)
    if any(statement["verdict"] == WRONG for statement in statements):
        raise click.exceptions.Exit(1)


def verdict_of(stated: Contribution) -> str:
    """Whether a contribution is signed, and by the key that it names."""
    return verdict_of_bytes(stated.key, stated.signature, stated.statement()) if stated.is_signed else UNSIGNED


def verdict_of_bytes(key: str, signature: str, statement: bytes) -> str:
    """Whether the owner of a key (base64) signed these bytes."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - other commands do without
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(check_key(key)))
        public.verify(base64.b64decode(signature, validate=True), statement)
    except (InvalidSignature, ValueError, binascii.Error):
        return WRONG
    return SIGNED


def _of_round(trainer: str, record: Mapping[str, Any]) -> Iterator[View]:
    round, initiator = record.get("round"), record.get("initiator")
    yield from _left_out(record)
    for view in record.get("contributions") or ():
        statement = {
            "round": view.get("round", round),  # without common rounds, the version that it is
            "model": record.get("digest"),
            "peer": view.get("peer"),
            "key": view.get("key", ""),
        }
        statement["examples"], statement["weight"] = (
            view.get("examples"),
            _weighed(record, view.get("peer")).get("weight"),
        )
        if not view.get("digest"):  # who stated nothing, as in the thesis' form
            yield {**statement, "verdict": IN_SUM if isinstance(record.get("secure"), dict) else UNSIGNED}
            continue
        try:
            stated = Contribution.read(view, trainer, int(f"{round}"), str(initiator))
        except (KeyError, TypeError, ValueError):
            yield {**statement, "verdict": WRONG}
        else:
            yield {**statement, "verdict": verdict_of(stated)}


def _left_out(record: Mapping[str, Any]) -> Iterator[View]:
    """The updates that arrived but were left out of the average; their statements are not stored."""
    weighed, stated = record.get("weighed"), record.get("contributions") or ()
    here = {view.get("peer") for view in stated}
    for peer in sorted(weighed) if isinstance(weighed, dict) else ():
        reason = _weighed(record, peer).get("reason")
        if not reason or peer in here:
            continue
        where = {"round": record.get("round"), "model": record.get("digest"), "peer": peer, "key": ""}
        yield {**where, "examples": None, "weight": 0.0, "verdict": LEFT_OUT, "reason": reason}


def _weighed(record: Mapping[str, Any], peer: object) -> Mapping[str, Any]:
    """How an update counted, as reported by the node or the card."""
    weighed = record.get("weighed")
    entry = weighed.get(peer) if isinstance(weighed, dict) and isinstance(peer, str) else None
    return entry if isinstance(entry, dict) else {}


def _is_asked(record: Mapping[str, Any], model: str | None) -> bool:
    return model is None or str(record.get("digest") or "").startswith(model.lower())


def _from_card(card: Path) -> tuple[str, list[View]]:
    """Read the trainer and the record of a model card.

    Raises:
        LocalError: nothing on it says who contributed.
    """
    with card.open("rb") as file:
        text = file.read(MAX_CARD_BYTES).decode(errors="replace")
    for block in _BLOCK.findall(text):
        try:
            content = json.loads(block)
        except (ValueError, RecursionError):
            continue
        if isinstance(content.get("contributions"), list) and isinstance(content.get("trainer"), str):
            views = [view for view in content["contributions"] if isinstance(view, dict)]
            return content["trainer"], [{**content, "contributions": views}]
    raise LocalError(f"{card} does not say who contributed; cards of models that were never averaged do not")


def _print_statements(statements: list[View]) -> None:
    shown = table("round", "model", "node", "key", "examples", "weight", "statement")
    for statement in statements:
        shown.add_row(
            printable(statement["round"]),
            short(statement["model"]),
            printable(statement["peer"]),
            _key(statement["key"]),
            printable("-" if statement["examples"] is None else statement["examples"]),
            share(statement["weight"]),
            str(statement["verdict"]),
        )
    print_table(shown)
    for statement in statements:
        if statement["verdict"] == LEFT_OUT:
            who = f"round {printable(statement['round'])}: {printable(statement['peer'])}"
            click.echo(f"{who} was left out: {printable(statement['reason'])}")


def _key(key: object) -> str:
    try:
        return short_key(check_key(str(key))) if key else "-"
    except ValueError:
        return "?"
