"""Shards, and .npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.training.data import Labelled, fingerprint, read_npz, shard

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
