"""Shards, idx files, .npz files and splits."""

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
from flnet.training.data import Labelled, read_npz, shard
from flnet.training.idx import read_idx

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx_bytes(array: np.ndarray, kind: int = 0x08) -> bytes:
    big = array.astype(array.dtype.newbyteorder(">"))
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + big.tobytes()


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 7), st.integers(0, 5))
def test_shards_are_disjoint_complete_and_alike(labels: list[int], count: int, seed: int) -> None:
    y = np.array(labels, int)
    parts = [shard(y, (index, count), seed) for index in range(1, count + 1)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(y)))
    for label in range(5):
        counts = [int((y[part] == label).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1


def test_shards_depend_on_the_seed_alone() -> None:
    y = np.zeros(100, int)
    assert (shard(y, (1, 4), 0) == shard(y, (1, 4), 0)).all()
    assert (shard(y, (1, 4), 0) != shard(y, (1, 4), 1)).any()


def test_rows_and_labels_must_match() -> None:
    with pytest.raises(TrainerError, match="2 rows came with 3 labels"):
        Labelled(np.zeros(2), np.zeros(3))


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
        (gzip.compress(GOOD)[:-9], "cannot be read as an idx file"),
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


def test_npz_files_are_read_by_name_and_run_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x_train=IMAGES, y_train=np.zeros(2))
    x, y = read_npz(path, ("x_train", "y_train"))
    assert (x == IMAGES).all()
    assert len(y) == 2
    with pytest.raises(TrainerError, match="lacks x_test, y_test; it has x_train, y_train"):
        read_npz(path)
    np.savez(path, x_train=np.array([{"an": "object"}], object))
    with pytest.raises(TrainerError, match=r"cannot be read as an .npz file: Object arrays cannot be loaded"):
        read_npz(path, ("x_train",))
    for broken in (b"", b"nothing of that kind", b"PK\x03\x04 cut"):
        path.write_bytes(broken)
        with pytest.raises(TrainerError, match=r"cannot be read as an .npz file"):
            read_npz(path, ("x_train",))
