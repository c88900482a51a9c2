"""One process for each state folder: a lock that ends with the process, whatever it dies of."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from flnet.errors import StartError

NAME = "lock"


class FolderLock:
    """Holds the folder until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Take the folder.

        Raises:
            StartError: another process has it.
            OSError: the folder cannot be written.
        """
        self._handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            who = holder(folder)
            os.close(self._handle)
            raise StartError(
                f"the state folder {folder} is in use by another node{f' (process {who})' if who else ''}; "
                "end it, or give this node another FLNET_STATE_PATH"
            ) from exc
        with contextlib.suppress(OSError):  # for people only; the disk may be full
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())

    def close(self) -> None:
        """Let others have the folder."""
        os.close(self._handle)


def holder(folder: Path) -> str:
    """The process that said last that it has the folder; empty if none did."""
    try:
        text = (folder / NAME).read_text("ascii", "replace")[:20].strip()
    except OSError:
        return ""
    return text if text.isdecimal() else ""
