"""The small network that is attacked: its gradients, those of single rows, and DP-SGD without noise."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.experiments.sigmoid_network import NAMES, Model, forward, gradient, initial, noisy_gradient, train
from flnet.trainer import RowPrivacy

CHANCE = np.random.default_rng(0)
X, Y = CHANCE.uniform(0, 1, (6, 5)), CHANCE.integers(0, 3, 6)
MODEL = initial(1, 5, 4, 3)


def loss(model: Model) -> float:
    return float(-np.log(forward(model, X).probabilities[np.arange(6), Y]).sum())


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_slope_of_the_loss(name: str) -> None:
    way = np.random.default_rng(2).normal(size=MODEL[name].shape)
    ahead, back = ({**MODEL, name: MODEL[name] + step * way} for step in (1e-5, -1e-5))
    expected = (loss(ahead) - loss(back)) / 2e-5
    assert float(np.vdot(gradient(MODEL, X, Y)[name], way)) == pytest.approx(expected, rel=1e-6)


def norm(model: Model) -> float:
    return float(np.sqrt(sum(np.vdot(array, array) for array in model.values())))


def test_each_row_is_clipped_by_itself() -> None:
    rows = [gradient(MODEL, X[[row]], Y[[row]]) for row in range(6)]
    clip = float(np.median([norm(row) for row in rows]))  # some are shortened, some are not
    clipped = gradient(MODEL, X, Y, clip)
    for name in NAMES:
        expected = sum(row[name] * min(1, clip / norm(row)) for row in rows)
        assert clipped[name] == pytest.approx(expected)
    assert norm(clipped) < norm(gradient(MODEL, X, Y))


def test_row_privacy_without_noise_and_with_all_rows_is_plain_descent() -> None:
    plain = train(MODEL, X, Y, np.random.default_rng(0), 5, 0.1, 6)
    private = train(MODEL, X, Y, np.random.default_rng(0), 5, 0.1, 6, RowPrivacy(0.0, 1e9))
    for name in NAMES:
        assert private[name] == pytest.approx(plain[name])
    assert loss(plain) < loss(MODEL)


def test_the_noise_has_the_stated_deviation() -> None:
    model, privacy = initial(1, 400, 50, 3), RowPrivacy(3.0, 0.5)
    x = np.zeros((1, 400))
    # Of a gradient of 0.
    noise = noisy_gradient(model, x, Y[:1], privacy, np.random.default_rng(5))["hidden.weight"]
    assert noise.std() == pytest.approx(1.5, rel=0.03)
