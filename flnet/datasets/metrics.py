"""Metrics of predictions for rows with one label or several: accuracy, balanced accuracy, AUC, Hamming loss, F1, ranks.

`truth` and `guess` are 0 or 1, rows x labels; `scores` are numbers of the same shape. An undefined figure (a ratio
without a denominator, or a mean over no rows) is 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flnet.params.params import Array
from flnet.protocol.counts import BINS, MOST_BINNED, MOST_LABELS, EvaluationCounts, PooledCounts


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


def ranking_figures(truth: Array, scores: Array) -> dict[str, float]:
    """How well scores order the labels of each row: means over the rows, as scikit-learn defines them.

    "average_precision" (label_ranking_average_precision_score): over a row's labels, the share of labels among those that
    score as high or higher; 1 for a row with no label or with all. "ranking_loss" (label_ranking_loss): the share of
    pairs of a label that the row has and one that it has not which are not in the right order, ties included; 0
    for a row with no label or with all. "coverage" (coverage_error): how many of the highest labels it takes to have all
    of a row; 0 for a row without labels. "one_error": the share of rows whose highest label (the first of several) they
    do not have, which scikit-learn lacks.

    Sources: R. E. Schapire, Y. Singer, "BoosTexter", Machine Learning 39 (2000), for all but the ties; G. Tsoumakas,
    I. Katakis, I. Vlahavas, "Mining Multi-label Data" (2010), who count coverage from 0.
    """
    has, (rows, labels) = truth.astype(bool), truth.shape
    if not rows or not labels:
        return dict.fromkeys(("average_precision", "ranking_loss", "coverage", "one_error"), 0.0)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked, there = np.take_along_axis(scores, order, 1), np.take_along_axis(has, order, 1)
    ends = np.where(np.diff(ranked, axis=1, append=-np.inf) != 0, np.arange(labels), labels)
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]  # place of the last label with this score
    found = np.take_along_axis(there.cumsum(axis=1), ends, 1)  # labels of the row that score as high or higher
    own = there.sum(axis=1)
    is_defined = (own > 0) & (own < labels)
    precision = (there * found / (ends + 1)).sum(axis=1) / np.maximum(own, 1)
    wrong = (there * (ends + 1 - found)).sum(axis=1) / np.maximum(own * (labels - own), 1)
    return {
        "average_precision": _mean(np.where(is_defined, precision, 1.0)),
        "ranking_loss": _mean(np.where(is_defined, wrong, 0.0)),
        "coverage": _mean((there * (ends + 1)).max(axis=1)),
        "one_error": _mean(~has[np.arange(rows), scores.argmax(axis=1)]),
    }


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
        **ranking_figures(truth, scores),
    }


def labels_digest(names: Sequence[str]) -> str:
    """What tells labels of one node from those of another: 16 hexadecimal digits of the names in their order."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def class_counts(
    truth: Array, guess: Array, names: Sequence[str], chances: Array | None = None
) -> EvaluationCounts:
    """Counts of rows that have one class each, which nodes add up (`flnet.protocol.counts`).

    Args:
        truth, guess: (rows,), class numbers from 0.
        names: of the classes, in the order of the model's outputs.
        chances: (rows, classes), scores in [0, 1] for the area under the ROC curve; None to leave that out.
    """
    numbers = np.arange(len(names))
    right = int((truth == guess).sum())
    return label_counts(truth[:, None] == numbers, guess[:, None] == numbers, names, right, chances)


def figures_of(counts: EvaluationCounts) -> dict[str, float]:
    """Balanced accuracy, F1 macro, AUC and others of one node's rows, as a mesh has them of all rows (MESH_FIGURES)."""
    pooled = PooledCounts()
    pooled.add(counts)
    return pooled.figures()


def label_counts(
    truth: Array, guess: Array, names: Sequence[str], right: int, chances: Array | None = None
) -> EvaluationCounts:
    """Counts of rows that have any of several labels.

    Args:
        truth, guess: (rows, labels), 0 or 1.
        names: of the labels, in the order of the model's outputs.
        right: rows that the accuracy counts as right.
        chances: (rows, labels), scores in [0, 1]; None to leave out the area under the ROC curve.
    """
    if len(names) > MOST_LABELS:
        return EvaluationCounts(right=right, examples=len(truth))
    counted = Counts.of(truth, guess)
    positives: tuple[tuple[int, ...], ...] = ()
    negatives = positives
    if chances is not None and len(names) <= MOST_BINNED and np.isfinite(chances).all():
        has = truth.astype(bool)
        bins = np.clip(np.floor(np.asarray(chances, np.float64) * BINS), 0, BINS - 1).astype(np.int64)
        positives, negatives = _binned(bins, has), _binned(bins, ~has)
    return EvaluationCounts(
        right=right,
        examples=len(truth),
        labels=labels_digest(names),
        **{name: tuple(getattr(counted, name).tolist()) for name in ("tp", "fp", "fn", "tn")},
        positives=positives,
        negatives=negatives,
    )


def _binned(bins: Array, of: Array) -> tuple[tuple[int, ...], ...]:
    """For each label, the number of rows in each bin, of those that are meant."""
    columns = zip(bins.T, of.T, strict=True)
    return tuple(tuple(np.bincount(column[some], minlength=BINS).tolist()) for column, some in columns)


def softmax(scores: Array) -> Array:
    """Probabilities of classes from scores before the softmax; both are (rows, classes)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _ratio(top: Array | float, bottom: Array | float) -> Array:
    """Quotient, 0 where the denominator is 0."""
    top, bottom = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else 0.0
