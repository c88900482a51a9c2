"""A node's rows: disjoint and complete over the nodes, the same each time, and even ones as they always were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.training.api import TrainerSettings
from flnet.training.data import shard
from flnet.training.dealing import dealt_counts, own_grouped, own_published, own_rows, with_partition
from flnet.training.groups import grouped_shard
from flnet.training.partition import Partition

LABELS = np.random.default_rng(0).integers(0, 5, 600)
OTHERS = np.random.default_rng(1).integers(0, 5, 200)
GROUPS = [f"person {row // 3}" for row in range(600)]
UNEVEN = ["dirichlet:0.3", "pathological:2", "quantity:0.5", "power:1"]


def node(index: int, partition: str, count: int = 4, seed: int = 0) -> TrainerSettings:
    return TrainerSettings(None, Path(), (index, count), seed, partition=Partition.parse(partition))


def nodes(partition: str, count: int = 4) -> list[TrainerSettings]:
    return [node(index, partition, count) for index in range(1, count + 1)]


def test_even_parts_are_what_they_always_were() -> None:
    for told in nodes("iid"):
        assert (own_rows(LABELS, told) == shard(LABELS, told.shard, 0)).all()
        assert (own_published(LABELS, OTHERS, told) == shard(OTHERS, told.shard, 0)).all()
        assert (own_grouped(GROUPS, LABELS, told) == grouped_shard(GROUPS, LABELS, told.shard, 0)).all()


@pytest.mark.parametrize("partition", ["iid", *UNEVEN])
def test_parts_are_disjoint_complete_and_the_same_each_time(partition: str) -> None:
    parts = [own_rows(LABELS, told) for told in nodes(partition)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(600))
    assert all((part == own_rows(LABELS, told)).all() for part, told in zip(parts, nodes(partition), strict=True))
    tests = [own_published(LABELS, OTHERS, told) for told in nodes(partition)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(200))


@given(st.sampled_from(["iid", "groups", *UNEVEN]), st.integers(0, 50))
def test_groups_stay_whole_whatever_the_partition(partition: str, seed: int) -> None:
    parts = [own_grouped(GROUPS, LABELS, node(i, partition, seed=seed)) for i in (1, 2, 3, 4)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(600))
    names = [{GROUPS[row] for row in part} for part in parts]
    assert sum(map(len, names)) == 200


def test_a_test_part_has_the_labels_of_the_training_part() -> None:
    for told in nodes("dirichlet:0.3"):
        train = np.bincount(LABELS[own_rows(LABELS, told)], minlength=5) / np.bincount(LABELS, minlength=5)
        test = np.bincount(OTHERS[own_published(LABELS, OTHERS, told)], minlength=5)
        assert np.abs(test - train * np.bincount(OTHERS, minlength=5)).max() <= 1


def test_few_labels_per_node() -> None:
    for told in nodes("pathological:2"):
        assert len(np.unique(LABELS[own_rows(LABELS, told)])) == 2


def test_what_cannot_be_dealt_so_is_said() -> None:
    with pytest.raises(TrainerError, match=r"FLNET_DATA_PARTITION=groups: .* this trainer gives none"):
        own_rows(LABELS, node(1, "groups"))
    with pytest.raises(TrainerError, match="FLNET_DATA_PARTITION=pathological:6: "):
        own_rows(LABELS, node(1, "pathological:6"))
    with pytest.raises(TrainerError, match="3 groups cannot give 4 parts"):
        own_grouped(GROUPS[:9], LABELS[:9], node(1, "groups"))


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
