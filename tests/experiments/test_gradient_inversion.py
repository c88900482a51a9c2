"""Gradient inversion: derivatives, images and labels that are known, and what noise leaves."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.errors import NotOffered
from flnet.experiments.gradient_inversion import (
    gradient_match,
    guess_labels,
    image_in_closed_form,
    likeness,
    scipy_part,
    search_images,
    ssim,
)
from flnet.experiments.sigmoid_network import Model, Numbers, gradient, initial

SIDE = 12
MODEL = initial(0, SIDE**2, 24, 5)


def images(count: int, seed: int = 0) -> Numbers:
    """Bright bars on black, as rows."""
    chance, shown = np.random.default_rng(seed), np.zeros((count, SIDE, SIDE))
    for image in shown:
        top, left = chance.integers(1, SIDE - 5, 2)
        image[top : top + chance.integers(2, 5), left : left + chance.integers(2, 5)] = chance.uniform(0.5, 1)
    return shown.reshape(count, -1)


def seen(x: Numbers, labels: np.ndarray) -> Model:
    return {name: slope / len(x) for name, slope in gradient(MODEL, x, labels).items()}


def test_the_closed_form_gives_the_image_of_a_batch_of_one() -> None:
    x = images(20)
    for row in range(20):
        assert np.abs(image_in_closed_form(seen(x[[row]], np.array([row % 5]))) - x[row]).max() < 1e-6
    assert not image_in_closed_form({name: np.zeros_like(array) for name, array in MODEL.items()}).any()


def test_the_derivative_of_the_distance_of_gradients() -> None:
    chance, x = np.random.default_rng(1), images(3, 1)
    targets, given = np.eye(5)[[0, 3, 3]], seen(images(3, 2), np.array([1, 2, 3]))
    found, way = gradient_match(MODEL, x, targets, given), chance.normal(size=x.shape)
    ahead, back = (gradient_match(MODEL, x + step * way, targets, given).distance for step in (1e-5, -1e-5))
    assert float(np.vdot(found.slope, way)) == pytest.approx((ahead - back) / 2e-5, rel=1e-5)
    same = gradient_match(MODEL, x, targets, seen(x, np.array([0, 3, 3])))
    assert same.distance == pytest.approx(0, abs=1e-20)
    assert np.abs(same.slope).max() < 1e-12


@pytest.mark.parametrize("count", [1, 2, 4])
def test_small_batches_come_back(count: int) -> None:
    x, labels = images(count, 3), np.arange(count)
    guesses = search_images(MODEL, seen(x, labels), labels, np.random.default_rng(0))
    alike = likeness(x.reshape(-1, SIDE, SIDE), guesses.reshape(-1, SIDE, SIDE))
    assert alike.ssim > 0.98
    assert alike.psnr > 35
    assert sorted(alike.pairs) == list(range(count))


def test_noise_of_the_size_of_the_gradient_leaves_nothing() -> None:
    x, labels, chance = images(1, 3), np.array([2]), np.random.default_rng(0)
    given = seen(x, labels)
    size = np.sqrt(sum(np.vdot(array, array) for array in given.values()))
    noisy = {name: array + chance.normal(0, size, array.shape) for name, array in given.items()}
    guess = search_images(MODEL, noisy, labels, chance)
    assert ssim(x.reshape(SIDE, SIDE), guess.reshape(SIDE, SIDE)) < 0.2
    assert ssim(x.reshape(SIDE, SIDE), np.clip(image_in_closed_form(noisy), 0, 1).reshape(SIDE, SIDE)) < 0.2


def test_labels_are_read_from_the_gradient_of_the_biases() -> None:
    chance = np.random.default_rng(4)
    for count in (1, 3, 8, 40):
        labels = chance.integers(0, 5, count)
        guess = guess_labels(MODEL, seen(images(count, count), labels), count, images(200, 9))
        assert sorted(labels) == guess.tolist()


def test_as_many_labels_are_guessed_as_there_are_images_also_from_noise() -> None:
    chance = np.random.default_rng(6)
    for count in range(1, 20):
        noisy = {name: chance.normal(0, 3, array.shape) for name, array in MODEL.items()}
        guess = guess_labels(MODEL, noisy, count, images(9))
        assert len(guess) == count
        assert set(guess) <= set(range(5))


def test_likeness_pairs_a_batch_without_an_order() -> None:
    shown = images(5, 7).reshape(-1, SIDE, SIDE)
    order = np.array([3, 0, 4, 1, 2])
    more = np.concatenate([np.zeros((2, SIDE, SIDE)), shown[order]])
    alike = likeness(shown, more)
    assert alike.ssim == pytest.approx(1)
    assert alike.psnr == 100
    assert (more[alike.pairs] == shown).all()


def test_similarity_of_images_by_hand() -> None:
    flat, darker = np.full((SIDE, SIDE), 0.6), np.full((SIDE, SIDE), 0.3)
    # Flat images differ in their level alone: (2 * 0.6 * 0.3 + c) / (0.6^2 + 0.3^2 + c) with c = 0.0001.
    assert float(ssim(flat, darker)) == pytest.approx(0.3601 / 0.4501)
    turned = images(1).reshape(SIDE, SIDE)
    assert float(ssim(turned, turned)) == pytest.approx(1)
    assert float(ssim(turned, 1 - turned)) < 0


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(NotOffered, match="experiments"):
        scipy_part("optimize")
