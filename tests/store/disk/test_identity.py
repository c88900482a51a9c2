"""A node stays who it is."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.store.disk.identity import NAME, identity


def test_the_first_start_makes_an_id_that_stays(tmp_path: Path) -> None:
    first, told = identity(tmp_path)
    assert uuid.UUID(first)
    assert told == ""
    assert identity(tmp_path) == (first, "")


def test_a_name_that_is_given_is_kept_and_need_not_be_given_again(tmp_path: Path) -> None:
    assert identity(tmp_path, "WARD_7") == ("WARD_7", "")
    assert identity(tmp_path, "WARD_7") == ("WARD_7", "")
    assert identity(tmp_path) == ("WARD_7", "")


def test_another_name_renames_the_node_and_says_so(tmp_path: Path) -> None:
    identity(tmp_path, "OLD")
    name, told = identity(tmp_path, "NEW")
    assert name == "NEW"
    assert "was OLD and is NEW now" in told
    assert identity(tmp_path) == ("NEW", "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 3}', '{"id": "a b\\n"}', "\x00"])
def test_a_damaged_file_is_named_and_kept_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    name, told = identity(tmp_path)
    assert uuid.UUID(name)
    assert "renamed to node.json.damaged-1" in told
    assert (tmp_path / "node.json.damaged-1").read_text() == text


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be kept"):
        identity(tmp_path / "missing")
