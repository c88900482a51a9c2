"""Metrics of predictions for rows with one label or several: accuracy, balanced accuracy, AUC, Hamming loss, F1.

`truth` and `guess` are 0 or 1, rows x labels; `scores` are numbers of the same shape. An undefined figure (a ratio
without a denominator, or a mean over no rows) is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flnet.params.params import Array


@dataclass(frozen=True)
class Counts:
    """Right and wrong guesses per label: what nodes may add up, where ratios must not be averaged.

    Attributes:
        tp, fp, fn, tn: int64, one per label: true and false positives, false and true negatives.
    """

    tp: Array
    fp: Array
    fn: Array
    tn: Array

    @classmethod
    def of(cls, truth: Array, guess: Array) -> Counts:
        """Counted over the rows."""
        t, g = truth.astype(bool), guess.astype(bool)
        return cls((t & g).sum(0), (~t & g).sum(0), (t & ~g).sum(0), (~t & ~g).sum(0))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn, self.tn + other.tn)

    def f1_macro(self) -> float:
        """Mean over the labels of 2 TP / (2 TP + FP + FN).

        The tables of Delgado Bejarano 2024 hold this, and not the harmonic mean of macro precision and macro recall
        that its equation 5.3 prints.
        """
        return _mean(_ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn))

    def f1_micro(self) -> float:
        """The same ratio of the sums over all labels."""
        tp, wrong = self.tp.sum(), self.fp.sum() + self.fn.sum()
        return float(_ratio(2 * tp, 2 * tp + wrong))

    def recall(self) -> float:
        """Share of the labels that are there which were found."""
        return float(_ratio(self.tp.sum(), self.tp.sum() + self.fn.sum()))


def subset_accuracy(truth: Array, guess: Array) -> float:
    """Share of rows with every label right."""
    return _mean((truth.astype(bool) == guess.astype(bool)).all(axis=1))


def argmax_accuracy(truth: Array, scores: Array) -> float:
    """Share of rows whose highest score is at the first label that they have.

    The published tables of Delgado Bejarano 2024 give this under the name of subset accuracy. A row without
    labels counts as one with the first label.
    """
    return _mean(truth.argmax(axis=1) == scores.argmax(axis=1)) if len(truth) else 0.0


def hamming_loss(truth: Array, guess: Array) -> float:
    """Share of labels that are wrong, over all rows."""
    return _mean(truth.astype(bool) != guess.astype(bool))


def balanced_accuracy(truth: Array, guess: Array) -> float:
    """Mean over the classes that occur in `truth` of the share of their rows guessed right; both are (rows,)."""
    return _mean(np.array([_mean(guess[truth == name] == name) for name in np.unique(truth)]))


def auc(truth: Array, scores: Array) -> float:
    """The chance that a row with the label scores above one without it, ties half; both are (rows,).

    By ranks (Mann, Whitney 1947); NaN when all rows have the label, or none has.
    """
    positive = truth.astype(bool)
    high, low = int(positive.sum()), int((~positive).sum())
    if not high or not low:
        return float("nan")
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[where.reshape(-1)]
    return float((ranks[positive].sum() - high * (high + 1) / 2) / (high * low))


def multi_label_figures(truth: Array, scores: Array, threshold: float = 0.5) -> dict[str, float]:
    """All figures of a multi-label model, by name; a label is guessed where its score reaches the threshold."""
    guess = scores >= threshold
    counts = Counts.of(truth, guess)
    return {
        "argmax_accuracy": argmax_accuracy(truth, scores),
        "subset_accuracy": subset_accuracy(truth, guess),
        "f1_macro": counts.f1_macro(),
        "f1_micro": counts.f1_micro(),
        "hamming_loss": hamming_loss(truth, guess),
    }


def _ratio(top: Array | float, bottom: Array | float) -> Array:
    """Quotient, 0 where the denominator is 0."""
    top, bottom = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else 0.0
