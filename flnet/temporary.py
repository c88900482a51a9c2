"""Temporary folders that go with the process that made them, however it ends.

A process that is killed removes nothing. So each folder is locked while its process lives, and whoever makes the next
one removes those of this person that nobody holds any more. A lock is also what tells programs that tidy up the
system's temporary files, such as systemd-tmpfiles, to leave a folder alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BEGINS = "flnet."  # folders of earlier versions begin with "flnet-", and have no lock


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """A new folder among the temporary files, which nobody else can read; it is removed when the block ends.

    Args:
        kind: of what is in it, for people: part of its name.

    Raises:
        OSError: it cannot be made.
    """
    remove_abandoned()
    folder, lock = _locked(kind)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the temporary folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_BEGINS}*"):
        try:
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it is gone already, or no folder
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # its process lives, or there are no locks on this disk
            pass
        finally:
            os.close(lock)


def _locked(kind: str) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_BEGINS}{kind}-"))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process found it before it was locked
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # no locks on this disk: nobody removes it either
            return folder, lock
        if folder.exists():
            return folder, lock
        os.close(lock)
