"""How alike two groupings of the same rows are, whatever their clusters are called."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flnet.clusters.learning import Counts

Groups = NDArray[np.int64]  # (n,) a number from 0 for each row
MOST_GROUPS = 2_000  # in one grouping


def pair_jaccard(one: Groups, other: Groups) -> float:
    """Of the pairs of rows that are together in one grouping or in the other, the share that are in both.

    s11 / (s11 + s10 + s01); 1 where no two rows are together in either.
    """
    table = shared_rows(one, other)
    both, first, second = _pairs(table), _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    return both / (first + second - both) if first + second - both else 1.0


def aligned_jaccard(one: Groups, other: Groups) -> float:
    """The mean over clusters of |A and B| / |A or B|, where clusters of one number are held to each other.

    Clusters that are empty in both do not count; 1 where all are. `aligned` renumbers one grouping to fit another.
    """
    table = shared_rows(one, other)
    k = max(table.shape)
    square = np.zeros((k, k), np.int64)
    square[: table.shape[0], : table.shape[1]] = table
    both = np.diag(square)
    either = square.sum(axis=1) + square.sum(axis=0) - both
    return float((both[either > 0] / either[either > 0]).mean()) if either.any() else 1.0


def aligned(one: Groups, other: Groups) -> Groups:
    """`other` with its clusters renumbered so that as many rows as can be have the same number as in `one`."""
    table = shared_rows(one, other)
    k = max(table.shape)
    square = np.zeros((k, k), np.int64)
    square[: table.shape[1], : table.shape[0]] = table.T
    new: Groups = best_match(square)[other]
    return new


def shared_rows(one: Groups, other: Groups) -> NDArray[np.int64]:
    """(groups of one, groups of other) how many rows each two have in common."""
    if one.shape != other.shape or one.ndim != 1 or min(one.min(initial=0), other.min(initial=0)) < 0:
        raise ValueError(f"shapes={one.shape}, {other.shape}")
    if max(one.max(initial=0), other.max(initial=0)) >= MOST_GROUPS:
        raise ValueError(f"groups>{MOST_GROUPS}")
    height, width = int(one.max(initial=0)) + 1, int(other.max(initial=0)) + 1
    return np.bincount(one * width + other, minlength=height * width).reshape(height, width)


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
    found = np.zeros(k, np.int64)
    found[taken_by[1:] - 1] = np.arange(k)
    return found


def _pairs(sizes: Counts) -> int:
    return sum(int(size) * (int(size) - 1) // 2 for size in sizes.ravel())
