"""Secrets on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from flnet.keys.files import open_to_others, set_aside, write_secret


def test_a_secret_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_secret(tmp_path / "s", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / "s").read_bytes() == b"one"
    assert open_to_others(tmp_path / "s") == ""
    (tmp_path / "s").chmod(0o644)
    assert open_to_others(tmp_path / "s") == "644"


def test_what_a_killed_process_left_is_no_obstacle_and_its_mode_does_not_stay(tmp_path: Path) -> None:
    left = tmp_path / "s.unfinished"
    left.write_text("half")
    left.chmod(0o666)
    write_secret(tmp_path / "s", b"two")
    assert (tmp_path / "s").read_bytes() == b"two"
    assert open_to_others(tmp_path / "s") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_on_a_full_disk_the_older_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_secret(tmp_path / "s", b"one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_secret(tmp_path / "s", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("s", b"one")]


def test_what_is_set_aside_gets_a_name_that_is_free(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "s").write_text(text)
        set_aside(tmp_path / "s")
    assert set_aside(tmp_path / "s") is None
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "s.damaged-1": "one",
        "s.damaged-2": "two",
    }
