"""A process that is killed while it saves loses nothing that it had promised, and leaves nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("times", [60, pytest.param(200, marks=pytest.mark.long)])
def test_kills_at_random_moments(tmp_path: Path, times: int) -> None:
    command = [sys.executable, "-m", "tests.store.crash", str(tmp_path), str(times), "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{times} kills")
    assert " 0 states kept" not in done.stdout
