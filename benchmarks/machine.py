"""What the machine is and what its processes use, read from /proc."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "torch", "quart", "hypercorn", "uvloop", "httpx", "orjson", "safetensors")
PROC = Path("/proc")


def described() -> dict[str, str]:
    """The machine in words: processor, cores, memory, versions, load."""
    return {
        "processor": _field(PROC / "cpuinfo", "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{_kilobytes(PROC / 'meminfo', 'MemTotal') / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "load": load(),
    }


def load() -> str:
    """Load averages of 1 and 5 minutes."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg()[:2])


def proportional_mb(pid: int) -> float:
    """Memory of a process in MB, pages shared by n processes counted as 1/n (PSS); 0 where it is gone."""
    return _kilobytes(PROC / str(pid) / "smaps_rollup", "Pss") / 1024


def resident_mb(pid: int) -> float:
    """Memory of a process in MB, shared pages counted in full (RSS); 0 where it is gone."""
    return _kilobytes(PROC / str(pid) / "status", "VmRSS") / 1024


def peak_mb(pid: int) -> float:
    """The most that a process ever had resident, in MB."""
    return _kilobytes(PROC / str(pid) / "status", "VmHWM") / 1024


def descendants(pid: int) -> list[int]:
    """Process ids of all children of a process, and theirs."""
    parents = {child: parent for child in _pids() if (parent := _parent(child)) is not None}
    processes, waiting = [], [pid]
    while waiting:
        above = waiting.pop()
        children = [child for child, parent in parents.items() if parent == above]
        processes += children
        waiting += children
    return sorted(processes)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def received_bytes(text: str, device: str = "lo") -> int:
    """Bytes that a network device has received, out of the text of /proc/net/dev.

    Raises:
        LookupError: there is no such device.
    """
    for line in text.splitlines():
        name, colon, figures = line.partition(":")
        if colon and name.strip() == device:
            return int(figures.split()[0])
    raise LookupError(f"no device {device!r}")


def loopback_bytes() -> int:
    """Bytes that this network namespace has sent over its loopback device so far."""
    return received_bytes(_read(PROC / "self" / "net" / "dev"))


def in_words(machine: Mapping[str, str]) -> str:
    """The machine on one line."""
    return "; ".join(f"{name} {value}" for name, value in machine.items())


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def _kilobytes(path: Path, name: str) -> int:
    return int((_field(path, name) or "0").split()[0])


def _field(path: Path, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:\s*(.+)$", _read(path), re.MULTILINE)
    return match[1] if match else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # the process has ended, or belongs to somebody else
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
