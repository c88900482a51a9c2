"""How many processors this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def processors(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Those that the system schedules it on, and no more than a container's share of time is worth.

    Args:
        groups: where control groups are mounted (Linux).
        membership: the file that says which ones this process is in.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for folder in _folders(groups, membership) if (share := _share(folder)) is not None]
    return max(1, int(min([usable, *shares])))


def _folders(groups: Path, membership: Path) -> Iterator[Path]:
    """Folders of this process's groups and of all above them; a limit of any of them holds."""
    try:
        lines = membership.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / controllers if controllers else groups
        inside = root / path.strip("/")
        yield from (folder for folder in (inside, *inside.parents) if folder == root or root in folder.parents)


def _share(folder: Path) -> float | None:
    """Processors that this group's share of time is worth; None where it is not limited."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else None
    except (OSError, ValueError):  # no such file, or "max"
        return None
