"""Where the oracles find things, and free ports."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.ports import free_port

__all__ = ["EARLIER", "HERE", "OLD", "ROOT", "TRAINERS", "free_port", "plugins"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD = "1a28d2c"  # the revision that everything here was recorded at
EARLIER = Path(sys.prefix) / "earlier"  # what that revision needs besides; `make long` installs it there
TRAINERS = ("STEADY", "WAITING")


def plugins(folder: Path) -> None:
    """Put the trainers of these tests into a folder of their own."""
    folder.mkdir()
    for trainer in TRAINERS:
        shutil.copy(HERE / "plugins" / "STEADY.py", folder / f"{trainer}.py")
