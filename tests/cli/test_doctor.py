"""`flnet doctor`: words, JSON and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from flnet.store.disk import DiskStore

Run = Callable[..., Result]


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await DiskStore(tmp_path).close()
    return tmp_path


def test_a_whole_folder_is_well(flnet: Run, folder: Path) -> None:
    done = flnet("doctor", "--state-path", str(folder))
    assert done.exit_code == 0
    assert done.output.startswith(f"state in {folder}\n  ok      permissions  only its owner may read it\n")


def test_what_is_damaged_ends_with_1_until_it_is_mended(flnet: Run, folder: Path) -> None:
    (folder / "state.sqlite3").write_bytes(b"no database" * 1000)
    arguments = ("doctor", "--state-path", str(folder))
    told = flnet(*arguments, "--json")
    assert told.exit_code == 1
    found = json.loads(told.output)
    assert (found["well"], found["folder"]) == (False, str(folder))
    assert [one["what"] for one in found["findings"] if one["level"] == "error"] == ["database"]
    mended = flnet(*arguments, "--repair")
    assert mended.exit_code == 0
    assert "  mended  database" in mended.output
    assert flnet(*arguments).exit_code == 0


def test_a_folder_that_is_not_there_ends_with_1(flnet: Run, tmp_path: Path) -> None:
    assert flnet("doctor", "--state-path", str(tmp_path / "missing")).exit_code == 1


def test_it_shows_how_much_may_be_kept(flnet: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_KEEP_EVENTS", "77")
    assert "0 events (at most 77)" in flnet("doctor", "--state-path", str(folder)).output
