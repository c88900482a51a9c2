"""A row's side is decided once; no restart, new row, other shard or other order changes it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.datasets.labelled import shard
from flnet.datasets.partition import Partition
from flnet.datasets.split import (
    dealt_counts,
    grouped_shard,
    grouped_split,
    held_back,
    own_grouped,
    own_published,
    own_rows,
    stored_split,
    with_partition,
)
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.trainer import TrainerSettings

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


def test_the_seed_decides_where_nothing_is_stored_and_nothing_else_after_a_restart(tmp_path: Path) -> None:
    first = sides(tmp_path / "a.npz", ROWS, LABELS)
    assert sides(tmp_path / "a.npz", ROWS, LABELS, seed=9) == first
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
    assert sum(map(len, contents)) == len(set().union(*contents))


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


FIVE = np.random.default_rng(0).integers(0, 5, 600)
OTHERS = np.random.default_rng(1).integers(0, 5, 200)
GROUPS = [f"person {row // 3}" for row in range(600)]
UNEVEN = ["dirichlet:0.3", "pathological:2", "quantity:0.5", "power:1"]


def node(index: int, partition: str, count: int = 4, seed: int = 0) -> TrainerSettings:
    return TrainerSettings(None, Path(), (index, count), seed, partition=Partition.parse(partition))


def nodes(partition: str, count: int = 4) -> list[TrainerSettings]:
    return [node(index, partition, count) for index in range(1, count + 1)]


def test_even_parts_are_what_they_always_were() -> None:
    for told in nodes("iid"):
        assert (own_rows(FIVE, told) == shard(FIVE, told.shard, 0)).all()
        assert (own_published(FIVE, OTHERS, told) == shard(OTHERS, told.shard, 0)).all()
        assert (own_grouped(GROUPS, FIVE, told) == grouped_shard(GROUPS, FIVE, told.shard, 0)).all()


@pytest.mark.parametrize("partition", ["iid", *UNEVEN])
def test_parts_are_disjoint_complete_and_the_same_each_time(partition: str) -> None:
    parts = [own_rows(FIVE, told) for told in nodes(partition)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(600))
    assert all((part == own_rows(FIVE, told)).all() for part, told in zip(parts, nodes(partition), strict=True))
    tests = [own_published(FIVE, OTHERS, told) for told in nodes(partition)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(200))


@given(st.sampled_from(["iid", "groups", *UNEVEN]), st.integers(0, 50))
def test_groups_stay_whole_whatever_the_partition(partition: str, seed: int) -> None:
    parts = [own_grouped(GROUPS, FIVE, node(i, partition, seed=seed)) for i in (1, 2, 3, 4)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(600))
    names = [{GROUPS[row] for row in part} for part in parts]
    assert sum(map(len, names)) == 200


def test_what_cannot_be_dealt_so_is_said() -> None:
    with pytest.raises(TrainerError, match=r"FLNET_DATA_PARTITION=groups: .* this trainer gives none"):
        own_rows(FIVE, node(1, "groups"))
    with pytest.raises(TrainerError, match="FLNET_DATA_PARTITION=pathological:6: "):
        own_rows(FIVE, node(1, "pathological:6"))
    with pytest.raises(TrainerError, match="3 groups cannot give 4 parts"):
        own_grouped(GROUPS[:9], FIVE[:9], node(1, "groups"))


def test_people_are_told_of_a_partition() -> None:
    assert with_partition("a word", node(1, "iid")) == "a word"
    assert with_partition("a word", node(2, "power:1")) == (
        "this node has part 2 of 4 of the partition power:1; a word"
    )
    assert with_partition("", node(1, "groups", 2)) == "this node has part 1 of 2 of the partition groups"


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.3", "pathological:2", "quantity:0.5"])
def test_what_all_parts_were_dealt_is_counted_by_each_of_them_alike(partition: str, tmp_path: Path) -> None:
    labels = np.random.default_rng(5).integers(0, 4, 400)
    told = [
        TrainerSettings(None, tmp_path, (part, 5), 3, partition=Partition.parse(partition)) for part in range(1, 6)
    ]
    counts = dealt_counts(labels, told[0], 4)
    assert counts == tuple(tuple(np.bincount(labels[own_rows(labels, one)], minlength=4).tolist()) for one in told)
    assert {dealt_counts(labels, one, 4) for one in told} == {counts}
    assert np.array(counts).sum(0).tolist() == np.bincount(labels).tolist()


def test_what_is_dealt_apart_is_counted_apart(tmp_path: Path) -> None:
    chance = np.random.default_rng(6)
    labels, strata = chance.integers(0, 3, 301), chance.integers(0, 2, 301)
    told = [TrainerSettings(None, tmp_path, (part, 4), 3) for part in range(1, 5)]
    own = [labels[shard(strata * 3 + labels, one.shard, one.seed)] for one in told]
    expected = tuple(tuple(np.bincount(part, minlength=3).tolist()) for part in own)
    assert dealt_counts(labels, told[0], 3, strata) == expected


def test_one_part_or_no_classes_are_not_counted(tmp_path: Path) -> None:
    assert dealt_counts(np.zeros(9, int), TrainerSettings(None, tmp_path), 2) == ()
    assert dealt_counts(np.zeros(9, int), TrainerSettings(None, tmp_path, (1, 2)), 0) == ()


# Groups dealt whole: to nodes, and to the sides of a split that is remembered.


MORE = st.lists(st.tuples(st.text(min_size=1, max_size=3), st.integers(0, 2)), min_size=1, max_size=60)


def groups_in(rows: np.ndarray, groups: list[str]) -> set[str]:
    return {groups[row] for row in rows}


@given(MORE, st.integers(1, 5), st.integers(0, 3))
def test_shards_hold_every_row_once_and_share_no_group(rows: list[tuple[str, int]], count: int, seed: int) -> None:
    groups, labels = [name for name, _ in rows], np.array([label for _, label in rows])
    parts = [grouped_shard(groups, labels, (index, count), seed) for index in range(1, count + 1)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(rows)))
    named = [groups_in(part, groups) for part in parts]
    assert sum(map(len, named)) == len(set(groups))


@settings(max_examples=30)
@given(MORE, MORE)
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


@given(st.integers(0, 200), st.integers(1, 5), st.sampled_from([0.1, 0.25, 0.5]), st.integers(0, 3))
def test_rows_are_held_back_label_by_label_and_the_same_each_time(
    count: int, labels: int, share: float, seed: int
) -> None:
    of_rows = np.random.default_rng(count).integers(0, labels, count)
    own = TrainerSettings(None, Path(), seed=seed, validation_share=share)
    kept, validation = held_back(of_rows, own)
    assert sorted([*kept, *validation]) == list(range(count))
    for label in range(labels):
        there = int((of_rows == label).sum())
        assert abs(int((of_rows[validation] == label).sum()) - share * there) <= 3
    again = held_back(of_rows, own)
    assert np.array_equal(again[0], kept) and np.array_equal(again[1], validation)
    everything, nothing = held_back(of_rows, replace(own, validation_share=0.0))
    assert len(everything) == count and not len(nothing)
