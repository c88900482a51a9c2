"""What one run of the measurements is asked for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Report


@dataclass(frozen=True)
class Options:
    """How much is done, and where.

    Attributes:
        folder: for logs and states of nodes.
        nodes: how many nodes, where a measurement can have any number; None: its own default.
        datasets: the folder of data sets that FLNET_DATASETS_PATH names, if any.
        quick: less of everything, for a first look.
        full: also what takes long.
    """

    report: Report
    folder: Path
    base_port: int
    nodes: int | None = None
    datasets: str | None = None
    quick: bool = False
    full: bool = False

    def times(self, usual: int) -> int:
        """How often something is repeated."""
        return max(1, usual // 3) if self.quick else usual

    def place(self, name: str) -> Path:
        """A folder of its own for one mesh."""
        return self.folder / name


def in_process(module: str, *arguments: object, patience: float = 180.0) -> str:
    """What a module of this package prints as a program: a fresh process, nothing inherited but files.

    Raises:
        RuntimeError: it fails; what it wrote to stderr is there to be read.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=patience, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} ended with code {done.returncode}")
    return done.stdout
