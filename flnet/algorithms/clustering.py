"""Quality of a grouping, similarity of two groupings, and the number of groups in a node's own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.k_means import Centroids, Counts, Rows, assign, blocks, move, spread
from flnet.trainer import GroupFindings, Grouping

Groups = NDArray[np.int64]  # (n,) a number from 0 for each row
MOST_GROUPS = 2_000  # in one grouping


def pair_jaccard(left: Groups, right: Groups) -> float:
    """The share of pairs of rows that are together in both groupings, of those that are together in at least one.

    s11 / (s11 + s10 + s01); 1 where no two rows are together in either.
    """
    table = shared_rows(left, right)
    both, first, second = _pairs(table), _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    return both / (first + second - both) if first + second - both else 1.0


def aligned_jaccard(left: Groups, right: Groups) -> float:
    """The mean over clusters of |A and B| / |A or B|, where clusters of one number are held to each other.

    Clusters that are empty in both do not count; 1 where all are. `aligned` renumbers one grouping to fit another.
    """
    table = shared_rows(left, right)
    k = max(table.shape)
    square = np.zeros((k, k), np.int64)
    square[: table.shape[0], : table.shape[1]] = table
    both = np.diag(square)
    either = square.sum(axis=1) + square.sum(axis=0) - both
    return float((both[either > 0] / either[either > 0]).mean()) if either.any() else 1.0


def aligned(left: Groups, right: Groups) -> Groups:
    """`right` with its clusters renumbered so that as many rows as possible have the same number as in `left`."""
    table = shared_rows(left, right)
    k = max(table.shape)
    square = np.zeros((k, k), np.int64)
    square[: table.shape[1], : table.shape[0]] = table.T
    new: Groups = best_match(square)[right]
    return new


def shared_rows(left: Groups, right: Groups) -> NDArray[np.int64]:
    """(groups of one, groups of other) how many rows each two have in common."""
    if left.shape != right.shape or left.ndim != 1 or min(left.min(initial=0), right.min(initial=0)) < 0:
        raise ValueError(f"shapes={left.shape}, {right.shape}")
    if max(left.max(initial=0), right.max(initial=0)) >= MOST_GROUPS:
        raise ValueError(f"groups>{MOST_GROUPS}")
    height, width = int(left.max(initial=0)) + 1, int(right.max(initial=0)) + 1
    return np.bincount(left * width + right, minlength=height * width).reshape(height, width)


def best_match(gains: NDArray[np.int64]) -> NDArray[np.int64]:
    """(k,) which column each row of a square table takes, so that the sum of what they take is largest.

    The Hungarian method with potentials (Kuhn 1955; Munkres 1957), k cubed steps.
    """
    k, costs = len(gains), -gains.astype(np.float64)
    row_price, column_price = np.zeros(k + 1), np.zeros(k + 1)
    taken_by = np.zeros(k + 1, np.int64)  # of each column, rows counted from 1; column 0 is where a search begins
    for row in range(1, k + 1):
        taken_by[0], column, came_from = row, 0, np.zeros(k + 1, np.int64)
        slack, done = np.full(k + 1, np.inf), np.zeros(k + 1, np.bool_)
        while taken_by[column]:
            done[column] = True
            mine = taken_by[column]
            reduced = np.r_[np.inf, costs[mine - 1] - row_price[mine] - column_price[1:]]
            nearer = ~done & (reduced < slack)
            slack[nearer], came_from[nearer] = reduced[nearer], column
            following = int(np.argmin(np.where(done, np.inf, slack)))
            step = slack[following]
            row_price[taken_by[done]] += step
            column_price[done] -= step
            slack[~done] -= step
            column = following
        while column:
            taken_by[column] = taken_by[came_from[column]]
            column = int(came_from[column])
    chosen = np.zeros(k, np.int64)
    chosen[taken_by[1:] - 1] = np.arange(k)
    return chosen


def _pairs(sizes: Counts) -> int:
    return sum(int(size) * (int(size) - 1) // 2 for size in sizes.ravel())


MOST_COMPARED = 2000  # rows that a silhouette compares with each other; of more, so many are drawn
_STEPS = 50  # of Lloyd for each number of clusters, at most
_STARTS = 3  # of each number of clusters that is tried


@dataclass(frozen=True)
class Tried:
    """The result of k-means with one number of clusters on a node's own rows.

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
    """The mean silhouette, in [-1, 1] (Rousseeuw 1987): how much nearer rows are to their own cluster than to the next.

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


def tried(
    rows: Rows, numbers: Sequence[int], chance: np.random.Generator, most: int = MOST_COMPARED
) -> list[Tried]:
    """The inertia and silhouette of each number of clusters, by k-means on a node's own rows; the best start of three.

    Args:
        rows: (n, d), at least as many as the largest number.
        numbers: of clusters, rising.
        chance: draws the starts, and the rows that silhouettes compare.
        most: rows that a silhouette compares.
    """
    results: list[Tried] = []
    for k in numbers:
        ways = [_settled(rows, k, chance) for _ in range(_STARTS if k > 1 else 1)]
        best = min(ways, key=lambda centroids: inertia(rows, centroids))
        least = min([inertia(rows, best), *(earlier.inertia for earlier in results[-1:])])
        results.append(Tried(k, least, silhouette_of(rows, best, chance, most)))
    return results


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


MOST_TRIED = 10  # numbers of groups
MOST_ROWS = 2000  # on which they are
COMPARED_ROWS = 500  # rows of these that a silhouette compares
_NUMBERS = 200_000  # in these rows: of wide ones fewer are drawn
_LEAST = 200


def group_findings(rows: Rows, centroids: Centroids) -> GroupFindings | None:
    """The diagnosis of a model of groups on these rows, and of other numbers of groups; None with too few rows.

    The same rows give the same figures: what is drawn is drawn from a fixed seed.

    Args:
        rows: (n, d) own rows on the scale of the model.
        centroids: (k, d) the model's.
    """
    if len(rows) < 2:
        return None
    chance = np.random.default_rng(0)
    most = min(MOST_ROWS, max(_LEAST, _NUMBERS // max(1, rows.shape[1])))
    some = rows if len(rows) <= most else rows[np.sort(chance.choice(len(rows), most, replace=False))]
    some = np.asarray(some, np.float64)
    numbers = range(1, min(MOST_TRIED, len(some)) + 1)
    groupings = [
        Grouping(result.k, result.inertia, result.silhouette)
        for result in tried(some, numbers, chance, COMPARED_ROWS)
    ]
    apart = silhouette_of(some, centroids, chance, COMPARED_ROWS)
    return GroupFindings(
        rows=len(rows),
        judged=len(some),
        compared=min(COMPARED_ROWS, len(some)),
        common=Grouping(len(centroids), inertia(some, centroids), apart),
        tried=tuple(groupings),
        bend=bend(numbers, [grouping.inertia for grouping in groupings]),
    )
