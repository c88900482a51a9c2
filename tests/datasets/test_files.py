"""A file is there whole, or as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.datasets.files import replacing


def test_a_file_takes_its_place_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with replacing(target) as file:
        file.write(b"one")
        assert not target.exists()
    with replacing(target) as file:
        file.write(b"two")
    assert target.read_bytes() == b"two"
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail_in_the_middle() -> None:
        with replacing(target) as file:
            file.write(b"half of the n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
