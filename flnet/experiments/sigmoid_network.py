"""A dense network with one hidden layer of sigmoids, in numpy: small enough to be attacked in every way.

The smooth hidden layer is that of L. Zhu et al. (2019): attacks that match gradients need second derivatives. Parameters
are float64 arrays: "hidden.weight" (d, h), "hidden.bias" (h,), "output.weight" (h, k), "output.bias" (k,).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.trainer import RowPrivacy

Numbers = NDArray[np.float64]
Model = Mapping[str, Numbers]
NAMES = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")


class Outputs(NamedTuple):
    """What the layers give for inputs: hidden outputs (n, h), and probabilities of classes (n, k)."""

    hidden: Numbers
    probabilities: Numbers


class RowErrors(NamedTuple):
    """Gradients of each row's loss by what comes out of a layer before its function: (n, h) and (n, k)."""

    hidden: Numbers
    output: Numbers


def initial(seed: int, inputs: int, hidden: int, classes: int) -> Model:
    """Uniform weights as Glorot and Bengio (2010) have them, biases 0."""
    chance = np.random.default_rng(seed)

    def weights(*shape: int) -> Numbers:
        bound = (6 / sum(shape)) ** 0.5
        return chance.uniform(-bound, bound, shape)

    arrays = weights(inputs, hidden), np.zeros(hidden), weights(hidden, classes), np.zeros(classes)
    return dict(zip(NAMES, arrays, strict=True))


def sigmoid(values: Numbers) -> Numbers:
    """1 / (1 + exp(-value)), for any value."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)))


def softmax(scores: Numbers) -> Numbers:
    """Probabilities of classes, each row adds up to 1."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def forward(model: Model, x: Numbers) -> Outputs:
    """The outputs of both layers for inputs (n, d)."""
    hidden = sigmoid(x @ model["hidden.weight"] + model["hidden.bias"])
    return Outputs(hidden, softmax(hidden @ model["output.weight"] + model["output.bias"]))


def row_errors(model: Model, outputs: Outputs, targets: Numbers) -> RowErrors:
    """Errors of rows with these probabilities of classes as their labels, (n, k)."""
    output = outputs.probabilities - targets
    hidden = (output @ model["output.weight"].T) * outputs.hidden * (1 - outputs.hidden)
    return RowErrors(hidden, np.asarray(output))


def gradient(model: Model, x: Numbers, labels: NDArray[np.integer], clip: float = np.inf) -> Model:
    """The gradient of the summed cross-entropy of rows (n, d), each row's own shortened to the norm `clip`.

    A row's gradient is an outer product in each layer, so its norm follows from norms of vectors.
    """
    outputs = forward(model, x)
    errors = row_errors(model, outputs, np.eye(len(model["output.bias"]))[labels])
    if np.isfinite(clip):
        squares = _squares(errors.hidden) * (1 + _squares(x))
        squares += _squares(errors.output) * (1 + _squares(outputs.hidden))
        factors = np.minimum(1, clip / np.maximum(np.sqrt(squares), np.finfo(float).tiny))[:, None]
        errors = RowErrors(errors.hidden * factors, errors.output * factors)
    return gradient_of(x, outputs.hidden, errors)


def gradient_of(x: Numbers, hidden: Numbers, errors: RowErrors) -> Model:
    """The gradient behind rows whose errors are known."""
    arrays = x.T @ errors.hidden, errors.hidden.sum(axis=0), hidden.T @ errors.output, errors.output.sum(axis=0)
    return dict(zip(NAMES, arrays, strict=True))


def _squares(rows: Numbers) -> Numbers:
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def train(
    model: Model,
    x: Numbers,
    labels: NDArray[np.integer],
    chance: np.random.Generator,
    epochs: int,
    rate: float,
    batch: int,
    privacy: RowPrivacy | None = None,
) -> Model:
    """Descend along gradients, in shuffled batches; with row privacy by DP-SGD (Abadi et al. 2016).

    There each row is in a batch with the probability batch / rows, and normal noise is added to the sum of the
    clipped gradients, which is divided by the expected number of rows.
    """
    count = len(labels)
    model = {name: array.copy() for name, array in model.items()}
    for _ in range(epochs):
        order = chance.permutation(count)
        for start in range(0, count, batch):
            if privacy is None:
                rows = order[start : start + batch]
                slopes, size = gradient(model, x[rows], labels[rows]), len(rows)
            else:
                rows = np.flatnonzero(chance.random(count) < batch / count)
                slopes, size = noisy_gradient(model, x[rows], labels[rows], privacy, chance), batch
            for name in NAMES:
                model[name] -= rate / size * slopes[name]
    return model


def noisy_gradient(
    model: Model, x: Numbers, labels: NDArray[np.integer], privacy: RowPrivacy, chance: np.random.Generator
) -> Model:
    """The sum of clipped gradients of rows with normal noise; the noise can be repeated, as an experiment needs it."""
    slopes, deviation = gradient(model, x, labels, privacy.clip), privacy.noise_multiplier * privacy.clip
    return {
        name: slope + deviation * chance.standard_normal(slope.shape, np.float32) for name, slope in slopes.items()
    }
