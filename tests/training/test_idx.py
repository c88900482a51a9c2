"""Idx files as they are published, and everything that can be wrong with one."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.training.idx import read_idx

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx_bytes(array: np.ndarray, kind: int = 0x08) -> bytes:
    big = array.astype(array.dtype.newbyteorder(">"))
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + big.tobytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("array", "kind"), [(IMAGES, 0x08), (np.array([1, -2], np.int32), 0x0C), (np.array([[1.5]], np.float32), 0x0D)]
)
def test_idx_files_are_read(tmp_path: Path, array: np.ndarray, kind: int, packed: bool) -> None:
    path, data = tmp_path / "x", idx_bytes(array, kind)
    path.write_bytes(gzip.compress(data) if packed else data)
    read = read_idx(path)
    assert (read == array).all()
    assert read.shape == array.shape


GOOD = idx_bytes(IMAGES)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot be read as an idx file"),
        (b"\x89PNG\r\n", "is no idx file: it begins with 89 50 4e 47"),
        (GOOD[:2] + b"\x07" + GOOD[3:], "is no idx file"),
        (GOOD[:6], "is damaged: expected 16 bytes, but it has 6"),
        (GOOD[:-1], "is damaged: expected 40 bytes, but it has 39"),
        (GOOD + b"x", "is damaged: expected 40 bytes, but it has 41"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "is damaged: expected"),
        (gzip.compress(GOOD, mtime=0)[:-9], "cannot be read as an idx file"),
        (b"\x1f\x8bnot gzip", "cannot be read as an idx file"),
    ],
)
def test_broken_idx_files_are_refused_in_words(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(TrainerError, match=words):
        read_idx(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_array_or_a_trainer_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    with suppress(TrainerError):
        assert read_idx(path).dtype.kind in "iuf"


def test_a_bomb_is_refused_where_the_limit_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.training.idx.MOST_BYTES", 1_000_000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(2_000_000, np.uint8))))
    with pytest.raises(TrainerError, match="holds more than 1000000 bytes"):
        read_idx(path)
