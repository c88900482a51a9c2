"""An autoencoder of a node's own inputs: what it cannot rebuild is unlike them. In numpy, for every trainer alike.

Of images the one of FLProtector (Martínez Enríquez et al., Table 8): 3x3 convolutions of 16 and 8 filters, then of
16 and as many as there are channels, a sigmoid at the end. The table says nothing of how they shrink: here each of
the first two takes every second pixel, and each of the last two sees its input at double size. Of rows of numbers
a dense layer that is half as wide, and one back.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from flnet.params import Array
from flnet.personal.descending import Descent

FILTERS = (16, 8, 16)
RATE, BATCH = 1e-3, 32
_WIDTH = 3  # of a filter
Weights = Mapping[str, Array]


def fresh(shape: tuple[int, ...], seed: int) -> dict[str, Array]:
    """Uniform weights (Glorot, Bengio 2010), biases 0.

    Args:
        shape: of one input, (height, width, channels) or (columns,).
    """
    chance, found = np.random.default_rng(seed), {}
    for layer, (inputs, outputs) in enumerate(_widths(shape)):
        bound = (6 / (inputs + outputs)) ** 0.5
        found[f"{layer}.weight"] = chance.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        found[f"{layer}.bias"] = np.zeros(outputs, np.float32)
    return found


def errors(weights: Weights, x: Array) -> Array:
    """How badly each input is rebuilt: the mean square of the differences, (n,).

    Args:
        x: (n, height, width, channels) in [0, 1], or (n, columns).
    """
    found = [
        np.square(_through(weights, _fitting(part))[-1] - _fitting(part)).reshape(len(part), -1).mean(1)
        for part in np.split(x, range(256, len(x), 256))
    ]
    return np.concatenate(found).astype(np.float64)


def step(weights: Weights, descent: Descent, x: Array) -> float:
    """One step of learning to rebuild these inputs, in place; the mean square error before it."""
    x = _fitting(x)
    seen: list[Array] = []
    values = _through(weights, x, seen)
    difference = values[-1] - x
    descent.step(weights, _slopes(weights, values, seen, difference * (2 / difference.size)))
    return float(np.square(difference).mean())


def trained(x: Array, seed: int, epochs: int = 4, least: int = 800) -> dict[str, Array]:
    """The autoencoder of these inputs.

    Args:
        x: as in `errors`, at least one.
        epochs: passes, each in a new order.
        least: steps, for few inputs in more passes.
    """
    weights, descent = fresh(x.shape[1:], seed), Descent("adam", RATE)
    chance, steps = np.random.default_rng(seed), -(-len(x) // BATCH)
    for _ in range(max(epochs, -(-least // steps))):
        for rows in np.array_split(chance.permutation(len(x)), steps):
            step(weights, descent, x[rows])
    return weights


def _widths(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Inputs and outputs of each layer; of a convolution the inputs that one filter sees."""
    if len(shape) == 1:
        narrow = max(1, shape[0] // 2)
        return [(shape[0], narrow), (narrow, shape[0])]
    channels = (shape[2], *FILTERS, shape[2])
    return [(one * _WIDTH**2, other) for one, other in pairwise(channels)]


def _fitting(x: Array) -> Array:
    """Images whose sides can be halved twice: their last rows and columns are drawn out."""
    if x.ndim == 2:
        return x
    return np.pad(x, [(0, 0), (0, -x.shape[1] % 4), (0, -x.shape[2] % 4), (0, 0)], mode="edge")


def _through(weights: Weights, x: Array, seen: list[Array] | None = None) -> list[Array]:
    """What goes into each layer, and what comes out of the last one; `seen` gets what each layer's filters see."""
    values, last = [x], len(weights) // 2 - 1
    for layer in range(last + 1):
        gathered = _gathered(values[-1], layer)
        if seen is not None:
            seen.append(gathered)
        out = gathered @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"]
        if x.ndim == 2:
            values.append(np.tanh(out) if layer < last else out)
        else:
            values.append(np.maximum(out, 0) if layer < last else 0.5 * (np.tanh(0.5 * out) + 1))
    return values


def _slopes(weights: Weights, values: list[Array], seen: list[Array], error: Array) -> dict[str, Array]:
    """Gradients of all weights, from that of what came out."""
    found, last = {}, len(weights) // 2 - 1
    for layer in range(last, -1, -1):
        out = values[layer + 1]
        if values[0].ndim == 2:
            error = error * (1 - out * out) if layer < last else error
        else:
            error = error * (out > 0) if layer < last else error * out * (1 - out)
        flat = error.reshape(-1, error.shape[-1])
        found[f"{layer}.weight"] = seen[layer].reshape(-1, seen[layer].shape[-1]).T @ flat
        found[f"{layer}.bias"] = flat.sum(0)
        if layer:
            error = _scattered(error @ weights[f"{layer}.weight"].T, values[layer].shape, layer)
    return found


def _gathered(x: Array, layer: int) -> Array:
    """What each filter sees at each place, (n, height, width, 9 channels); rows of numbers as they are."""
    if x.ndim == 2:
        return x
    stride = 2 if layer < 2 else 1
    x = x if layer < 2 else x.repeat(2, 1).repeat(2, 2)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    height, width = x.shape[1] // stride, x.shape[2] // stride
    return np.concatenate(
        [padded[:, i : i + stride * height : stride, j : j + stride * width : stride] for i, j in _PLACES], 3
    )


def _scattered(seen: Array, shape: tuple[int, ...], layer: int) -> Array:
    """The gradient by the inputs of a layer, from that by what its filters see: the opposite of `_gathered`."""
    if len(shape) == 2:
        return seen
    stride, times = (2, 1) if layer < 2 else (1, 2)
    count, channels = shape[0], shape[3]
    padded = np.zeros((count, times * shape[1] + 2, times * shape[2] + 2, channels), seen.dtype)
    height, width = seen.shape[1], seen.shape[2]
    for number, (i, j) in enumerate(_PLACES):
        there = padded[:, i : i + stride * height : stride, j : j + stride * width : stride]
        there += seen[..., number * channels : (number + 1) * channels]
    whole = padded[:, 1:-1, 1:-1]
    return np.asarray(whole.reshape(count, shape[1], times, shape[2], times, channels).sum((2, 4)))


_PLACES = [(i, j) for i in range(_WIDTH) for j in range(_WIDTH)]
