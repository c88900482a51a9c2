"""Membership inference with shadow models: R. Shokri et al., "Membership Inference Attacks Against Machine Learning
Models" (IEEE S&P 2017).

An attacker with rows of its own trains models as the attacked one was trained. Of these it knows which rows they have
seen, and learns from the probabilities that they give how seen rows differ from others, for each class by itself. The
classifier is a logistic regression.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.membership_inference import SMALLEST
from flnet.experiments.sigmoid_network import Numbers, sigmoid

PENALTY = 1.0  # on squared weights, of standardised features
STEPS = 30  # of Newton's method
FEWEST = 10  # rows of a class, seen or not, for a classifier of its own


class Confidences(NamedTuple):
    """What a model says of rows.

    Attributes:
        probabilities: (n, k).
        labels: (n,) right classes.
        seen: (n,) whether the model was trained on the row.
    """

    probabilities: Numbers
    labels: NDArray[np.int64]
    seen: NDArray[np.bool_]

    @classmethod
    def together(cls, parts: list[Confidences]) -> Confidences:
        """The rows of all."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class ShadowAttack:
    """Tells seen rows from others by their probabilities."""

    def __init__(self, shadows: Confidences) -> None:
        """Learn from what shadow models say of rows that they have seen, and of others."""
        features = _features(shadows)
        self._middle, self._spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-12)
        scaled = self._scaled(shadows)
        self._common = _fitted(scaled, shadows.seen)
        self._weights = {}
        for label in np.unique(shadows.labels):
            own = shadows.labels == label
            if min(shadows.seen[own].sum(), (~shadows.seen[own]).sum()) >= FEWEST:
                self._weights[int(label)] = _fitted(scaled[own], shadows.seen[own])

    def chances(self, rows: Confidences) -> Numbers:
        """For each row the chance that the model was trained on it, (n,); `rows.seen` is not looked at."""
        weights = np.stack([self._weights.get(int(label), self._common) for label in rows.labels])
        return sigmoid(np.einsum("nf,nf->n", self._scaled(rows), weights))

    def advantage(self, rows: Confidences) -> float:
        """The share of seen rows that it takes for seen, less that of others."""
        found = self.chances(rows) > 0.5
        return float(found[rows.seen].mean() - found[~rows.seen].mean())

    def _scaled(self, rows: Confidences) -> Numbers:
        scaled = (_features(rows) - self._middle) / self._spread
        return np.hstack([scaled, np.ones((len(scaled), 1))])


def _features(rows: Confidences) -> Numbers:
    """Logarithms of the probabilities, the right class' first and the others by size: (n, k)."""
    logs = np.log(np.maximum(rows.probabilities, SMALLEST))
    right = np.take_along_axis(logs, rows.labels[:, None], axis=1)
    others = logs.copy()
    np.put_along_axis(others, rows.labels[:, None], -np.inf, axis=1)
    return np.hstack([right, -np.sort(-others, axis=1)[:, :-1]])


def _fitted(features: Numbers, seen: NDArray[np.bool_]) -> Numbers:
    """Weights (f,) of a logistic regression, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(STEPS):
        chances = sigmoid(features @ weights)
        slope = features.T @ (chances - seen) + PENALTY * weights
        curvature = (features.T * (chances * (1 - chances))) @ features + PENALTY * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, slope)
    return weights
