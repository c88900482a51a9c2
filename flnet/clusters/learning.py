"""One node's part of federated k-means: its rows move the centroids; only centroids and counts leave the node.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024, Algorithm 2. For each of E epochs the counts begin at 0; a batch assigns its rows to the nearest
centroid, and where a cluster got rows, its count grows by theirs and its centroid moves by beta * (rows / count)
towards their mean. As printed, a cluster without rows in the first batch divides 0 by 0.

With one epoch of one batch and beta = 1 this is Lloyd's step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]  # (n, d)
Centroids = NDArray[np.float64]  # (k, d)
Counts = NDArray[np.int64]  # (k,)

_BLOCK = 131_072  # numbers that one step looks at, so that what it writes stays in a core's cache


@dataclass(frozen=True)
class Moved:
    """What a node sends.

    Attributes:
        counts: rows of each cluster in the last epoch.
        centroids: where they are now; where the count is 0, where they were.
    """

    counts: Counts
    centroids: Centroids


@dataclass(frozen=True)
class Pace:
    """How a node learns.

    Attributes:
        epochs: passes over its rows.
        batch: rows that are assigned together; 0 for all.
        beta: share of the way to the mean that a centroid goes, in (0, 1].
        min_count: clusters of fewer rows are told as if they had none, for a count of 1 would give away a row.
    """

    epochs: int = 1
    batch: int = 0
    beta: float = 1.0
    min_count: int = 1


def assign(rows: Rows, centroids: Centroids) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each row, of equally near ones the first, and the squared distance to it.

    Rows are looked at block by block, one centroid after another, so memory stays bounded. A distance is the sum
    of squares column by column, and no product of rows and centroids: equal distances come out equal, and the same
    on every processor.
    """
    nearest, least = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    for block in blocks(len(rows), rows.shape[1]):
        columns = np.array(np.asarray(rows[block], np.float64).T, order="C")
        for number, centroid in enumerate(centroids):
            apart = columns - centroid[:, None]
            squares = np.add.reduce(np.multiply(apart, apart, out=apart), axis=0)
            nearer = squares < least[block]
            least[block][nearer] = squares[nearer]
            nearest[block][nearer] = number
    return nearest, least


def blocks(rows: int, columns: int) -> list[slice]:
    """Parts of rows that are worked on together."""
    size = max(1, _BLOCK // max(1, columns))
    return [slice(start, start + size) for start in range(0, rows, size)]


def move(
    rows: Rows,
    centroids: Centroids,
    pace: Pace = Pace(),
    chance: np.random.Generator | None = None,
    done: Callable[[int], bool] = lambda batches: False,
) -> Moved:
    """The counts and centroids that a node sends after it has learnt from its rows.

    Args:
        rows: (n, d), finite; of no rows nothing moves.
        centroids: (k, d), common to all nodes; not changed.
        pace: epochs, batch size, beta, and what is kept back.
        chance: a new order of the rows in each epoch; None for the order in which they stand.
        done: asked after each batch with the number of batches so far; True ends the learning.
    """
    start = np.asarray(centroids, np.float64)
    moved, counts = start.copy(), np.zeros(len(start), np.int64)
    size, batches = pace.batch or max(1, len(rows)), 0
    for _ in range(pace.epochs if len(rows) else 0):
        counts = np.zeros(len(start), np.int64)
        order = np.arange(len(rows)) if chance is None else chance.permutation(len(rows))
        for first in range(0, len(rows), size):
            _learn(rows, order[first : first + size], moved, counts, pace.beta)
            batches += 1
            if done(batches):
                return suppressed(Moved(counts, moved), start, pace.min_count)
    return suppressed(Moved(counts, moved), start, pace.min_count)


def suppressed(moved: Moved, start: Centroids, min_count: int) -> Moved:
    """The same without clusters of fewer than `min_count` rows: they count 0 and stay where they began."""
    kept = moved.counts >= max(1, min_count)
    return Moved(np.where(kept, moved.counts, 0), np.where(kept[:, None], moved.centroids, start))


def batches_in(rows: int, pace: Pace) -> int:
    """How many batches `move` has, for progress."""
    return pace.epochs * -(-rows // (pace.batch or max(1, rows)))


def _learn(rows: Rows, batch: NDArray[np.int64], centroids: Centroids, counts: Counts, beta: float) -> None:
    """One batch: `centroids` and `counts` are changed in place."""
    sums, sizes = np.zeros_like(centroids), np.zeros_like(counts)
    for block in blocks(len(batch), rows.shape[1]):
        part = np.asarray(rows[batch[block]], np.float64)
        nearest, _ = assign(part, centroids)
        sizes += np.bincount(nearest, minlength=len(counts))
        for number in np.unique(nearest):
            sums[number] += part[nearest == number].sum(axis=0)
    there = sizes > 0
    counts += sizes
    means = sums[there] / sizes[there, None]
    share = beta * (sizes[there] / counts[there])[:, None]
    centroids[there] = np.where(share == 1, means, centroids[there] + share * (means - centroids[there]))
