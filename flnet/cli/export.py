"""`flnet export`: take a model away as a file, with its card beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

from flnet.cli.client import WORK_SECONDS, NodeClient, node_option
from flnet.cli.tables import print_json
from flnet.cli.text import printable, short

__all__ = ["command", "write_file"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")  # a file name that is no path, whoever gave it


@click.command("export")
@click.argument("trainer")
@click.option(
    "--format", "form", type=click.Choice(["safetensors", "onnx"]), default="safetensors", show_default=True
)
@click.option(
    "--model",
    "which",
    type=click.Choice(["common", "personal"]),
    help="Which of the two, where the node has a personal model.  [default: safetensors: both; ONNX: the one that "
    "answers alone]",
)
@click.option("--digest", help="Which model, by the beginning of its digest.  [default: the one that is held]")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    help="File, or folder to write it into under its own name.  [default: the working directory]",
)
@click.option("--force", is_flag=True, help="Write over files that exist.")
@node_option
def command(
    trainer: str,
    form: str,
    which: str | None,
    digest: str | None,
    output: Path,
    force: bool,
    address: str,
    as_json: bool,
) -> None:
    """Take a model away as a file.

    Its card, in Markdown, is written beside it. A file is there whole or not at all.

    \b
    Exit codes: 0 written; 1 refused by the node, or the disk failed; 2 wrong usage, or a file exists and there
    was no --force; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        chosen = digest or _held(node, trainer)
        with node.model(trainer, chosen, f"{form}-{which}" if which else form) as (name, parts):
            target = output / _safe(name, f"{trainer}.{form}") if output.is_dir() else output
            card = _card_beside(target, force)
            size = write_file(target, parts)
        with node.card(trainer, chosen) as (_, parts):
            write_file(card, parts)
    if as_json:
        print_json({"file": str(target), "card": str(card), "bytes": size, "digest": chosen})
    else:
        click.echo(f"{target}: {size:,} bytes, model {short(chosen)} of {printable(trainer)}; card: {card}")


def _held(node: NodeClient, trainer: str) -> str:
    models = node.models(trainer)
    return str(next((model["digest"] for model in models if model.get("held")), ""))


def _safe(name: str, otherwise: str) -> str:
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.]", "_", otherwise)


def _card_beside(target: Path, force: bool) -> Path:
    """Where the card goes; both files may be written."""
    card = target.with_suffix(".md")
    if card == target:
        raise click.UsageError(f"{target} would be the card's own name; give the model another ending")
    there = [str(path) for path in (target, card) if path.exists()]
    if there and not force:
        raise click.UsageError(f"{' and '.join(there)} exists; --force writes over, --output names another file")
    return card


def write_file(target: Path, parts: Iterable[bytes]) -> int:
    """Write a file whole or not at all; its size in bytes."""
    from flnet.training.files import replacing  # noqa: PLC0415  brings numpy along, which other commands spare

    size = 0
    try:
        with replacing(target) as file:
            for part in parts:
                file.write(part)
                size += len(part)
        target.chmod(0o666 & ~_umask())  # a temporary file is its owner's alone
    except OSError as exc:
        raise click.ClickException(f"{target} cannot be written: {exc.strerror or exc}") from exc
    return size


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
