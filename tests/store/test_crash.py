"""A process that is killed while it saves loses nothing that it had promised, and leaves nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_hundred_kills_at_random_moments(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.store.crash", str(tmp_path), "200", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200 kills")
    assert " 0 states kept" not in done.stdout
