"""What the rows of one training teach where nodes label differently: FedMT's losses on batches of equal number.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.labels import Loss, Matrix, cross_entropy, loss_of_both, mixed_cross_entropy, step_batches, teaching

Labels = NDArray[np.int64]
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
        """Numbers of the rows that teach anything."""
        return np.flatnonzero((self.labels >= 0) | teaching(self.coarse, self.matrix)).astype(np.int64)

    def batches(self, size: int, seed: int) -> list[Labels]:
        """Numbers of the rows of every batch; none if no row teaches anything.

        Args:
            size: rows of a batch, or all there are if they are fewer.
            seed: of their order.
        """
        rows = self.rows
        if not len(rows):
            return []
        return [rows[some] for some in step_batches(len(rows), size, self.steps, np.random.default_rng(seed))]

    def loss(self, scores: Matrix, rows: Labels) -> Loss:
        """On a batch: the ordinary loss of its desired labels, and the projected one of its coarse ones.

        Args:
            scores: (b, K) before the softmax.
            rows: (b,) which ones they are.
        """
        return loss_of_both(scores, self.labels[rows], self.coarse[rows], self.matrix)

    def loss_of_changed(self, scores: Matrix, rows: Labels) -> Loss:
        """On changed rows (noise, shifts): held to the guesses for the unchanged ones, with its weight."""
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
        """On rows between two others (m, K): held to both guesses by their shares, with its weight."""
        return mixed_cross_entropy(scores, self.guesses[mix.first], self.guesses[mix.second], mix.share).times(
            self.mixed
        )
