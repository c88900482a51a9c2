"""Two processes on one folder: the second is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.store.disk.lock import FolderLock, holder

HOLD = "import sys; from pathlib import Path; from flnet.store.disk.lock import FolderLock\n"
HOLD += "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def test_a_second_holder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(StartError, match=f"in use by another node .process {os.getpid()}."):
        FolderLock(tmp_path)
    lock.close()
    FolderLock(tmp_path).close()


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StartError, match=str(other.pid)):
            FolderLock(tmp_path)
        other.kill()
        other.wait()
    FolderLock(tmp_path).close()


@pytest.mark.parametrize("text", ["", "nobody", "\x00\xff"])
def test_what_is_no_number_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text, "latin-1")
    assert holder(tmp_path) == ""
    assert holder(tmp_path / "missing") == ""
