"""Losses of rows that are labelled in another label space: FedMT's projected loss, related losses, and their gradients.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3. A model gives f,
the probabilities of K desired classes; with M[j, k] = P(label j | class k) a row labelled j costs -log (M f)[j].

All losses are taken from logits z, where f = softmax(z), and stay in log space: with r[k] proportional to
f[k] M[j, k], what the label says of the class, the loss is logsumexp(z) - logsumexp(z + log M[j]) and its gradient
f - r. Neither can underflow, and the gradient is bounded. A floor under (M f)[j], as public code has it, stops the
gradient of just those rows that the model gets most wrong.

Labels are numbers from 0. Any other number, -1 for instance, says that the row has no such label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.labels.spaces import Matrix

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Loss:
    """The mean loss of rows, and its gradient.

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
    """(n,) whether each row teaches: its label is one of the J classes and contains a desired class."""
    has_label = (labels >= 0) & (labels < len(matrix))
    classes: NDArray[np.int64] = np.where(has_label, labels, 0)
    counted: NDArray[np.bool_] = has_label & (np.count_nonzero(matrix, axis=1)[classes] > 0)
    return counted


def projected(probabilities: Matrix, matrix: Matrix) -> Matrix:
    """Probabilities of the J coarse classes, (n, J), from those of the K desired ones, (n, K)."""
    result: Matrix = np.asarray(probabilities, np.float64) @ matrix.T
    return result


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
    """The usual cross-entropy loss for labels of the desired space: `projected_loss` with the identity for M."""
    scores = _shifted(logits)
    counts = (labels >= 0) & (labels < scores.shape[1])
    truth = np.zeros_like(scores)
    truth[np.arange(len(labels)), np.where(counts, labels, 0)] = 1
    return _mean(_log_sum(scores) - (scores * truth).sum(axis=1), _softmax(scores) - truth, counts)


def mixed_cross_entropy(logits: Matrix, first: Labels, second: Labels, share: float) -> Loss:
    """The loss of mixed rows (`mixed`): share * CE(first) + (1 - share) * CE(second)."""
    return cross_entropy(logits, first).times(share) + cross_entropy(logits, second).times(1 - share)


def mixed(first: Matrix, second: Matrix, share: float) -> Matrix:
    """Interpolated rows: share * first + (1 - share) * second, of one shape."""
    between: Matrix = share * first + (1 - share) * second
    return between


def loss_of_both(logits: Matrix, labels: Labels, coarse: Labels, matrix: Matrix) -> Loss:
    """The loss of a node that has labels of both spaces: the sum of both means.

    Args:
        labels: (n,) of the desired space, -1 where the row has none.
        coarse: (n,) of the coarse space, -1 likewise. A row may have both.
    """
    return cross_entropy(logits, labels) + projected_loss(logits, matrix, coarse)


def _shifted(logits: Matrix) -> Matrix:
    """The scores shifted so that the largest of each row is 0."""
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


def step_batches(rows: int, size: int, steps: int, chance: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Row numbers of exactly `steps` batches, pass after pass, each pass in a new order.

    A batch has `size` rows, or all there are if they are fewer. What is left of a pass goes before the next one.

    Raises:
        ValueError: there are no rows.
    """
    if rows < 1 or size < 1:
        raise ValueError(f"rows={rows}, size={size}")
    size, left = min(size, rows), np.zeros(0, np.int64)
    for _ in range(steps):
        if len(left) < size:
            left = np.concatenate([left, chance.permutation(rows)])
        yield left[:size]
        left = left[size:]


MOSTLY_ONE = 0.75  # both parameters of the beta distribution of shares: a mix is mostly of one row


@dataclass(frozen=True)
class Mix:
    """Rows of a batch between two others: share of the first ones, the rest of the second ones.

    Attributes:
        first, second: (m,) numbers of training rows; none where fewer than two rows of the batch are guessed.
        share: of the first ones, in [0, 1].
    """

    first: Labels
    second: Labels
    share: float


@dataclass(frozen=True)
class Lesson:
    """One training; all numbers are of the own training rows, in the order of `Trainer.inputs`.

    Attributes:
        labels: (n,) of the desired space, -1 where a row has none.
        coarse: (n,) of the node's own space, likewise.
        matrix: (J, K): chance of each coarse class for rows of each desired one.
        steps: how many batches there are, whatever the number of rows.
        guesses: (n,) desired classes that the model is sure of, -1 elsewhere.
        fixed: weight of the loss on changed rows by those guesses.
        mixed: weight of the loss on rows between two others by the guesses for both.
    """

    labels: Labels
    coarse: Labels
    matrix: Matrix
    steps: int
    guesses: Labels
    fixed: float = 0.0
    mixed: float = 0.0

    @property
    def rows(self) -> Labels:
        """Numbers of the rows that teach."""
        return np.flatnonzero((self.labels >= 0) | teaching(self.coarse, self.matrix)).astype(np.int64)

    def batches(self, size: int, seed: int) -> list[Labels]:
        """Numbers of the rows of every batch; empty if no row teaches.

        Args:
            size: rows of a batch, or all there are if they are fewer.
            seed: of their order.
        """
        rows = self.rows
        if not len(rows):
            return []
        return [rows[some] for some in step_batches(len(rows), size, self.steps, np.random.default_rng(seed))]

    def loss(self, scores: Matrix, rows: Labels) -> Loss:
        """The loss of a batch: the ordinary loss of desired labels, and the projected loss of coarse ones.

        Args:
            scores: (b, K) before the softmax.
            rows: (b,) which ones they are.
        """
        return loss_of_both(scores, self.labels[rows], self.coarse[rows], self.matrix)

    def loss_of_changed(self, scores: Matrix, rows: Labels) -> Loss:
        """The loss of changed rows (noise, shifts) against the guesses for the unchanged rows, with its weight."""
        return cross_entropy(scores, self.guesses[rows]).times(self.fixed)

    def mix(self, rows: Labels, chance: np.random.Generator) -> Mix:
        """How the rows of a batch that have a guess are mixed, each with another one of them or with itself.

        Args:
            rows: (b,) of a batch.
            chance: draws partners, and one share for the batch.
        """
        sure = rows[self.guesses[rows] >= 0]
        share = float(chance.beta(MOSTLY_ONE, MOSTLY_ONE))
        return Mix(sure, chance.permutation(sure), share) if len(sure) > 1 else Mix(sure[:0], sure[:0], share)

    def loss_of_mixed(self, scores: Matrix, mix: Mix) -> Loss:
        """The loss of mixed rows (m, K) against the guesses for both rows, by their shares, with its weight."""
        return mixed_cross_entropy(scores, self.guesses[mix.first], self.guesses[mix.second], mix.share).times(
            self.mixed
        )
