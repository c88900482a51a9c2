"""Lists of zip archives are looked at before zipfile makes objects of their entries."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets import zip_source
from flnet.datasets.archives import copy_or_unpack
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.datasets.labelled import read_npz
from flnet.datasets.zip_source import ZipSource
from flnet.errors import DataMissing, ImportRefused, TrainerError
from flnet.trainer import TrainerFile
from tests.datasets.evil_archives import zipped

MANY = 30_000  # entries whose list is longer than what is read at once


def listing(path: Path, count: int, large: bool) -> Path:
    """An archive of one file that lists it again and again, with the end record of large archives or without."""
    name = b"%08d"
    entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0)
    one = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 8, 0) + name % 0
    listed = b"".join(entry + name % number for number in range(count))
    size, start, end = len(listed), len(one), len(one) + len(listed)
    tail = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), size, start, 0)
    if large:
        tail = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
        tail += struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
        tail += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(one + listed + tail)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of entries of which zipfile made objects."""
    names: list[str] = []
    whole = zipfile.ZipInfo.__init__

    def noted(entry: zipfile.ZipInfo, filename: str = "NoName", *given: Any, **more: Any) -> None:
        names.append(filename)
        whole(entry, filename, *given, **more)

    monkeypatch.setattr(zipfile.ZipInfo, "__init__", noted)
    return names


@pytest.mark.parametrize("large", [False, True])
def test_a_list_of_more_entries_than_there_is_room_for_is_refused_unread(
    tmp_path: Path, made: list[str], large: bool
) -> None:
    path = listing(tmp_path / "a.zip", MANY, large)
    with pytest.raises(DataMissing, match="it lists 30,000 entries, more than it has room for"):
        copy_or_unpack(path, tmp_path / "data")
    place = place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")
    with pytest.raises(ImportRefused, match="cannot be unpacked: it lists 30,000 entries"):
        bring_to(place, path, 1.0)
    assert made == []


def test_a_list_of_too_many_entries_or_bytes_is_refused_unread(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "a.zip", *((f"{number:0200}", b"") for number in range(20)))
    made.clear()
    monkeypatch.setattr(zip_source, "_PIECE", 2000)
    monkeypatch.setattr(zip_source, "MOST_ENTRIES", 19)
    with pytest.raises(DataMissing, match="it has more than 19 entries"):
        copy_or_unpack(path, tmp_path / "data")
    monkeypatch.setattr(zip_source, "MOST_BYTES", 3000)
    with pytest.raises(DataMissing, match=r"the list of its entries has 4,920 bytes"):
        copy_or_unpack(path, tmp_path / "data")
    assert made == []


def test_an_array_file_is_looked_at_as_well(tmp_path: Path, made: list[str]) -> None:
    path = listing(tmp_path / "a.npz", MANY, large=False)
    with pytest.raises(TrainerError, match="it lists 30,000 entries"):
        read_npz(path, ("x",))
    np.savez(tmp_path / "b.npz", x=np.arange(1_000_000))
    assert read_npz(tmp_path / "b.npz", ("x",))[0].sum() == 499_999_500_000


def test_an_archive_of_many_files_is_read_and_closed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", *((f"{number:05}", b"") for number in range(MANY)))
    with ZipSource(path) as source, zipfile.ZipFile(source) as archive:
        assert len(archive.namelist()) == MANY
    assert source.closed
    with pytest.raises(FileNotFoundError):
        ZipSource(tmp_path / "absent.zip")
    with ZipSource(path) as source:
        assert len(source.read()) == path.stat().st_size
        source.seek(0, io.SEEK_SET)
        assert source.read(2) == b"PK"
