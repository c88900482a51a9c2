"""How good a grouping is, and how many groups there are, judged on a node's own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.clusters.comparing import Groups
from flnet.clusters.learning import Centroids, Rows, assign, blocks, move
from flnet.clusters.starting import spread

MOST_COMPARED = 2000  # rows that a silhouette compares with each other; of more, so many are drawn
_STEPS = 50  # of Lloyd for each number of clusters of an elbow, at most
_STARTS = 3  # of each number of clusters that is tried


@dataclass(frozen=True)
class Tried:
    """What comes of one number of clusters on a node's own rows.

    Attributes:
        k: how many there are.
        inertia: mean squared distance of a row to its centroid; never above that of fewer clusters.
        silhouette: in [-1, 1]; None where rows lie in fewer than two clusters.
    """

    k: int
    inertia: float
    silhouette: float | None


def inertia(rows: Rows, centroids: Centroids) -> float:
    """The mean squared distance of a row to its centroid; 0 of no rows."""
    return float(assign(rows, centroids)[1].mean()) if len(rows) else 0.0


def explained(rows: Rows, centroids: Centroids) -> float:
    """The share of the rows' variance that the clusters explain: 1 - inertia / variance, not below 0.

    1 is for rows that lie on centroids; rows that are all alike leave nothing to explain, and give 1 if they do.
    """
    if not len(rows):
        return 0.0
    left, variance = inertia(rows, centroids), inertia(rows, _mean(rows)[None])
    if variance <= 0:
        return float(left <= 0)
    return max(0.0, 1 - left / variance)


def silhouette(rows: Rows, groups: Groups, chance: np.random.Generator, most: int = MOST_COMPARED) -> float:
    """How much nearer rows are to their own cluster than to the next one, in [-1, 1] (Rousseeuw 1987).

    The mean of (b - a) / max(a, b), where a is the mean distance to the other rows of the own cluster and b the
    smallest mean distance to the rows of another one; a row alone in its cluster gives 0, and so does one cluster.

    Args:
        rows: (n, d).
        groups: (n,) the cluster of each row.
        chance: draws the rows that are compared, where there are more than `most`.
        most: rows that are compared; the distances of so many are computed, block by block.
    """
    if len(rows) > most:
        drawn = np.sort(chance.choice(len(rows), most, replace=False))
        rows, groups = rows[drawn], groups[drawn]
    known, own = np.unique(groups, return_inverse=True)
    if len(known) < 2:
        return 0.0
    sizes = np.bincount(own)
    sums = _distance_sums(np.asarray(rows, np.float64), own, len(known))
    places = np.arange(len(rows))
    inside = sums[places, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[places, own] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    scores = np.divide(outside - inside, larger, out=np.zeros(len(rows)), where=(larger > 0) & (sizes[own] > 1))
    return float(scores.mean())


def elbow(rows: Rows, numbers: Sequence[int], chance: np.random.Generator) -> list[float]:
    """The inertia of each number of clusters, by k-means on a node's own rows alone.

    Args:
        rows: (n, d).
        numbers: of clusters, rising.
        chance: draws the starts.
    """
    found: list[float] = []
    for k in numbers:
        found.append(min([inertia(rows, _settled(rows, k, chance)), *found[-1:]]))
    return found


def tried(
    rows: Rows, numbers: Sequence[int], chance: np.random.Generator, most: int = MOST_COMPARED
) -> list[Tried]:
    """An elbow with the silhouette of each number of clusters beside it; of three starts the best one counts.

    Args:
        rows: (n, d), at least as many as the largest number.
        numbers: of clusters, rising.
        chance: draws the starts, and the rows that silhouettes compare.
        most: rows that a silhouette compares.
    """
    found: list[Tried] = []
    for k in numbers:
        ways = [_settled(rows, k, chance) for _ in range(_STARTS if k > 1 else 1)]
        best = min(ways, key=lambda centroids: inertia(rows, centroids))
        least = min([inertia(rows, best), *(one.inertia for one in found[-1:])])
        found.append(Tried(k, least, silhouette_of(rows, best, chance, most)))
    return found


def silhouette_of(
    rows: Rows, centroids: Centroids, chance: np.random.Generator, most: int = MOST_COMPARED
) -> float | None:
    """The silhouette of the clusters around centroids; None where rows lie in fewer than two of them."""
    groups = assign(rows, centroids)[0]
    return silhouette(rows, groups, chance, most) if len(np.unique(groups)) > 1 else None


def bend(numbers: Sequence[int], inertias: Sequence[float]) -> int:
    """The number of clusters at which an elbow bends most: where it is farthest below the line of its ends."""
    x, y = np.asarray(numbers, np.float64), np.asarray(inertias, np.float64)
    if len(x) < 3 or y[0] <= y[-1]:
        return numbers[0]
    below = (1 - (x - x[0]) / (x[-1] - x[0])) - (y - y[-1]) / (y[0] - y[-1])
    return numbers[int(np.argmax(below))]


def _settled(rows: Rows, k: int, chance: np.random.Generator) -> Centroids:
    """Lloyd's steps from a start that is spread over the rows, until nothing moves."""
    centroids = spread(rows, np.ones(len(rows)), k, chance)
    for _ in range(_STEPS):
        moved = move(rows, centroids).centroids
        if (moved == centroids).all():
            break
        centroids = moved
    return centroids


def _distance_sums(rows: Rows, own: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """(n, k) the sum of the distances of each row to all rows of each cluster."""
    sums = np.zeros((len(rows), k))
    for block in blocks(len(rows), max(1, rows.size)):
        apart = rows[block, None] - rows[None]
        distances = np.sqrt(np.einsum("ijd,ijd->ij", apart, apart))
        for number in range(k):
            sums[block, number] = distances[:, own == number].sum(axis=1)
    return sums


def _mean(rows: Rows) -> NDArray[np.float64]:
    total = np.zeros(rows.shape[1])
    for block in blocks(len(rows), rows.shape[1]):
        total += np.asarray(rows[block], np.float64).sum(axis=0)
    return total / len(rows)
