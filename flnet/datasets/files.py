"""Files and folders: writing a small file so that it is there whole or not at all, and listing the folders of classes."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `target` when the block ends well, and vanishes otherwise.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


_IGNORED = ("Thumbs.db", "desktop.ini", "__MACOSX")  # what operating systems leave behind


def entries(folder: Path) -> Iterator[Path]:
    """Entries of a folder, sorted, without hidden ones and those that operating systems leave behind."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith(".") and entry.name not in _IGNORED:
            yield entry


def class_folders(top: Path) -> dict[str, list[Path]]:
    """The folders in a folder, by their names in Unicode NFC.

    A Mac may write "ü" as two characters (NFD). Folders whose names differ in that only are folders of one class.
    """
    found: dict[str, list[Path]] = {}
    for entry in entries(top):
        if entry.is_dir():
            found.setdefault(unicodedata.normalize("NFC", entry.name), []).append(entry)
    return found
