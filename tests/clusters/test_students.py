"""The k-means experiment of the thesis on the real enrolments: 54 schools of 1000, k = 3, few of them in a round.

A. Tornaría 2024: the pair Jaccard of federated and central clusters is above 0.96 after 10 rounds, whether 5, 10,
20 or 40 schools take part in a round. Needs the file `mooc_kddcup2015.npz`; `-s` shows the figures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.clusters import assign, candidates, from_candidates, merge_centroids, move, pair_jaccard
from tests.trainers.real_data import datasets_path

FILE = datasets_path() / "mooc_kddcup2015.npz"
SCHOOLS, ROWS, K, SEEDS, STILL = 54, 1000, 3, 3, 0.001


def schools(seed: int) -> list[Any]:
    """Enrolments dealt evenly, a quarter of the logarithm of each count."""
    with np.load(FILE) as file:
        counts = file["x_train"].astype(np.float64)
    drawn = np.random.default_rng(seed).permutation(len(counts))[: SCHOOLS * ROWS]
    return np.split(0.25 * np.sign(counts[drawn]) * np.log1p(np.abs(counts[drawn])), SCHOOLS)


def central(rows: Any, start: Any) -> Any:
    """Lloyd on all rows, until every centroid moves by less than a thousandth."""
    for _ in range(100):
        moved = move(rows, start).centroids
        if np.abs(moved - start).max() < STILL:
            return moved
        start = moved
    return start


def federated(parts: list[Any], start: Any, size: int, chance: np.random.Generator) -> Any:
    """Ten rounds of `size` schools each."""
    for _ in range(10):
        sent = [move(parts[school], start) for school in sorted(chance.choice(SCHOOLS, size, replace=False))]
        start = merge_centroids(start, 1.0, [(one.counts, one.centroids) for one in sent])
    return start


@pytest.mark.data
@pytest.mark.skipif(not FILE.is_file(), reason=f"{FILE} is not there")
def test_after_ten_rounds_the_clusters_are_those_of_all_rows_together() -> None:
    found: dict[int, list[float]] = {size: [] for size in (5, 10, 20, 40)}
    for seed in range(SEEDS):
        parts, base = schools(seed), np.zeros((K, 27))
        sent = [candidates(part, base, np.random.default_rng([seed, at]), 5) for at, part in enumerate(parts)]
        start = from_candidates(base, [(one.counts, one.centroids) for one in sent], seed)
        rows = np.concatenate(parts)
        wanted, _ = assign(rows, central(rows, start))
        for size, values in found.items():
            centroids = federated(parts, start, size, np.random.default_rng([seed, size]))
            values.append(pair_jaccard(wanted, assign(rows, centroids)[0]))
    for size, values in found.items():
        print(f"{size:2} schools a round: pair Jaccard {', '.join(f'{value:.3f}' for value in values)}")
        assert min(values) >= 0.96
