"""`flnet keygen`: the key pair that a node is known by, made before its first start or shown after it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from flnet.cli.text import printable
from flnet.errors import StartError
from flnet.fingerprints import fingerprint, short, words
from flnet.keys.certificate import PAGE_CERTIFICATE, print_of_page
from flnet.keys.own import noted
from flnet.keys.pair import ensure
from flnet.settings import load_settings
from flnet.store.disk.lock import FolderLock
from flnet.training.backend import state_folder

__all__ = ["command"]


@click.command("keygen")
@click.option("--state-path", type=click.Path(path_type=Path), help="The node's folder.  [FLNET_STATE_PATH]")
@click.option("--node-port", type=click.IntRange(1, 65535), help="Of the node whose usual folder is meant.")
@click.option(
    "--new-identity", is_flag=True, help="Set the old key aside and make another: peers see another node."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, state_path: Path | None, node_port: int | None, new_identity: bool, as_json: bool) -> None:
    """Make a node's key pair if it has none, and show the public key and its fingerprint.

    The first start of a node does the same. The private key stays in the folder and is never shown. In a pinned
    mesh the certificate that browsers are shown for the page is named too, as they name it.

    \b
    Exit codes: 0 shown; 1 the key is damaged or cannot be written, or a node runs on the folder; 2 wrong usage.
    """
    options: dict[str, Any] = {"state_path": state_path, "node_port": node_port}
    folder = state_folder(load_settings({k: v for k, v in options.items() if v is not None}, os.environ))
    key = _key(folder, new_identity)
    shown = {"folder": str(folder), "key": key, "fingerprint": fingerprint(key), "short": short(key)}
    shown["words"] = words(key)
    if (folder / PAGE_CERTIFICATE).exists():  # of a node of a pinned mesh
        shown["page"] = f"SHA-256 {print_of_page(folder)}"
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name, value in shown.items():
        click.echo(f"{name:<13}{printable(value)}")


def _key(folder: Path, new: bool) -> str:
    """The public key; of a folder on which a node runs it is only read.

    Raises:
        StartError: it is damaged, cannot be written, or a node is in the way.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except StartError:
        if new or (key := noted(folder)) is None:
            raise
        return key
    except OSError as exc:
        raise StartError(f"the folder {folder} cannot be written: {exc.strerror or exc}") from exc
    try:
        return ensure(folder, new=new)
    finally:
        lock.close()
