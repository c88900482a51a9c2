"""Whether a process lives, asked so that one which ends meanwhile does no harm."""

from __future__ import annotations

import psutil


def alive(pid: int | None) -> bool:
    """Whether there is such a process and it is more than a zombie."""
    if pid is None:
        return False
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # asked first, it could still end in between
        return False
