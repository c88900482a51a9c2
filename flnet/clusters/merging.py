"""How the centroids of many nodes become one set, in steps whose bits are the same on all nodes.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024, Algorithm 2: the mean by counts, and a step alpha towards it. As printed, a cluster that is empty
on all nodes divides 0 by 0; here it stays where it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flnet.clusters.learning import Centroids, Counts

MOST_ROWS = 10**12  # that a node can have in a cluster; who states more counts with so many
_PART = 2.0**-80  # exact, and no sum over a thousand nodes overflows


def merge_centroids(base: Centroids, alpha: float, updates: Sequence[tuple[Counts, Centroids]]) -> Centroids:
    """base + alpha * (mean by counts - base), cluster by cluster; where nobody has a row, base.

    Args:
        base: (k, d) with which the round began.
        alpha: share of the way to the mean, in (0, 1].
        updates: counts (k,) and centroids (k, d) of each node, in the order of their ids: sums go in this order,
            so nodes that hold the same updates get the same bits.
    """
    total, weight = np.zeros(base.shape), np.zeros(len(base))
    lowest, highest = np.full(base.shape, np.inf), np.full(base.shape, -np.inf)
    for counts, centroids in updates:
        rows = _plausible(counts) * _PART
        there = rows > 0
        total[there] += rows[there, None] * np.asarray(centroids, np.float64)[there]
        lowest[there] = np.minimum(lowest[there], centroids[there])
        highest[there] = np.maximum(highest[there], centroids[there])
        weight += rows
    there = weight > 0
    # rounding could take the mean of equal numbers beyond them
    mean = np.clip(total[there] / weight[there, None], lowest[there], highest[there])
    merged = np.array(base, np.float64)
    merged[there] = mean if alpha == 1 else merged[there] + alpha * (mean - merged[there])
    return merged


def total_counts(updates: Sequence[Counts], k: int) -> Counts:
    """(k,) rows of each cluster on all nodes together."""
    total: Counts = np.sum([np.zeros(k, np.int64), *map(_plausible, updates)], axis=0, dtype=np.int64)
    return total


def _plausible(counts: Counts) -> Counts:
    plausible: Counts = np.clip(counts, 0, MOST_ROWS)
    return plausible
