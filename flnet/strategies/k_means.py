"""The merging rule of federated k-means: centroids by the rows behind them, and no other average.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024, Algorithm 2; the arithmetic is that of `flnet.clusters`. An update holds `centroids` (k, d) and
`counts` (k,), the rows of each cluster. A base whose counts are below 0 has not begun: then updates hold
candidates, of which the first centroids are made, the same ones on all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flnet.params import Params, Schema, Update
from flnet.postponing import postponed
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import usual_mean
from flnet.weighing import Weighed, shares

with postponed("flnet.clusters"):  # until rows are grouped
    from flnet import clusters

CENTROIDS, COUNTS = "centroids", "counts"


def k_means(alpha: float = 1.0) -> Strategy:
    """Centroids move by alpha towards their mean over the nodes, by counts; without rows they stay.

    Models of another kind, without these two arrays, are averaged by examples.

    Args:
        alpha: in (0, 1].
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha:g}")

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        if not groups_rows(start.schema):
            return Merged(usual_mean(updates, start.schema), state)
        sent = [(one.params[COUNTS], one.params[CENTROIDS]) for one in updates]
        base, k = start.base[CENTROIDS], len(start.base[COUNTS])
        counts = clusters.total_counts([some for some, _ in sent], k)
        if (start.base[COUNTS] < 0).any():
            found = clusters.from_candidates(np.asarray(base, np.float64), sent, int(start.base.digest[:16], 16))
            counts = counts if counts.any() else start.base[COUNTS]
        else:
            found = clusters.merge_centroids(base, alpha, sent)
        arrays = {CENTROIDS: found, COUNTS: counts}
        params = {name: arrays[name].astype(spec.dtype) for name, spec in start.schema.specs.items()}
        rows = {
            one.peer: float(clusters.total_counts([some], k).sum())
            for one, (some, _) in zip(updates, sent, strict=True)
        }
        return Merged(Params(params), state, {peer: Weighed(share) for peer, share in shares(rows).items()})

    return Strategy("k-means" if alpha == 1 else f"k-means:{alpha:g}", merge, needs_base=True)


def groups_rows(schema: Schema) -> bool:
    """Whether updates are those of k-means: centroids (k, d) of floats, and counts (k,) of whole numbers."""
    if schema.specs.keys() != {CENTROIDS, COUNTS}:
        return False
    points, counts = schema.specs[CENTROIDS], schema.specs[COUNTS]
    kinds = np.dtype(points.dtype).kind + np.dtype(counts.dtype).kind
    return len(points.shape) == 2 and counts.shape == points.shape[:1] and kinds == "fi"
