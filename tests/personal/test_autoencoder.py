"""The autoencoder: its gradients are those of its error, it learns, and tells what it knows from the rest."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params import Array
from flnet.personal.autoencoder import errors, fresh, step, trained
from flnet.personal.descending import Descent


class _Looking(Descent):
    """Keeps the gradients of a step instead of taking it."""

    def __init__(self) -> None:
        super().__init__("sgd", 0.0)
        self.seen: dict[str, Array] = {}

    def step(self, params: object, gradients: object) -> None:
        assert isinstance(gradients, dict)
        self.seen = gradients


@pytest.mark.parametrize("shape", [(8, 4, 2), (6, 5, 1), (7,), (1,)])
def test_gradients_are_those_of_the_error(shape: tuple[int, ...]) -> None:
    chance = np.random.default_rng(3)
    x = chance.random((3, *shape))
    weights = {name: value.astype(np.float64) for name, value in fresh(shape, 1).items()}
    looking = _Looking()
    before = step(weights, looking, x)
    assert set(looking.seen) == set(weights)
    for name, value in weights.items():
        place = tuple(chance.integers(0, side) for side in value.shape)
        there, width = value[place], 1e-5
        value[place] = there + width
        above = step(weights, _Looking(), x)
        value[place] = there - width
        below = step(weights, _Looking(), x)
        value[place] = there
        assert looking.seen[name][place] == pytest.approx((above - below) / (2 * width), rel=1e-3, abs=1e-7)
    assert step(weights, _Looking(), x) == before


def bars(count: int, across: bool, seed: int) -> Array:
    """Images of bright bars in one direction, shifted by chance."""
    chance, found = np.random.default_rng(seed), np.zeros((count, 8, 8, 1), np.float32)
    for image, shift in zip(found, chance.integers(0, 4, count), strict=True):
        image[shift::4] = chance.uniform(0.7, 1)
    return found if across else found.transpose(0, 2, 1, 3)


def test_images_unlike_the_own_ones_are_rebuilt_worse() -> None:
    weights = trained(bars(96, True, 0), 0, least=400)
    assert all(value.dtype == np.float32 for value in weights.values())
    own, foreign = errors(weights, bars(50, True, 1)), errors(weights, bars(50, False, 1))
    assert own.shape == (50,)
    assert own.mean() < 0.25 * foreign.mean()


def test_rows_unlike_the_own_ones_are_rebuilt_worse() -> None:
    chance = np.random.default_rng(0)
    inner = chance.normal(size=(300, 2)) @ chance.normal(size=(2, 8))  # a plane in eight dimensions
    weights = trained(inner[:200].astype(np.float32), 0)
    foreign = chance.normal(size=(100, 8)) * inner.std()
    assert errors(weights, inner[200:]).mean() < 0.5 * errors(weights, foreign).mean()


def test_equal_inputs_and_seeds_give_equal_autoencoders() -> None:
    x = bars(20, True, 0)
    one, same, other = trained(x, 0, least=5), trained(x, 0, least=5), trained(x, 1, least=5)
    assert all((one[name] == same[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)
    assert {name: value.shape for name, value in fresh((8, 8, 1), 0).items()} == {
        name: value.shape for name, value in one.items()
    }
