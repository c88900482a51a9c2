"""What rows teach that are labelled in another space: FedMT's projected loss, its companions, and their gradients.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3. A model gives f,
the probabilities of K desired classes; with M[j, k] = P(label j | class k) a row labelled j costs -log (M f)[j].

All losses are taken from logits z, where f = softmax(z), and stay in log space: with r[k] proportional to
f[k] M[j, k], what the label says of the class, the loss is logsumexp(z) - logsumexp(z + log M[j]) and its gradient
f - r. Neither can underflow, and the gradient is bounded. A floor under (M f)[j], as public code has it, stops the
gradient of just those rows that the model gets most wrong.

Labels are numbers from 0. Any other number, -1 for instance, says that the row has no such label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.labels.correspondence import Matrix

Labels = NDArray[np.int64]
FLOOR = 1e-6  # under probabilities that are given as such


@dataclass(frozen=True)
class Loss:
    """A mean over rows, and where it leads.

    Attributes:
        value: mean over the rows that count; 0 if none does.
        gradient: (n, K), of `value` by the logits; zeros for a row that does not count.
        rows: how many count.
    """

    value: float
    gradient: Matrix
    rows: int

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.value + other.value, self.gradient + other.gradient, self.rows + other.rows)

    def times(self, factor: float) -> Loss:
        """The loss with this weight."""
        return Loss(factor * self.value, factor * self.gradient, self.rows)


def teaching(labels: Labels, matrix: Matrix) -> NDArray[np.bool_]:
    """(n,) which rows teach: their label is one of the J classes, and some desired class lies in it."""
    there = (labels >= 0) & (labels < len(matrix))
    classes: NDArray[np.int64] = np.where(there, labels, 0)
    found: NDArray[np.bool_] = there & (np.count_nonzero(matrix, axis=1)[classes] > 0)
    return found


def projected(probabilities: Matrix, matrix: Matrix) -> Matrix:
    """Probabilities of the J coarse classes, (n, J), from those of the K desired ones, (n, K)."""
    found: Matrix = np.asarray(probabilities, np.float64) @ matrix.T
    return found


def projected_loss(logits: Matrix, matrix: Matrix, labels: Labels) -> Loss:
    """FedMT's loss of rows with labels of the coarse space; rows that teach nothing do not count.

    Args:
        logits: (n, K), finite.
        matrix: (J, K), as of a `Correspondence` or an estimate.
        labels: (n,), coarse.
    """
    counts = teaching(labels, matrix)
    scores = _shifted(logits)
    with np.errstate(divide="ignore"):
        weighed = scores + np.log(matrix)[np.where(counts, labels, 0)]
    weighed[~counts] = 0
    each = _log_sum(scores) - _log_sum(weighed)
    return _mean(each, _softmax(scores) - _softmax(weighed), counts)


def cross_entropy(logits: Matrix, labels: Labels) -> Loss:
    """The ordinary loss, of labels of the desired space: what `projected_loss` is where M is the identity."""
    scores = _shifted(logits)
    counts = (labels >= 0) & (labels < scores.shape[1])
    truth = np.zeros_like(scores)
    truth[np.arange(len(labels)), np.where(counts, labels, 0)] = 1
    return _mean(_log_sum(scores) - (scores * truth).sum(axis=1), _softmax(scores) - truth, counts)


def mixed_cross_entropy(logits: Matrix, first: Labels, second: Labels, share: float) -> Loss:
    """The loss of rows that were mixed of two others (`mixed`): share * CE(first) + (1 - share) * CE(second)."""
    return cross_entropy(logits, first).times(share) + cross_entropy(logits, second).times(1 - share)


def mixed(first: Matrix, second: Matrix, share: float) -> Matrix:
    """Rows between two others: share * first + (1 - share) * second, of one shape."""
    between: Matrix = share * first + (1 - share) * second
    return between


def loss_of_both(logits: Matrix, labels: Labels, coarse: Labels, matrix: Matrix) -> Loss:
    """The loss of a node that has labels of both spaces: the sum of both means.

    Args:
        labels: (n,) of the desired space, -1 where the row has none.
        coarse: (n,) of the coarse space, -1 likewise. A row may have both.
    """
    return cross_entropy(logits, labels) + projected_loss(logits, matrix, coarse)


def loss_of_probabilities(probabilities: Matrix, matrix: Matrix, labels: Labels, floor: float = FLOOR) -> float:
    """The mean of -log (M f)[label] for measuring, where only probabilities are known.

    Args:
        probabilities: (n, K); exact zeros may stand in it, so (M f)[label] is taken as `floor` at least.
    """
    counts = teaching(labels, matrix)
    said = projected(probabilities, matrix)[np.arange(len(labels)), np.where(counts, labels, 0)]
    return float(-np.log(np.maximum(said[counts], floor)).mean()) if counts.any() else 0.0


def _shifted(logits: Matrix) -> Matrix:
    """The same scores up to a constant for each row: the largest is 0."""
    scores = np.array(logits, np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    return scores


def _log_sum(scores: Matrix) -> Matrix:
    top = scores.max(axis=1)
    with np.errstate(divide="ignore"):
        total: Matrix = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
    return total


def _softmax(scores: Matrix) -> Matrix:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Matrix = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _mean(each: Matrix, gradient: Matrix, counts: NDArray[np.bool_]) -> Loss:
    rows = int(counts.sum())
    if not rows:
        return Loss(0.0, np.zeros_like(gradient), 0)
    return Loss(float(each[counts].mean()), np.where(counts[:, None], gradient, 0) / rows, rows)
