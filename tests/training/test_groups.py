"""Groups dealt whole: to nodes, and to the sides of a split that is remembered."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.training.groups import grouped_shard, grouped_split

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
ROWS = st.lists(st.tuples(st.text(min_size=1, max_size=3), st.integers(0, 2)), min_size=1, max_size=60)


def groups_in(rows: np.ndarray, groups: list[str]) -> set[str]:
    return {groups[row] for row in rows}


@given(ROWS, st.integers(1, 5), st.integers(0, 3))
def test_shards_hold_every_row_once_and_share_no_group(rows: list[tuple[str, int]], count: int, seed: int) -> None:
    groups, labels = [name for name, _ in rows], np.array([label for _, label in rows])
    parts = [grouped_shard(groups, labels, (index, count), seed) for index in range(1, count + 1)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(rows)))
    named = [groups_in(part, groups) for part in parts]
    assert sum(map(len, named)) == len(set(groups))


@settings(max_examples=30)
@given(ROWS, ROWS)
def test_no_group_is_ever_on_two_sides(first: list[tuple[str, int]], more: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sides_of: dict[str, set[str]] = {}
        for rows in (first, first + more, more):
            groups, labels = [name for name, _ in rows], np.array([label for _, label in rows])
            sides = grouped_split(Path(folder) / "split.npz", groups, labels, SHARES, 0)
            assert sorted(np.concatenate(list(sides.values())).tolist()) == list(range(len(rows)))
            for side, numbers in sides.items():
                for group in groups_in(numbers, groups):
                    sides_of.setdefault(group, set()).add(side)
        assert all(len(sides) == 1 for sides in sides_of.values())


def test_nodes_agree_on_the_parts_whatever_the_order_of_their_rows() -> None:
    groups = [f"patient {n % 17}" for n in range(100)]
    labels = np.array([n % 17 % 2 for n in range(100)])
    order = np.random.default_rng(1).permutation(100)
    mine = groups_in(grouped_shard(groups, labels, (2, 4), 0), groups)
    shuffled = [groups[row] for row in order]
    assert groups_in(grouped_shard(shuffled, labels[order], (2, 4), 0), shuffled) == mine


def test_labels_and_sizes_are_spread_as_evenly_as_whole_groups_allow(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    sizes, ill = chance.integers(1, 12, 400), chance.random(400) < 0.75
    groups = [f"{n}" for n in range(400) for _ in range(sizes[n])]
    labels = np.repeat(ill, sizes)
    shards = [grouped_shard(groups, labels, (index, 4), 0) for index in (1, 2, 3, 4)]
    for rows in shards:
        assert len(rows) == pytest.approx(len(groups) / 4, rel=0.05)
        assert labels[rows].mean() == pytest.approx(labels.mean(), abs=0.03)
    split = grouped_split(tmp_path / "split.npz", groups, labels, SHARES, 0)
    for side, share in SHARES.items():
        assert len(split[side]) == pytest.approx(share * len(groups), rel=0.15)
        assert labels[split[side]].mean() == pytest.approx(labels.mean(), abs=0.05)


def test_a_new_row_of_a_known_group_joins_its_side(tmp_path: Path) -> None:
    groups, labels = [f"p{n}" for n in range(40)], np.zeros(40, np.int64)
    before = grouped_split(tmp_path / "split.npz", groups, labels, SHARES, 0)
    longer = [f"p{n}" for n in range(40)] * 2 + ["a new one with a longer name"]
    after = grouped_split(tmp_path / "split.npz", longer, np.zeros(81, np.int64), SHARES, 0)
    for side, rows in before.items():
        assert {*rows, *(rows + 40)} <= set(after[side])


def test_each_row_needs_a_group() -> None:
    with pytest.raises(TrainerError, match="3 groups came with 2 labels"):
        grouped_shard(["a", "b", "c"], np.zeros(2), (1, 1), 0)
