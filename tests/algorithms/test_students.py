"""The k-means experiment of the thesis on the real enrolments: 54 schools of 1000, k = 3, few of them in a round.

A. Tornaría 2024: the pair Jaccard of federated and central clusters is above 0.96 after 10 rounds, whether 5, 10,
20 or 40 schools take part in a round. Needs the file `mooc_kddcup2015.npz`; `-s` shows the figures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.algorithms.clustering import pair_jaccard
from flnet.algorithms.k_means import assign, candidates, from_candidates, merge_centroids, move
from tests.trainers.real_data import datasets_path

FILE = datasets_path() / "mooc_kddcup2015.npz"
SCHOOLS, ROWS, K, STILL = 54, 1000, 3, 0.001
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]


def schools(seed: int) -> list[Any]:
    """Enrolments dealt evenly, a quarter of the logarithm of each count."""
    with np.load(FILE) as file:
        counts = file["x_train"].astype(np.float64)
    drawn = np.random.default_rng(seed).permutation(len(counts))[: SCHOOLS * ROWS]
    return np.split(0.25 * np.sign(counts[drawn]) * np.log1p(np.abs(counts[drawn])), SCHOOLS)


def central(rows: Any, start: Any) -> list[Any]:
    """The steps of Lloyd on all rows, until no coordinate of a centroid moves by a thousandth."""
    steps = [start]
    while len(steps) < 100:
        steps.append(move(rows, steps[-1]).centroids)
        if np.abs(steps[-1] - steps[-2]).max() < STILL:
            break
    return steps


def federated(parts: list[Any], start: Any, size: int, chance: np.random.Generator, rounds: int = 10) -> list[Any]:
    """What each round of `size` schools comes to."""
    result = []
    for _ in range(rounds):
        sent = [move(parts[school], start) for school in drawn_schools(size, chance)]
        start = merge_centroids(start, 1.0, [(each.counts, each.centroids) for each in sent])
        result.append(start)
    return result


def drawn_schools(size: int, chance: np.random.Generator) -> list[int]:
    return sorted(chance.choice(SCHOOLS, size, replace=False).tolist())


def spread_over(parts: list[Any], some: list[int], seed: int) -> Any:
    """A start that is spread over means of these schools' rows."""
    base = np.zeros((K, 27))
    sent = [candidates(parts[school], base, np.random.default_rng([seed, school]), 5) for school in some]
    return from_candidates(base, [(each.counts, each.centroids) for each in sent], seed)


@pytest.mark.data
@pytest.mark.skipif(not FILE.is_file(), reason=f"{FILE} is not there")
@pytest.mark.parametrize("seed", SEEDS)
def test_after_ten_rounds_the_clusters_are_those_of_all_rows_together(seed: int) -> None:
    parts = schools(seed)
    start, rows = spread_over(parts, list(range(SCHOOLS)), seed), np.concatenate(parts)
    wanted, _ = assign(rows, central(rows, start)[-1])
    for size in (5, 10, 20, 40):
        centroids = federated(parts, start, size, np.random.default_rng([seed, size]))[-1]
        alike = pair_jaccard(wanted, assign(rows, centroids)[0])
        print(f"{size:2} schools a round: pair Jaccard {alike:.3f}")
        assert alike >= 0.96


@pytest.mark.data
@pytest.mark.long
@pytest.mark.skipif(not FILE.is_file(), reason=f"{FILE} is not there")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [5, 10, 20, 40])
def test_where_the_first_schools_make_the_start_a_round_is_worth_a_step_of_lloyd(size: int, seed: int) -> None:
    """A hundred rounds, as in the thesis; beside them Lloyd itself after ten steps from the same start."""
    parts, chance = schools(seed), np.random.default_rng([seed, size])
    start, rows = spread_over(parts, drawn_schools(size, chance), seed), np.concatenate(parts)
    steps, rounds = central(rows, start), federated(parts, start, size, chance, 100)
    wanted, _ = assign(rows, steps[-1])
    compared = steps[min(10, len(steps) - 1)], rounds[9], rounds[99]
    alike = [pair_jaccard(wanted, assign(rows, each)[0]) for each in compared]
    message = ", ".join(f"{value:.3f}" for value in alike)
    print(f"{size:2} schools: after 10 of Lloyd's {len(steps) - 1} steps, 10, 100 rounds {message}")
    assert alike[1] > alike[0] - 0.05
