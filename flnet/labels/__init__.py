"""Nodes that label the same things differently: label spaces, how they correspond, and learning from both."""

from flnet.labels.correspondence import MAX_CELLS, Correspondence, Matrix, from_weights, identity
from flnet.labels.estimating import Estimate, Guesses, WarmUp, count_pairs, guesses, leaning, pooled
from flnet.labels.losses import (
    Loss,
    cross_entropy,
    loss_of_both,
    loss_of_probabilities,
    mixed,
    mixed_cross_entropy,
    projected,
    projected_loss,
    teaching,
)
from flnet.labels.reading import MAX_BYTES, Labelling, must_be_learnable, read_csv, read_fields, read_toml
from flnet.labels.scheduling import (
    Phase,
    Schedule,
    Weighting,
    average_weights,
    counts_for,
    phase,
    step_batches,
    trains,
)
from flnet.labels.space import MAX_CLASSES, LabelSpace, read_space

__all__ = [
    "MAX_BYTES",
    "MAX_CELLS",
    "MAX_CLASSES",
    "Correspondence",
    "Estimate",
    "Guesses",
    "LabelSpace",
    "Labelling",
    "Loss",
    "Matrix",
    "Phase",
    "Schedule",
    "WarmUp",
    "Weighting",
    "average_weights",
    "count_pairs",
    "counts_for",
    "cross_entropy",
    "from_weights",
    "guesses",
    "identity",
    "leaning",
    "loss_of_both",
    "loss_of_probabilities",
    "mixed",
    "mixed_cross_entropy",
    "must_be_learnable",
    "phase",
    "pooled",
    "projected",
    "projected_loss",
    "read_csv",
    "read_fields",
    "read_space",
    "read_toml",
    "step_batches",
    "teaching",
    "trains",
]
