"""Rows without labels: federated k-means, how alike groupings are, and how many groups there are."""

from flnet.clusters.comparing import Groups, aligned, aligned_jaccard, pair_jaccard
from flnet.clusters.judging import Tried, bend, elbow, explained, inertia, silhouette, silhouette_of, tried
from flnet.clusters.learning import Centroids, Counts, Moved, Pace, Rows, assign, batches_in, move, suppressed
from flnet.clusters.merging import MOST_ROWS, merge_centroids, total_counts
from flnet.clusters.starting import candidates, from_candidates, from_seed, spread

__all__ = [
    "MOST_ROWS",
    "Centroids",
    "Counts",
    "Groups",
    "Moved",
    "Pace",
    "Rows",
    "Tried",
    "aligned",
    "aligned_jaccard",
    "assign",
    "batches_in",
    "bend",
    "candidates",
    "elbow",
    "explained",
    "from_candidates",
    "from_seed",
    "inertia",
    "merge_centroids",
    "move",
    "pair_jaccard",
    "silhouette",
    "silhouette_of",
    "spread",
    "suppressed",
    "total_counts",
    "tried",
]
