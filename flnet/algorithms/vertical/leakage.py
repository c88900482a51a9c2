"""Attacks of curious peers on a split network, to measure what its messages say of labels and features.

A feature holder sees the gradient of each row by its outputs. Two attacks guess labels from it: O. Li et al., "Label
Leakage and Protection in Two-party Split Learning" (ICLR 2022), section 3. Rows of a rare class have longer gradients,
and rows of two classes have gradients that point in opposite directions. Figures are AUCs ("leak AUC" there): 0.5 says
nothing of the label, 1 everything.

A label holder sees the outputs of each row. Two attacks guess features from outputs that are linear in them: with the
bottom model's weights, as the equality-solving attack of X. Luo et al., "Feature Inference Attack on Model Predictions
in Vertical Federated Learning" (ICDE 2021); and without, from some people whose features are known, as the
inverse-network attack of Z. He, T. Zhang, R. Lee, "Model Inversion Attacks Against Collaborative Inference" (ACSAC
2019) with a linear network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.vertical.defences import norms_of
from flnet.params.params import Array

Numbers = NDArray[np.float64]
PENALTIES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def norm_scores(gradients: Array) -> Numbers:
    """The norm attack: a longer gradient (b, q) is more likely one of the rarer class; (b,)."""
    return norms_of(gradients)


def direction_scores(gradients: Array, known: Array) -> Numbers:
    """The direction attack: the cosine between each gradient (b, q) and the known one (q,) of a row with the label."""
    lengths = norms_of(gradients) * float(norms_of(known[None])[0])
    return np.asarray((gradients.astype(np.float64) @ known.astype(np.float64)) / np.maximum(lengths, 1e-300))


def invert_with_weights(outputs: Array, weight: Array, bias: Array | float = 0.0, noise: float = 0.0) -> Numbers:
    """Features (b, d) that explain linear outputs (b, q) best.

    Args:
        weight: (q, d) of the bottom model.
        bias: (q,).
        noise: standard deviation of noise in the outputs, relative to that of the features. Without noise, the
            features of least norm that give exactly these outputs, if any do.
    """
    target, w = np.asarray(outputs, np.float64) - bias, np.asarray(weight, np.float64)
    if noise == 0:
        return np.asarray(target @ np.linalg.pinv(w).T)
    return np.asarray(target @ np.linalg.solve(w @ w.T + noise**2 * np.eye(len(w)), w))


def invert_with_examples(outputs: Array, known_outputs: Array, known_features: Array) -> Numbers:
    """Features (b, d) of rows, by a linear map that is fitted to rows whose features are known.

    The map is kept small by the penalty that does best on the last third of the known rows, and guesses are kept in
    the range of the known features.

    Args:
        outputs: (b, q) of the rows under attack.
        known_outputs: (m, q) of the others.
        known_features: (m, d).
    """
    fitted = len(known_outputs) * 2 // 3
    first, rest = slice(fitted), slice(fitted, None)

    def error(penalty: float) -> float:
        guess = _mapped(known_outputs[rest], known_outputs[first], known_features[first], penalty)
        return float(((guess - known_features[rest]) ** 2).sum())

    penalty = min(PENALTIES, key=error)
    guess = _mapped(outputs, known_outputs, known_features, penalty)
    return np.asarray(np.clip(guess, known_features.min(axis=0), known_features.max(axis=0)))


def _mapped(outputs: Array, known_outputs: Array, known_features: Array, penalty: float) -> Numbers:
    """Ridge regression of features on outputs; the penalty is a part of the mean variance of an output."""
    centre, mean = known_outputs.mean(axis=0, dtype=np.float64), known_features.mean(axis=0, dtype=np.float64)
    inputs = np.asarray(known_outputs, np.float64) - centre
    covariance = inputs.T @ inputs
    ridge = max(penalty * float(np.trace(covariance)) / len(covariance), np.finfo(np.float64).tiny)
    back = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), inputs.T @ (known_features - mean))
    return np.asarray((np.asarray(outputs, np.float64) - centre) @ back + mean)


def reconstruction_error(features: Array, guess: Array) -> float:
    """Mean squared error of a guess (b, d), divided by the variance of the features.

    0 is a perfect guess, 1 is as good as the mean of all rows. Columns that never vary do not count.
    """
    spread = float(features.var(axis=0, dtype=np.float64).sum())
    return float(((guess - features) ** 2).mean(axis=0)[features.std(axis=0) > 0].sum() / spread)
