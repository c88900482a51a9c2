"""Commands for the models that a node keeps: `flnet models` lists, pins and restores them, `flnet export` writes a file."""

from __future__ import annotations

import re
from pathlib import Path

import click

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.epochs import is_vertical
from flnet.cli.output import accuracy, print_json, print_table, printable, short, table, write_file

BEFORE = (
    "The next round starts from this model on all nodes if it is started at this node. If another node starts the "
    "next round first, it starts from the model that is in use there, and going back has no effect. The rounds "
    "since then stay in the history."
)


@click.command("models")
@click.argument("trainer")
@click.option("--pin", metavar="DIGEST", help="Keep this model until it is unpinned.")
@click.option("--unpin", metavar="DIGEST", help="Do not keep this model any longer than others.")
@click.option("--restore", metavar="DIGEST", help="Go back to this model, after a confirmation.")
@click.option("--yes", is_flag=True, help="Do not ask for the confirmation.")
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
    """List the models that a node keeps; pin, unpin or restore one.

    A model is named by its digest or a prefix of it. The list is shown after the change.

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
        models, job = node.models(trainer), node.job(trainer)
    if as_json:
        print_json(models)
    elif is_vertical(job):
        click.echo(
            f"{printable(trainer)}: each node keeps its own part of the model, and no other one can have it"
        )
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


# A file name that is not a path, even from an untrusted node.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


ENDINGS = {"safetensors": "safetensors", "onnx": "onnx", "folder": "zip", "html": "html"}  # of files, by format

_DIGEST_LINE = re.compile(rb"^\| digest \| `([0-9a-f]{64})` \|$", re.MULTILINE)
_HEAD_BYTES = 64 * 1024  # of a card, among which its digest stands


@click.command("export")
@click.argument("trainer")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(ENDINGS)),
    default="safetensors",
    show_default=True,
    help="folder: a zip file with the ONNX file and a Python program that predicts without flnet. html: one page that "
    "predicts offline in a browser, for small networks.",
)
@click.option(
    "--model",
    "which",
    type=click.Choice(["common", "personal"]),
    help="Which of the two, where the node has a personal model.  [default: safetensors: both; others: the one that "
    "answers alone]",
)
@click.option("--digest", help="Which model, by the beginning of its digest.  [default: the one in use]")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    help="File, or folder to write it into under its own name.  [default: the working directory]",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@node_option
def export_command(
    trainer: str,
    form: str,
    which: str | None,
    digest: str | None,
    output: Path,
    force: bool,
    address: str,
    as_json: bool,
) -> None:
    """Write a model to a file.

    Its card, in Markdown, is written next to it, and serves all formats of the model. No file is left behind half written.

    \b
    Exit codes: 0 written; 1 refused by the node, or the disk failed; 2 wrong usage, or a file exists and there
    was no --force; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        chosen = digest or _held(node, trainer)
        with node.model(trainer, chosen, f"{form}-{which}" if which else form) as (name, parts):
            target = output / _safe(name, f"{trainer}.{ENDINGS[form]}") if output.is_dir() else output
            card = _card_beside(target, chosen, force)
            size = write_file(target, parts)
        with node.card(trainer, chosen) as (_, parts):
            # Its code loads files by the names that the node gave them.
            whole = b"".join(parts)
            write_file(card, [whole.replace(f'"{Path(name).stem}.'.encode(), f'"{target.stem}.'.encode())])
    if as_json:
        print_json({"file": str(target), "card": str(card), "bytes": size, "digest": chosen})
    else:
        click.echo(f"{target}: {size:,} bytes, model {short(chosen)} of {printable(trainer)}; card: {card}")


def _held(node: NodeClient, trainer: str) -> str:
    models = node.models(trainer)
    return str(next((model["digest"] for model in models if model.get("held")), ""))


def _safe(name: str, otherwise: str) -> str:
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.]", "_", otherwise)


def _is_card_of(path: Path, digest: str) -> bool:
    """Whether a file is the card of the model with this digest, or of one whose digest begins so."""
    if path.suffix != ".md" or not path.is_file() or not digest:
        return False
    with path.open("rb") as file:
        stated = _DIGEST_LINE.search(file.read(_HEAD_BYTES))
    return stated is not None and stated[1].decode().startswith(digest.lower())


def _card_beside(target: Path, digest: str, force: bool) -> Path:
    """The path of the card, after checking that both files may be written.

    The card of another format of the same model is written again: it is the same one.
    """
    card = target.with_suffix(".md")
    if card == target:
        raise click.UsageError(f"{target} would be the card's own name; give the model another ending")
    existing = [str(path) for path in (target, card) if path.exists() and not _is_card_of(path, digest)]
    if existing and not force:
        raise click.UsageError(
            f"{' and '.join(existing)} exists; --force writes over, --output names another file"
        )
    return card
