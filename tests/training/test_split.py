"""A row's side is decided once; no restart, new row, other shard or other order changes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.split import stored_split

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
ROWS = np.random.default_rng(0).integers(0, 256, (500, 6), np.uint8)
LABELS = np.arange(500) % 5


def sides(path: Path, rows: Array, labels: Array, seed: int = 0) -> dict[bytes, str]:
    """Contents of a row -> its side."""
    split = stored_split(path, rows, labels, SHARES, seed)
    assert sorted(np.concatenate(list(split.values())).tolist()) == list(range(len(rows)))
    return {rows[i].tobytes(): side for side, numbers in split.items() for i in numbers}


def test_every_label_gets_its_proportions(tmp_path: Path) -> None:
    split = stored_split(tmp_path / "s.npz", ROWS, LABELS, SHARES, seed=0)
    for side, share in SHARES.items():
        counts = np.bincount(LABELS[split[side]], minlength=5)
        assert np.abs(counts - 100 * share).max() <= 3
        assert abs(len(split[side]) - 500 * share) <= 3


def test_the_same_rows_are_split_the_same_after_a_restart_also_with_another_seed(tmp_path: Path) -> None:
    first = sides(tmp_path / "s.npz", ROWS, LABELS)
    assert sides(tmp_path / "s.npz", ROWS, LABELS, seed=9) == first


def test_the_seed_decides_where_nothing_is_stored(tmp_path: Path) -> None:
    first = sides(tmp_path / "a.npz", ROWS, LABELS)
    assert sides(tmp_path / "b.npz", ROWS, LABELS) == first
    assert sides(tmp_path / "c.npz", ROWS, LABELS, seed=9) != first


def test_old_rows_keep_their_side_when_rows_come_go_and_move(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    seen = sides(path, ROWS[:200], LABELS[:200])
    order = np.random.default_rng(1).permutation(500)
    for part in (order, order[::2], np.arange(100, 300), order[::-1]):
        now = sides(path, ROWS[part], LABELS[part])
        assert all(now[row] == side for row, side in seen.items() if row in now)
        seen |= now
    assert abs(sum(side == "train" for side in seen.values()) - 350) <= 6


def test_rows_that_come_one_by_one_are_shared_out_as_well(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    for count in range(1, 51):
        last = sides(path, ROWS[:count], LABELS[:count])
    assert abs(sum(side == "test" for side in last.values()) - 10) <= 2


def test_equal_rows_are_never_on_two_sides(tmp_path: Path) -> None:
    doubled, labels = np.concatenate([ROWS, ROWS]), np.concatenate([LABELS, LABELS])
    split = stored_split(tmp_path / "s.npz", doubled, labels, SHARES, seed=0)
    contents = [{doubled[i].tobytes() for i in numbers} for numbers in split.values()]
    assert not contents[0] & contents[1]
    assert not contents[0] & contents[2]
    assert not contents[1] & contents[2]


def test_no_rows_are_no_fault(tmp_path: Path) -> None:
    split = stored_split(tmp_path / "s.npz", ROWS[:0], LABELS[:0], SHARES, seed=0)
    assert [len(numbers) for numbers in split.values()] == [0, 0, 0]


def test_a_damaged_or_foreign_file_is_refused_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    stored_split(path, ROWS, LABELS, SHARES, seed=0)
    with pytest.raises(TrainerError, match="splits into train, validation, test; expected train, test"):
        stored_split(path, ROWS, LABELS, {"train": 1, "test": 1}, seed=0)
    with np.load(path, allow_pickle=False) as file:
        stored = dict(file)
    np.savez(path, **{**stored, "sides": 2 - stored["sides"]})
    with pytest.raises(TrainerError, match="is damaged: bring it back, or delete it"):
        stored_split(path, ROWS, LABELS, SHARES, seed=0)
    path.write_bytes(b"PK")
    with pytest.raises(TrainerError, match="cannot be read"):
        stored_split(path, ROWS, LABELS, SHARES, seed=0)
    assert path.read_bytes() == b"PK"


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainerError, match="the split cannot be stored"):
        stored_split(tmp_path / "file" / "s.npz", ROWS, LABELS, SHARES, seed=0)
