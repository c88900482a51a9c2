"""How many groups there are, judged on part of a node's own rows: an elbow, and silhouettes."""

from __future__ import annotations

import numpy as np

from flnet.clusters import Centroids, Rows, bend, inertia, silhouette_of, tried
from flnet.training.findings import GroupFindings, Grouping

MOST_GROUPS = 10  # that are tried
MOST_ROWS = 2000  # on which they are
MOST_COMPARED = 500  # rows of these that a silhouette compares
_NUMBERS = 200_000  # in these rows: of wide ones fewer are drawn
_LEAST = 200


def group_findings(rows: Rows, centroids: Centroids) -> GroupFindings | None:
    """What these rows say of a model of groups, and of other numbers of groups; None where there are too few rows.

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
    numbers = range(1, min(MOST_GROUPS, len(some)) + 1)
    found = [Grouping(one.k, one.inertia, one.silhouette) for one in tried(some, numbers, chance, MOST_COMPARED)]
    apart = silhouette_of(some, centroids, chance, MOST_COMPARED)
    return GroupFindings(
        rows=len(rows),
        judged=len(some),
        compared=min(MOST_COMPARED, len(some)),
        common=Grouping(len(centroids), inertia(some, centroids), apart),
        tried=tuple(found),
        bend=bend(numbers, [one.inertia for one in found]),
    )
