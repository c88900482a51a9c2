"""Shards, and .npz files."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.datasets.labelled import (
    Labelled,
    SparseRows,
    dense_rows,
    fingerprint,
    pick_columns,
    read_idx,
    read_npz,
    shard,
)
from flnet.errors import TrainerError
from flnet.params.params import Array

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


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


def test_a_fingerprint_changes_with_any_row_label_or_side_and_with_nothing_else() -> None:
    x, y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 0])
    same = fingerprint({"train": Labelled(x, y), "test": Labelled(x[:1], y[:1])})
    assert fingerprint({"test": Labelled(x[:1].copy(), y[:1]), "train": Labelled(x.copy(), y)}) == same
    other = x.copy()
    other[2, 1] += 1
    for changed in (
        {"train": Labelled(other, y), "test": Labelled(x[:1], y[:1])},
        {"train": Labelled(x, y[::-1] + 1), "test": Labelled(x[:1], y[:1])},
        {"train": Labelled(x, y), "validation": Labelled(x[:1], y[:1])},
        {"train": Labelled(x, y), "test": Labelled(x[1:2], y[:1])},
    ):
        assert fingerprint(changed) != same


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


# Sparse rows are the same numbers as dense ones; what cannot be a matrix is refused.


matrices = st.tuples(st.integers(0, 8), st.integers(1, 8)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.sampled_from([0.0, 0.0, 1.0, -2.5]))
)


def sparse(dense: Array) -> SparseRows:
    rows, columns = np.nonzero(dense)
    indptr = np.r_[0, np.cumsum(np.count_nonzero(dense, axis=1))].astype(np.int64)
    return SparseRows(dense[rows, columns], columns, indptr, (dense.shape[0], dense.shape[1]))


@given(matrices)
def test_any_rows_and_columns_are_those_of_the_dense_matrix(dense: Array) -> None:
    rng = np.random.default_rng(len(dense))
    rows = rng.integers(0, len(dense), 5) if len(dense) else np.empty(0, np.int64)
    columns = rng.permutation(dense.shape[1])[: max(1, dense.shape[1] // 2)]
    picked = pick_columns(sparse(dense), columns)
    assert (dense_rows(sparse(dense), rows) == dense[rows]).all()
    assert (dense_rows(picked, rows) == dense[rows][:, columns]).all()
    assert (dense_rows(pick_columns(dense, columns), rows) == dense[rows][:, columns]).all()


def test_rows_come_as_float32() -> None:
    assert dense_rows(np.eye(3, dtype=np.int64), np.array([2])).dtype == np.float32


@pytest.mark.parametrize(
    ("data", "indices", "indptr", "shape", "rule"),
    [
        ([1.0], [0, 1], [0, 1], (1, 2), "expected n, n and 2"),
        ([1.0], [0], [0, 1], (2, 2), "expected n, n and 3"),
        ([1.0], [0], [0, 2], (1, 2), "ascend from 0 to 1"),
        ([1.0, 1.0], [0, 1], [0, 2, 1, 2], (3, 2), "ascend from 0 to 2"),
        ([1.0], [2], [0, 1], (1, 2), "outside 0 to 1"),
        ([1.0], [-1], [0, 1], (1, 2), "outside 0 to 1"),
    ],
)
def test_what_is_no_matrix_is_refused(
    data: list[float], indices: list[int], indptr: list[int], shape: tuple[int, int], rule: str
) -> None:
    with pytest.raises(TrainerError, match=rule):
        SparseRows(np.array(data), np.array(indices), np.array(indptr), shape)


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
    monkeypatch.setattr("flnet.datasets.labelled.MOST_BYTES", 1_000_000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(2_000_000, np.uint8))))
    with pytest.raises(TrainerError, match="holds more than 1000000 bytes"):
        read_idx(path)
