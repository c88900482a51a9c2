"""Nodes that label the same things differently: label spaces, how they correspond, and learning from both."""

from flnet.labels.correspondence import MAX_CELLS, Correspondence, Matrix, from_weights, identity
from flnet.labels.reading import MAX_BYTES, Labelling, read_csv, read_toml
from flnet.labels.space import MAX_CLASSES, LabelSpace, read_space

__all__ = [
    "MAX_BYTES",
    "MAX_CELLS",
    "MAX_CLASSES",
    "Correspondence",
    "LabelSpace",
    "Labelling",
    "Matrix",
    "from_weights",
    "identity",
    "read_csv",
    "read_space",
    "read_toml",
]
