"""What trainers without labels need of k-means: trainers see this package and nothing else of flnet."""

from flnet.clusters import (
    Pace,
    assign,
    batches_in,
    bend,
    candidates,
    explained,
    from_seed,
    inertia,
    move,
    pair_jaccard,
    silhouette,
    silhouette_of,
    tried,
)

__all__ = [
    "Pace",
    "assign",
    "batches_in",
    "bend",
    "candidates",
    "explained",
    "from_seed",
    "inertia",
    "move",
    "pair_jaccard",
    "silhouette",
    "silhouette_of",
    "tried",
]
