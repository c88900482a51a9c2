"""Names of files that come from outside: from an archive, or from a browser. One rule for all of them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_LEFT_BEHIND = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})  # by operating systems
_LONGEST = 255  # bytes of one step, as file systems have it
_DEEPEST = 40
_DRIVE = re.compile(r"[A-Za-z]:")


def member_path(name: str) -> PurePosixPath | None:
    """Where a file goes inside its folder: steps without "..", never absolute; None for what systems leave behind.

    Raises:
        ValueError: the name leads out of the folder, or no file can have it; says why.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or _DRIVE.match(name):
        raise ValueError("leads out of its folder")
    if any(not sign.isprintable() for sign in name):
        raise ValueError("has signs in its name that cannot be seen")
    if len(path.parts) > _DEEPEST:
        raise ValueError(f"lies more than {_DEEPEST} folders deep")
    if any(len(step.encode()) > _LONGEST for step in path.parts):
        raise ValueError(f"has a name of more than {_LONGEST} bytes")
    if not path.parts or _LEFT_BEHIND & set(path.parts) or path.name.startswith("._"):
        return None
    return path
