"""Parts are disjoint, complete and equal for equal seeds; each way makes the nodes differ as it says."""

from __future__ import annotations

import importlib.util
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.datasets.partition import (
    Partition,
    apportioned,
    consecutive_parts,
    dealt_labels,
    dirichlet_parts,
    group_parts,
    matching_parts,
    pathological_parts,
)
from flnet.errors import TrainerError
from flnet.params.params import Array

LABELS = np.repeat(np.arange(10), 100)
WAYS = ("iid", "dirichlet:0.5", "dirichlet:100", "pathological:2", "quantity:0.5", "power:1", "groups")


def counts_of(parts: list[Array], labels: Array) -> Array:
    """Rows of each label in each part."""
    return np.array([np.bincount(labels[part], minlength=int(labels.max()) + 1) for part in parts])


@given(
    way=st.sampled_from(WAYS),
    labels=st.lists(st.integers(0, 4), min_size=40, max_size=120).map(
        lambda drawn: np.array([0, 1, 2, 3, 4, *drawn])
    ),
    count=st.integers(3, 6),
    seed=st.integers(0, 2**31),
)
def test_parts_are_disjoint_complete_ascending_and_the_same_everywhere(
    way: str, labels: Array, count: int, seed: int
) -> None:
    partition = Partition.parse(way)
    groups = np.arange(len(labels)) // 4
    parts = partition.parts(labels, count, seed, groups=groups)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert len(parts) == count
    assert all((np.diff(part) > 0).all() and len(part) for part in parts)
    again = partition.parts(labels, count, seed, groups=groups)
    assert [part.tolist() for part in again] == [part.tolist() for part in parts]


@pytest.mark.parametrize("way", WAYS)
def test_the_seed_decides(way: str) -> None:
    groups = np.arange(len(LABELS)) // 10
    one, other = (Partition.parse(way).parts(LABELS, 5, seed, groups=groups) for seed in (1, 2))
    assert [p.tolist() for p in one] != [p.tolist() for p in other]


@pytest.mark.parametrize("way", WAYS)
def test_one_part_is_everything(way: str) -> None:
    ten = "pathological:10" if way.startswith("path") else way
    assert Partition.parse(ten).parts(LABELS, 1, 0, groups=LABELS)[0].tolist() == list(range(1000))


def test_iid_spreads_each_label_evenly() -> None:
    counts = counts_of(Partition.parse("iid").parts(LABELS, 7, 0), LABELS)
    assert np.ptp(counts, axis=0).max() <= 1


def test_a_small_alpha_makes_unlike_nodes_and_a_large_one_like_nodes() -> None:
    spread = [
        np.mean(
            [
                counts_of(dirichlet_parts(LABELS, 5, alpha, seed, 1), LABELS).std(axis=0).mean()
                for seed in range(20)
            ]
        )
        for alpha in (0.1, 1.0, 100.0)
    ]
    assert all(more > 2 * less for more, less in pairwise(spread))


def test_shares_of_a_label_have_the_mean_and_variance_of_the_dirichlet() -> None:
    alpha, count = 0.5, 4
    shares = np.concatenate(
        [counts_of(dirichlet_parts(LABELS, count, alpha, s, 1), LABELS) / 100 for s in range(200)]
    )
    assert shares.mean() == pytest.approx(1 / count, abs=1e-9)
    # Var = (1/K)(1 - 1/K) / (K alpha + 1); 8,000 shares, so within some 3 percent
    assert shares.var() == pytest.approx((1 / count) * (1 - 1 / count) / (count * alpha + 1), rel=0.1)


def test_dirichlet_draws_again_until_no_part_is_too_small_or_says_that_it_cannot() -> None:
    parts = dirichlet_parts(LABELS, 10, 0.2, 3, min_rows=20)
    assert min(map(len, parts)) >= 20
    with pytest.raises(TrainerError, match=r"Dirichlet\(0.001\) left one of 20 parts with fewer than 40 rows"):
        dirichlet_parts(LABELS, 20, 0.001, 0, min_rows=40)


@given(kinds=st.integers(1, 8), count=st.integers(1, 9), per_part=st.integers(1, 8), seed=st.integers(0, 999))
def test_pathological_parts_have_so_many_labels_and_labels_are_dealt_evenly(
    kinds: int, count: int, per_part: int, seed: int
) -> None:
    labels = np.repeat(np.arange(kinds), 20)
    if per_part > kinds or count * per_part < kinds:
        with pytest.raises(TrainerError, match=f"cannot hold the {kinds} labels"):
            pathological_parts(labels, count, per_part, seed)
        return
    held = counts_of(pathological_parts(labels, count, per_part, seed), labels) > 0
    assert (held.sum(axis=1) == per_part).all()
    assert np.ptp(held.sum(axis=0)) <= 1


def test_quantity_skew_changes_sizes_and_not_labels() -> None:
    parts = Partition.parse("quantity:0.5").parts(LABELS, 5, seed=0, min_rows=30)
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 30
    assert max(sizes) > 2 * min(sizes)
    largest = max(parts, key=len)
    expected = len(largest) / 10
    assert np.abs(np.bincount(LABELS[largest]) - expected).max() < 4 * np.sqrt(expected)


def test_the_power_law_gives_the_i_th_largest_its_share() -> None:
    sizes = sorted((len(p) for p in Partition.parse("power:1").parts(np.zeros(1103, int), 3, 0)), reverse=True)
    assert sizes == [601, 301, 201]  # 1 row each, and of the other 1100 as 6:3:2


def test_groups_stay_whole_and_parts_come_out_alike() -> None:
    groups = np.array([f"ward {n}" for n in np.random.default_rng(0).integers(0, 25, 500)])
    parts = group_parts(groups, 4, seed=1)
    names = [set(groups[part]) for part in parts]
    assert sum(map(len, names)) == len(set(groups))
    assert max(map(len, parts)) - min(map(len, parts)) <= 35
    with pytest.raises(TrainerError, match="25 groups cannot give 26 parts"):
        group_parts(groups, 26, seed=1)
    with pytest.raises(TrainerError, match="needs a group for each row"):
        Partition.parse("groups").parts(LABELS, 4, 0)


def test_a_published_test_set_follows_the_parts() -> None:
    parts = dirichlet_parts(LABELS, 4, 0.3, 0, 1)
    others = np.tile(np.arange(11), 50)  # label 10 was not dealt
    dealt = matching_parts(parts, LABELS, others, seed=0)
    assert sorted(np.concatenate(dealt).tolist()) == list(range(550))
    counts = counts_of(dealt, others)
    assert np.abs(counts[:, :10] - counts_of(parts, LABELS) / 2).max() <= 1
    assert np.ptp(counts[:, 10]) <= 1


def test_mlfedavgs_parts_of_rows_and_labels() -> None:
    assert [len(part) for part in consecutive_parts(np.arange(90), 4)] == [22, 22, 22, 24]
    assert np.concatenate(consecutive_parts(np.arange(90), 4)).tolist() == list(range(90))
    dealt = dealt_labels(14, [4, 4, 3, 3], seed=5)
    assert [len(numbers) for numbers in dealt] == [4, 4, 3, 3]
    assert sorted(np.concatenate(dealt).tolist()) == list(range(14))
    assert [n.tolist() for n in dealt] != [n.tolist() for n in dealt_labels(14, [4, 4, 3, 3], seed=6)]
    for sizes in ([4, 4], [14, 0], []):
        with pytest.raises(TrainerError, match="does not deal 14 labels"):
            dealt_labels(14, sizes, seed=0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.integers(0, 10_000))
def test_apportioned_adds_up_and_stays_within_one(shares: list[float], total: int) -> None:
    counts = apportioned(np.array(shares), total)
    assert sum(counts) == total
    assert np.abs(np.array(counts) - np.array(shares) / sum(shares) * total).max() < 1 + 1e-6


@pytest.mark.parametrize("text", ["iid", "dirichlet:0.3", "pathological:2", "quantity:0.5", "power:1.5", "groups"])
def test_what_is_read_is_written_the_same(text: str) -> None:
    assert str(Partition.parse(f" {text} ")) == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "expected one of iid, dirichlet:0.3, .* got ''"),
        ("IID", "expected one of"),
        ("dirichlet", "expected one of"),
        ("iid:2", "expected one of"),
        ("dirichlet:", "dirichlet takes a number; got 'dirichlet:'"),
        ("dirichlet:much", "dirichlet takes a number; got 'dirichlet:much'"),
        ("dirichlet:0", "dirichlet takes a number above 0"),
        ("dirichlet:-1", "above 0"),
        ("quantity:nan", "above 0"),
        ("power:inf", "above 0"),
        ("pathological:1.5", "a whole number of labels per part"),
    ],
)
def test_what_is_no_partition_is_refused_in_words(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Partition.parse(text)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(TrainerError, match="5 rows cannot give 3 parts of at least 2"):
        Partition.parse("iid").parts(np.zeros(5, int), 3, 0, min_rows=2)
    with pytest.raises(TrainerError, match="gives a part of"):
        Partition.parse("pathological:1").parts(np.array([0] * 50 + [1]), 2, 0, min_rows=5)


FLWR = importlib.util.find_spec("flwr_datasets") is not None


@pytest.mark.skipif(not FLWR, reason="flwr-datasets is not installed; it is an oracle and no dependency")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 10.0])
def test_dirichlet_counts_are_those_of_flwr_datasets(alpha: float) -> None:
    import datasets  # type: ignore[import-not-found, unused-ignore]
    from flwr_datasets.partitioner import DirichletPartitioner  # type: ignore[import-not-found, unused-ignore]

    for seed in range(10):
        theirs = DirichletPartitioner(5, "label", alpha, min_partition_size=1, shuffle=False)
        theirs._rng = np.random.default_rng([seed, *b"dirichlet"])  # the same draws
        theirs.dataset = datasets.Dataset.from_dict({"label": LABELS.tolist()})
        expected = [np.bincount(theirs.load_partition(i)["label"], minlength=10) for i in range(5)]
        assert (counts_of(dirichlet_parts(LABELS, 5, alpha, seed, 1), LABELS) == expected).all()


@pytest.mark.skipif(not FLWR, reason="flwr-datasets is not installed; it is an oracle and no dependency")
def test_pathological_counts_are_those_of_flwr_datasets_for_the_same_labels() -> None:
    import datasets
    from flwr_datasets.partitioner import PathologicalPartitioner

    ours = counts_of(pathological_parts(LABELS, 7, 3, 4), LABELS)
    theirs = PathologicalPartitioner(7, "label", 3, shuffle=False)
    theirs.dataset = datasets.Dataset.from_dict({"label": LABELS.tolist()})
    chosen = {i: np.flatnonzero(row).tolist() for i, row in enumerate(ours)}
    # Drawn by us; what is left is the dealing of rows.
    theirs._determine_partition_id_to_unique_labels = lambda: None
    theirs._unique_labels, theirs._partition_id_to_unique_labels = list(range(10)), chosen
    expected = [np.bincount(theirs.load_partition(i)["label"], minlength=10) for i in range(7)]
    assert (ours == expected).all()
