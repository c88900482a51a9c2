"""Threat 16: what an update tells of the examples behind it. These tests measure it, and hold back no promise.

Geiping et al., "Inverting Gradients" (2020): where a layer has a bias, one step on one example gives the example
away exactly, as the quotient of two gradients. Peak signal-to-noise ratios are in dB, for pixels in [0, 1]; above
40 two pictures look the same, below 15 nothing is to be seen.
"""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params.arithmetic import clipped
from flnet.params.params import Array, Params, Schema

PIXELS, CLASSES = 64, 10


def picture(seed: int) -> Array:
    """A random picture."""
    found: Array = np.random.default_rng(seed).random(PIXELS)
    return found


def trained(rows: Array, labels: Array, epochs: int = 1) -> tuple[Params, Params]:
    """Parameters of a softmax regression before and after full-batch gradient descent."""
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(0, 0.01, (PIXELS, CLASSES)), np.zeros(CLASSES)
    base = Params({"w": weights.astype(np.float32), "b": bias.astype(np.float32)})
    for _ in range(epochs):
        scores = rows @ weights + bias
        shares = np.exp(scores - scores.max(1, keepdims=True))
        wrong = shares / shares.sum(1, keepdims=True) - np.eye(CLASSES)[labels]
        weights, bias = weights - 0.5 * rows.T @ wrong / len(rows), bias - 0.5 * wrong.mean(0)
    return base, Params({"w": weights.astype(np.float32), "b": bias.astype(np.float32)})


def guessed(base: Params, update: Params, label: int) -> Array:
    """What a peer works out of an update for an example of this class."""
    moved = {name: update[name].astype(np.float64) - base[name] for name in base}
    found: Array = np.clip(moved["w"][:, label] / moved["b"][label], 0, 1)
    return found


def psnr(truth: Array, guess: Array) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(-10 * np.log10(max(1e-12, np.mean((truth - guess) ** 2))))


def test_one_step_on_one_example_gives_it_away() -> None:
    truth = picture(1)
    base, update = trained(truth[None], np.array([3]))
    assert psnr(truth, guessed(base, update, 3)) > 40


@pytest.mark.parametrize("most", [1.0, 0.01])
def test_clipping_alone_hides_nothing(most: float) -> None:
    truth = picture(1)
    base, update = trained(truth[None], np.array([3]))
    shorter = clipped(base, update, Schema.of(base), most)
    assert psnr(truth, guessed(base, shorter, 3)) > 30


@pytest.mark.parametrize("epochs", [1, 5])
def test_of_many_examples_this_shows_their_mean_and_none_of_them(epochs: int) -> None:
    rows = np.stack([picture(seed) for seed in range(100)])
    labels = np.arange(100) % CLASSES
    base, update = trained(rows, labels, epochs)
    found = guessed(base, update, 3)
    assert max(psnr(row, found) for row in rows) < 15


def test_noise_of_a_tenth_of_the_norm_in_each_number_would_hide_an_example() -> None:
    """The yardstick for noise that is added one day; today none is."""
    truth = picture(1)
    base, update = trained(truth[None], np.array([3]))
    size = float(np.sqrt(sum(np.sum((update[n].astype(np.float64) - base[n]) ** 2) for n in base)))
    rng = np.random.default_rng(2)
    noisy = Params({n: (v + rng.normal(0, size / 10, v.shape)).astype(np.float32) for n, v in update.items()})
    assert psnr(truth, guessed(base, noisy, 3)) < 15
