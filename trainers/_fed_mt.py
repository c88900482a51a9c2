"""FedMT's losses in PyTorch: the twins of those in `flnet.labels`, which say what they are and where from.

Labels are numbers from 0; any other number says that a row has no such label. A mean over no rows is 0, and its
gradient too. Nothing here is taken from probabilities: all is computed from scores in log space.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def projected_loss(scores: Tensor, matrix: Tensor, labels: Tensor) -> Tensor:
    """FedMT's loss of rows with labels of a coarse space.

    Args:
        scores: (n, K) before the softmax.
        matrix: (J, K), matrix[j, k] = P(label j | class k), of the scores' dtype.
        labels: (n,) int64; rows whose label no class can have do not count.
    """
    there = (labels >= 0) & (labels < len(matrix))
    classes = torch.where(there, labels, 0)
    counts = there & (matrix[classes] > 0).any(dim=1)
    scores, said = scores[counts], matrix[classes[counts]].log()
    return _mean(scores.logsumexp(1) - (scores + said).logsumexp(1), scores)


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """The ordinary loss of rows with labels of the desired space."""
    counts = (labels >= 0) & (labels < scores.shape[1])
    scores = scores[counts]
    return _mean(F.cross_entropy(scores, labels[counts], reduction="none"), scores)


def mixed_cross_entropy(scores: Tensor, first: Tensor, second: Tensor, share: float) -> Tensor:
    """The loss of rows that were mixed of two others: share of the one's label, the rest of the other's."""
    return share * cross_entropy(scores, first) + (1 - share) * cross_entropy(scores, second)


def loss_of_both(scores: Tensor, labels: Tensor, coarse: Tensor, matrix: Tensor) -> Tensor:
    """The loss of a node with labels of both spaces: the sum of both means."""
    return cross_entropy(scores, labels) + projected_loss(scores, matrix, coarse)


def _mean(each: Tensor, scores: Tensor) -> Tensor:
    return each.mean() if len(each) else scores.sum()  # 0 of no rows, with a gradient
