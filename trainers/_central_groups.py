"""Groups that Lloyd's algorithm finds on the rows of all nodes in one place, to compare with.

For experiments alone: on a mesh nobody has all rows.
"""

from __future__ import annotations

import numpy as np

from flnet.algorithms.clustering import pair_jaccard
from flnet.algorithms.k_means import assign, move
from flnet.trainer import Array

STILL = 0.001  # by which every centroid moves less at the end
_MOST_STEPS = 1000


class CentralGroups:
    """All rows; what was found last is remembered, for all nodes of an experiment ask the same."""

    def __init__(self, rows: Array) -> None:
        """Args:
        rows: (n, d).
        """
        self._rows = rows
        self._central: tuple[bytes, Array] = (b"", np.zeros(0, np.int64))
        self._last: tuple[bytes, float] = (b"", 0.0)

    def alike(self, start: Array, centroids: Array) -> float:
        """Pair Jaccard of the groups around centroids (k, d) with those that Lloyd finds from a start (k, d)."""
        asked = start.tobytes() + centroids.tobytes()
        if asked != self._last[0]:
            found = pair_jaccard(self._found(start), assign(self._rows, centroids)[0])
            self._last = asked, found
        return self._last[1]

    def _found(self, start: Array) -> Array:
        if start.tobytes() != self._central[0]:
            groups = assign(self._rows, lloyd(self._rows, start))[0]
            self._central = start.tobytes(), groups
        return self._central[1]


def lloyd(rows: Array, start: Array) -> Array:
    """Centroids (k, d) where each step on all rows moves every one of them by less than a thousandth."""
    for _ in range(_MOST_STEPS):
        moved = move(rows, start).centroids
        far = np.sqrt(((moved - start) ** 2).sum(axis=1)).max()
        start = moved
        if far < STILL:
            break
    return start
