"""Temporary folders go with their process, also when it is killed; and a test run that leaves something fails."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flnet.temporary import remove_abandoned, temporary_folder
from tests.test_layout import ROOT

HOLDS = """
from flnet.temporary import temporary_folder
with temporary_folder("held") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has a folder, with a file in it."""
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_folder_is_private_and_goes_with_all_that_is_in_it(place: Path) -> None:
    with temporary_folder("kind") as folder:
        assert folder.parent == place
        assert "kind" in folder.name
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "deep").mkdir()
        (folder / "deep" / "file").touch()
    assert not list(place.iterdir())


def test_the_folder_of_a_killed_process_goes_when_the_next_one_is_made() -> None:
    with holder() as (process, theirs), temporary_folder("other"):
        assert (theirs / "file").exists()
        process.kill()
        process.wait()
        assert (theirs / "file").exists()
        with temporary_folder("next") as ours:
            assert not theirs.exists()
            assert ours.exists()


def test_the_folder_of_a_process_that_lives_stays() -> None:
    with holder() as (process, theirs), temporary_folder("other"):
        assert (theirs / "file").exists()
        process.communicate("\n")
        assert not theirs.exists()


def test_what_is_not_ours_stays(place: Path) -> None:
    """Earlier versions locked nothing, a link leads elsewhere, and a file is no folder."""
    earlier, elsewhere = place / "flnet-demo-abc", place / "elsewhere"
    for folder in (earlier, elsewhere):
        folder.mkdir()
    (place / "flnet.link").symlink_to(elsewhere)
    (place / "flnet.file").touch()
    before = sorted(place.iterdir())
    remove_abandoned()
    assert sorted(place.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_somebody_else_stays(place: Path) -> None:
    (place / "flnet.theirs").mkdir()
    os.chown(place / "flnet.theirs", 12345, 12345)
    remove_abandoned()
    assert (place / "flnet.theirs").exists()


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    opens, seen = os.open, list[Path]()

    def too_late(path: Path, flags: int) -> int:
        seen.append(path)
        if len(seen) == 1:
            path.rmdir()
        return opens(path, flags)

    monkeypatch.setattr(os, "open", too_late)
    with temporary_folder("raced") as folder:
        assert folder.exists()
        assert folder == seen[1] != seen[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ("pass", 0, "1 passed"),
        ("tempfile.mkdtemp(prefix='forgotten')", 1, "forgotten"),
        ("temporary_folder('x').__enter__()", 0, "1 passed"),  # as a killed process: removed by the next one
    ],
)
def test_a_test_run_that_leaves_temporary_files_fails(place: Path, body: str, code: int, told: str) -> None:
    sample = place / "test_sample.py"
    head = "import tempfile\nfrom flnet.temporary import temporary_folder\n\ndef test_it():\n    "
    sample.write_text(head + body)
    plain = ["-q", "-c", str(ROOT / "pyproject.toml"), "-p", "no:xdist", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "-p", "tests.conftest", str(sample)],
        cwd=ROOT,
        env={
            name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"
        },  # a run of its own
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, told in run.stdout) == (code, True), run.stdout + run.stderr
    assert not list(place.glob("flnet.*"))
