"""Estimates the correspondence of two label spaces from a model's own confident guesses.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3. On a node with labels
of the coarse space, the model guesses a desired class for each row. Pairs of label and confident guess are counted, and
M follows from the columns of the counts.

As printed, a column of a class that is never guessed is 0/0, and a pair that never occurs makes log 0 of the loss. Here
every pair counts a little more than it occurs (`SMOOTHING`), and a column without confident guesses follows the
tendency of the unsure ones (`leaning`). As printed, a node without a confident row stops; here it has no estimate yet
and waits for one (`WarmUp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flnet.labels.losses import Labels
from flnet.labels.spaces import Matrix

Counts = NDArray[np.int64]  # (J, K)
THRESHOLD = 0.95  # a guess is confident above it
SMOOTHING = 0.01  # what every pair counts at least, in rows


@dataclass(frozen=True)
class Guesses:
    """The pseudo-labels of a model and their confidence.

    Attributes:
        classes: (n,) the most probable desired class of each row; of equal ones the first.
        sure: (n,) whether its probability is above the threshold.
    """

    classes: Labels
    sure: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """Share of the rows on which the model is sure; 0 of none."""
        return float(self.sure.mean()) if len(self.sure) else 0.0


def guesses(probabilities: Matrix, threshold: float = THRESHOLD) -> Guesses:
    """The pseudo-labels of rows from probabilities (n, K)."""
    best = probabilities.argmax(axis=1) if probabilities.size else np.zeros(len(probabilities), np.int64)
    highest = probabilities.max(axis=1) if probabilities.size else np.zeros(len(probabilities))
    return Guesses(best.astype(np.int64), highest > threshold)


def count_pairs(labels: Labels, guessed: Guesses, shape: tuple[int, int]) -> Counts:
    """How often each coarse label meets each confident guess.

    Args:
        labels: (n,) coarse; a number that is no class of the space does not count.
        guessed: the model's guesses for the same rows.
        shape: (J, K).
    """
    counts = np.zeros(shape, np.int64)
    used = guessed.sure & (labels >= 0) & (labels < shape[0])
    np.add.at(counts, (labels[used], guessed.classes[used]), 1)
    return counts


def leaning(labels: Labels, probabilities: Matrix, classes: int, smoothing: float = SMOOTHING) -> Matrix:
    """(J, K), columns add up to 1: the correspondence as all guesses lean, the unsure ones too.

    It stands in for classes of which the model is not sure anywhere yet. A column of equal numbers there would be
    a trap: by it no label speaks for the class, so the model unlearns the class, and is never sure of it again.

    Args:
        labels: (n,) coarse; a number that is no class of the space does not count.
        probabilities: (n, K) what the model says of the same rows.
        classes: J.
        smoothing: added to the share of each pair in its column, above 0, however improbable the class is.
    """
    sums = np.zeros((classes, probabilities.shape[1]))
    has_label = (labels >= 0) & (labels < classes)
    np.add.at(sums, labels[has_label], probabilities[has_label])
    totals = sums.sum(axis=0)
    shares = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0) + smoothing
    return np.asarray(shares / shares.sum(axis=0), np.float64)


@dataclass(frozen=True)
class Estimate:
    """A correspondence estimated from counts, with a Dirichlet distribution for each column.

    Attributes:
        counts: (J, K).
        smoothing: added to each count, above 0.
        prior: (J, K), above 0, columns add up to 1 (`leaning`): J * smoothing * prior is added then, so that it
            decides the columns that nobody saw; each pair the same if absent.
    """

    counts: Counts
    smoothing: float = SMOOTHING
    prior: Matrix | None = None

    def __post_init__(self) -> None:
        if not self.smoothing > 0:
            raise ValueError(f"smoothing={self.smoothing:g} <= 0")

    @property
    def matrix(self) -> Matrix:
        """(J, K), columns add up to 1: the mean of the distribution. What nobody saw is the prior, or 1/J each."""
        shares: Matrix = self._weights / self._weights.sum(axis=0)
        return shares

    @property
    def deviation(self) -> Matrix:
        """(J, K): standard deviation of each entry of `matrix`; 0.5 at most, of two classes that nobody saw."""
        mean, weight = self.matrix, self._weights.sum(axis=0)
        deviation: Matrix = np.sqrt(mean * (1 - mean) / (weight + 1))
        return deviation

    @property
    def _weights(self) -> Matrix:
        added = 1.0 if self.prior is None else len(self.counts) * self.prior
        return np.asarray(self.counts + self.smoothing * added, np.float64)

    @property
    def seen(self) -> NDArray[np.int64]:
        """(K,) the number of confident rows behind each column."""
        rows: NDArray[np.int64] = self.counts.sum(axis=0)
        return rows

    def view(self) -> dict[str, Any]:
        """The fields as JSON-ready data for the page."""
        return {
            "matrix": self.matrix.tolist(),
            "deviation": self.deviation.tolist(),
            "seen": self.seen.tolist(),
        }


@dataclass(frozen=True)
class WarmUp:
    """Decides when coarse labels start to count: an estimate by an untrained model does lasting harm.

    Attributes:
        least: rounds in which only nodes of the desired space train, whatever the others say.
        share: of the rows of at least one node on which the model has to be sure.
    """

    least: int = 5
    share: float = 0.5

    def is_over(self, rounds: int, shares: Sequence[float]) -> bool:
        """Whether the others may join after so many rounds; once they did, do not ask again.

        Args:
            rounds: done so far.
            shares: `Guesses.share` of each node with coarse labels, as far as known.
        """
        return rounds >= self.least and max(shares, default=0.0) >= self.share
