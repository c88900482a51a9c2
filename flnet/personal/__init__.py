"""What stays at home: the arithmetic of models that a node has for itself beside the common one."""

from flnet.personal.apfl import mixed, moved_share
from flnet.personal.controls import corrected, renewed
from flnet.personal.descending import Descent
from flnet.personal.increment import increment_of, raised
from flnet.personal.selecting import known, threshold

__all__ = [
    "Descent",
    "corrected",
    "increment_of",
    "known",
    "mixed",
    "moved_share",
    "raised",
    "renewed",
    "threshold",
]
