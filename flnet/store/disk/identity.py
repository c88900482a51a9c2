"""Who the node of a state folder is: its id, in a file beside the database, which may be lost without it."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

from flnet.errors import StartError
from flnet.names import check_name
from flnet.store.disk.files import free_name, sync_folder

NAME = "node.json"


def identity(folder: Path, wanted: str | None = None) -> tuple[str, str]:
    """The id of this folder's node, which is made on its first start, and what people should know of it.

    Args:
        folder: held by this process.
        wanted: FLNET_NODE_ID; another one than before renames the node.

    Raises:
        StartError: it cannot be read or written.
    """
    path = folder / NAME
    try:
        known, told = _read(path)
        name = wanted or known or str(uuid.uuid4())
        if name == known:
            return name, told
        if known:
            told = f"this node was {known} and is {name} now; peers see another node, and its open rounds end"
        _write(path, name)
    except OSError as exc:
        raise StartError(f"the identity in {path} cannot be kept: {exc.strerror or exc}") from exc
    return name, told


def _read(path: Path) -> tuple[str, str]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return "", ""
    try:
        return check_name(json.loads(text)["id"]), ""
    except (ValueError, KeyError, TypeError, RecursionError):
        aside = free_name(path)
        path.rename(aside)
        return "", f"the file with this node's id was damaged; it was renamed to {aside.name}, and the id is new"


def _write(path: Path, name: str) -> None:
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w") as file:
        json.dump({"id": name}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
