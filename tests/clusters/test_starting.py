"""Where k-means begins: alike on all nodes, spread over the rows of all, and no row moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.clusters.comparing import pair_jaccard
from flnet.clusters.judging import inertia
from flnet.clusters.learning import assign, move
from flnet.clusters.merging import merge_centroids
from flnet.clusters.starting import candidates, from_candidates, from_seed, spread
from tests.clusters.rows import START, heaps


def test_a_seed_alone_gives_the_same_start_everywhere() -> None:
    start = from_seed(7, 3, [-1, 10], [1, 20])
    assert start.tolist() == from_seed(7, 3, [-1, 10], [1, 20]).tolist()
    assert start.tolist() != from_seed(8, 3, [-1, 10], [1, 20]).tolist()
    assert ((start >= [-1, 10]) & (start <= [1, 20])).all()
    assert start.shape == (3, 2)


def test_candidates_are_means_of_at_least_so_many_rows() -> None:
    rows, _ = heaps(0)
    sent = candidates(rows, START, np.random.default_rng(0), min_count=5)
    assert (sent.counts[sent.counts > 0] >= 5).all()
    assert sent.counts.sum() <= len(rows)
    sums = sent.counts @ sent.centroids
    if sent.counts.sum() == len(rows):
        assert sums == pytest.approx(rows.sum(axis=0))
    assert not {row.tobytes() for row in rows} & {point.tobytes() for point in sent.centroids}
    lonely = candidates(rows[:3], START, np.random.default_rng(0), min_count=2)
    assert lonely.centroids[lonely.counts == 0].tolist() == START[lonely.counts == 0].tolist()


def test_of_nothing_comes_the_base() -> None:
    sent = candidates(np.zeros((0, 2)), START, np.random.default_rng(0))
    assert (sent.counts.tolist(), sent.centroids.tolist()) == ([0, 0, 0], START.tolist())
    assert from_candidates(START, [], 0).tolist() == START.tolist()
    assert from_candidates(START, [(sent.counts, sent.centroids)], 0).tolist() == START.tolist()


def federated(parts: list[Any], base: Any, seed: int) -> Any:
    sent = [candidates(rows, base, np.random.default_rng([seed, at])) for at, rows in enumerate(parts)]
    return from_candidates(base, [(one.counts, one.centroids) for one in sent], seed)


@pytest.mark.parametrize("seed", range(8))
def test_every_heap_gets_a_centroid_though_no_node_has_seen_more_than_one(seed: int) -> None:
    """Each node has one heap only: a draw that a node makes alone could never find the others."""
    rows, groups = heaps(seed)
    parts = [rows[groups == heap] for heap in range(3)]
    start = federated(parts, np.full((3, 2), 100.0), seed)
    found, _ = assign(rows, start)
    assert pair_jaccard(groups, found) > 0.9


def test_a_spread_start_is_better_than_a_box() -> None:
    spread_out, boxed = list[float](), list[float]()
    for seed in range(10):
        rows, _ = heaps(seed, spread=0.5)
        box = from_seed(seed, 3, rows.min(axis=0).tolist(), rows.max(axis=0).tolist())
        for start, found in ((federated([rows[::2], rows[1::2]], box, seed), spread_out), (box, boxed)):
            centroids = start
            for _ in range(20):
                sent = move(rows, centroids)
                centroids = merge_centroids(centroids, 1.0, [(sent.counts, sent.centroids)])
            found.append(inertia(rows, centroids))
    assert max(spread_out) < 0.6  # the variance of a heap is 2 * .25
    assert max(boxed) > 2 * max(spread_out)


def test_more_clusters_than_rows() -> None:
    rows = np.array([[1.0, 1], [2, 2]])
    drawn = spread(rows, np.ones(2), 4, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {(1.0, 1.0), (2.0, 2.0)}
    start = federated([rows], np.zeros((4, 2)), 0)
    assert inertia(rows, start) == 0
    assert spread(rows, np.ones(2), 1, np.random.default_rng(0)).shape == (1, 2)


def test_rows_without_weight_are_not_drawn() -> None:
    rows = np.array([[1.0], [5.0], [9.0]])
    drawn = [spread(rows, np.array([1.0, 0, 1.0]), 2, np.random.default_rng(seed)) for seed in range(20)]
    assert {tuple(sorted(one[:, 0])) for one in drawn} == {(1.0, 9.0)}
