"""Membership inference by the loss: whether a row was among those on which a model was trained.

S. Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting" (CSF 2018): whoever has a
model and a row says "trained on" where the model's loss on it is small. The advantage is the share of training rows
that are recognised less the share of other rows that are taken for such: 0 for a guess, 1 where every row is told
rightly. What is measured is what this attack finds; a stronger one may find more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flnet.params.params import Array
from flnet.text import text

RESAMPLES = 500  # of the bootstrap
SURE = 95  # percent of an interval, and of what chance alone stays below
SMALLEST = 1e-30  # probability whose logarithm is taken


@dataclass(frozen=True)
class Membership:
    """How well the loss tells training rows from others.

    Attributes:
        advantage: at the threshold that separates them best; in [0, 1].
        low, high: 95 % interval of it, by the bootstrap.
        by_chance: up to which it comes in 95 of 100 cases for a model that has seen none of these rows.
        by_mean: the advantage with the mean loss of the training rows as the threshold, as it was published; a fixed
            threshold is not fitted to these rows, and may do worse than a guess: in [-1, 1].
        auc: the chance that a training row has a smaller loss than another row; ties half.
        members, others: rows behind it, trained on and not.
    """

    advantage: float
    low: float
    high: float
    by_chance: float
    by_mean: float
    auc: float
    members: int
    others: int

    @property
    def is_seen(self) -> bool:
        """Whether the rows are told from others better than chance does it."""
        return self.advantage > self.by_chance


def row_losses(probabilities: Array, labels: Array) -> Array:
    """Cross-entropy of each row, (n,).

    Args:
        probabilities: (n, k) of classes of which one is right.
        labels: (n,) numbers of the right classes.
    """
    right = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    losses: Array = -np.log(np.maximum(right, SMALLEST))
    return losses


def membership(members: Array, others: Array, seed: int = 0) -> Membership:
    """Measure the attack.

    Args:
        members: losses of rows that were trained on, (m,), or other figures that are smaller for them.
        others: of rows that were not, (n,), drawn from the same source.
        seed: of the bootstrap's resamples.

    Raises:
        ValueError: one of both is empty, or holds numbers that are not finite.
    """
    for losses in (members, others):
        if losses.ndim != 1 or not len(losses) or not np.isfinite(losses).all():
            raise ValueError(
                text("losses {shape}; expected a row of finite numbers, at least one", list(losses.shape))
            )
    chance = np.random.default_rng(seed)
    found = _measured(members[None], others[None])
    again = _measured(_resampled(members, chance), _resampled(others, chance))
    best = float(found.best[0])
    # The basic interval: resamples overfit the best threshold once more, so theirs lie above it and not around it.
    ends = 2 * best - np.percentile(again.best, [(100 + SURE) / 2, (100 - SURE) / 2])
    low, high = (float(end) for end in np.clip(ends, 0.0, 1.0))
    return Membership(
        best,
        min(low, best),
        max(high, best),
        by_chance(len(members), len(others)),
        float(found.by_mean[0]),
        float(found.auc[0]),
        len(members),
        len(others),
    )


def by_chance(members: int, others: int) -> float:
    """The advantage below which a model that has seen no row stays in 95 of 100 cases.

    The best advantage is how far one empirical distribution lies above another, so this is Smirnov's one-sided bound
    (1948): sqrt(-ln(0.05) / 2) = 1.224, times sqrt(1 / members + 1 / others).
    """
    factor = math.sqrt(-math.log(1 - SURE / 100) / 2)
    return min(1.0, factor * math.sqrt(1 / members + 1 / others))


class _Measured(NamedTuple):
    """Figures of several samples, (s,) each."""

    best: Array
    by_mean: Array
    auc: Array


def _resampled(losses: Array, chance: np.random.Generator) -> Array:
    """(RESAMPLES, n): the same number of rows, drawn with replacement."""
    return losses[chance.integers(0, len(losses), (RESAMPLES, len(losses)))]


def _measured(members: Array, others: Array) -> _Measured:
    """Figures of samples of members (s, m) and others (s, n)."""
    figures = [_of_one(np.sort(own), np.sort(rest)) for own, rest in zip(members, others, strict=True)]
    return _Measured(*(np.array(column) for column in zip(*figures, strict=True)))


def _of_one(members: Array, others: Array) -> tuple[float, float, float]:
    """The best advantage, that at the mean of the members, and the AUC; both are sorted."""
    at = np.concatenate([members, others])  # a threshold between two losses does what the lower one does
    hits = np.searchsorted(members, at, "right") / len(members)
    mistakes = np.searchsorted(others, at, "right") / len(others)
    mean = members.mean()
    by_mean = np.searchsorted(members, mean, "right") / len(members)
    by_mean -= np.searchsorted(others, mean, "right") / len(others)
    below = np.searchsorted(others, members, "left") + np.searchsorted(others, members, "right")
    auc = 1 - float(below.mean()) / (2 * len(others))
    return max(0.0, float((hits - mistakes).max())), float(by_mean), auc
