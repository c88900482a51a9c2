"""Files that hold a secret: written wholly or not at all, read by nobody but their owner."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

SECRET_MODE = 0o600
UNFINISHED = ".unfinished"


def write_secret(path: Path, content: bytes) -> None:
    """Write a file in place of an older one; it is on the disk when this returns.

    Raises:
        OSError: it was not written; an older one is still there.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)  # of a process that was killed
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def set_aside(path: Path) -> Path | None:
    """Give a file another name, under which it stays; the new name, None if there was no such file.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = next(p for n in range(1, 1_000_000) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    try:
        path.rename(aside)
    except FileNotFoundError:
        return None
    sync(path.parent)
    return aside


def open_to_others(path: Path) -> str:
    """The mode of a file or folder that others than its owner may use, as in "644"; empty if they may not."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:o}" if mode & 0o077 else ""


def sync(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
