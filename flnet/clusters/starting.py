"""Where k-means begins: from a seed alone, or spread over the rows of all nodes without moving one of them.

The second way takes one exchange of the same form as every other one. Each node spreads k candidates over its own
rows (k-means++: Arthur, Vassilvitskii 2007), moves each to the mean of the rows that are nearest to it, and sends
means and counts. All nodes then spread k centroids over these weighted candidates, and refine them, in the same
steps with the same seed. That one node's means stand for its rows is the idea of k-FED (Dennis, Li, Smith 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.clusters.learning import Centroids, Counts, Moved, Rows, assign, suppressed
from flnet.clusters.merging import MOST_ROWS

TRIES = 4  # starts of which the best is taken; each draws the best of several rows, too
_STEPS = 50  # of Lloyd over the candidates, at most


def from_seed(seed: int, k: int, low: Sequence[float], high: Sequence[float]) -> Centroids:
    """(k, d) centroids drawn evenly from a box, without any data; the same on all nodes.

    Args:
        seed: of the run.
        k: how many.
        low: of each column, the smallest value that is to be expected, as all nodes know it.
        high: the largest.
    """
    chance = np.random.default_rng([seed, *b"centroids"])
    corner, size = np.asarray(low, np.float64), np.subtract(high, low, dtype=np.float64)
    return corner + chance.random((k, len(corner))) * size


def candidates(rows: Rows, base: Centroids, chance: np.random.Generator, min_count: int = 1) -> Moved:
    """What a node sends in the exchange before the first one: means of its own rows, spread over them.

    Args:
        rows: (n, d).
        base: (k, d), with which the job was announced; it stands in for candidates that are kept back.
        chance: the node's own.
        min_count: means of fewer rows are kept back.
    """
    if not len(rows):
        return Moved(np.zeros(len(base), np.int64), np.array(base, np.float64))
    drawn = spread(rows, np.ones(len(rows)), len(base), chance)
    nearest, _ = assign(rows, drawn)
    counts = np.bincount(nearest, minlength=len(base))
    means = np.array(drawn)
    for number in np.flatnonzero(counts):
        means[number] = np.asarray(rows[nearest == number], np.float64).mean(axis=0)
    return suppressed(Moved(counts, means), np.asarray(base, np.float64), min_count)


def from_candidates(base: Centroids, updates: Sequence[tuple[Counts, Centroids]], seed: int) -> Centroids:
    """k centroids from the candidates of all nodes; base if nobody sent one.

    Args:
        base: (k, d).
        updates: counts (k,) and candidates (k, d) of each node, in the order of their ids.
        seed: of the run; the same updates with the same seed give the same bits on all nodes.
    """
    k = len(base)
    points = np.concatenate([base[:0], *(np.asarray(sent, np.float64)[counts > 0] for counts, sent in updates)])
    weights = np.concatenate([np.zeros(0), *(counts[counts > 0] for counts, _ in updates)])
    if not len(points):
        return np.array(base, np.float64)
    weights, best = np.minimum(weights, MOST_ROWS), (np.inf, base)
    for attempt in range(TRIES):
        found = _refined(points, weights, spread(points, weights, k, np.random.default_rng([seed, attempt])))
        cost = _sum(assign(points, found)[1] * weights)
        best = (cost, found) if cost < best[0] else best
    return np.array(best[1], np.float64)


def spread(rows: Rows, weights: NDArray[np.float64], k: int, chance: np.random.Generator) -> Centroids:
    """k of the rows, each drawn by weight times squared distance to those drawn before it.

    Of several draws the one that helps most is taken. Where there are fewer different rows than k, rows stand
    there twice: those centroids stay empty until rows come.
    """
    draws = 2 + int(np.log(k)) if k > 1 else 1
    chosen = [_drawn(weights, chance)]
    least = assign(rows, np.asarray(rows[chosen], np.float64))[1]
    for _ in range(1, k):
        tried = [_drawn(weights * least, chance) for _ in range(draws)]
        left = [np.minimum(least, assign(rows, np.asarray(rows[[one]], np.float64))[1]) for one in tried]
        best = min(range(draws), key=lambda place: _sum(left[place] * weights))
        chosen.append(tried[best])
        least = left[best]
    return np.asarray(rows[chosen], np.float64)


def _drawn(weights: NDArray[np.float64], chance: np.random.Generator) -> int:
    """A row number by weight; any one if all weights are 0."""
    ends = np.cumsum(weights)
    if not 0 < ends[-1] < np.inf:
        return int(chance.integers(len(weights)))
    return int(min(np.searchsorted(ends, chance.random() * ends[-1], side="right"), len(weights) - 1))


def _refined(points: Rows, weights: NDArray[np.float64], centroids: Centroids) -> Centroids:
    """Lloyd's steps over weighted points, until none changes its cluster."""
    before = np.full(len(points), -1)
    for _ in range(_STEPS):
        nearest, _ = assign(points, centroids)
        if (nearest == before).all():
            break
        centroids, before = np.array(centroids), nearest
        for number in np.unique(nearest):
            inside = nearest == number
            centroids[number] = _columns(points[inside] * weights[inside, None]) / _sum(weights[inside])
    return centroids


def _sum(values: NDArray[np.float64]) -> float:
    """One after another, so that the bits do not depend on the processor."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _columns(rows: Rows) -> NDArray[np.float64]:
    """The sum of each column, likewise."""
    total: NDArray[np.float64] = np.cumsum(rows, axis=0)[-1]
    return total
