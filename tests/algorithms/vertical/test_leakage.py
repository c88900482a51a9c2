"""Noise on outputs and gradients, and the attacks that measure what it hides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.defences import (
    GradientNoise,
    NoisePlace,
    OutputNoise,
    Release,
    norms_of,
)
from flnet.algorithms.vertical.leakage import (
    direction_scores,
    invert_with_examples,
    invert_with_weights,
    norm_scores,
    reconstruction_error,
)
from flnet.datasets.metrics import auc
from flnet.params.params import Array
from flnet.vertical_trainer import GradientRule
from tests.algorithms.vertical.networks import normal

PLACE = NoisePlace("training", 0, 3)


def rows(seed: int = 0, shape: tuple[int, int] = (400, 6)) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


# Outputs


@given(st.floats(0.1, 10), st.integers(0, 100))
def test_clipped_rows_keep_their_direction_and_lose_their_length(clip: float, seed: int) -> None:
    outputs = rows(seed, (20, 4))
    sent = OutputNoise(clip, 0.0, normal()).protect(outputs, PLACE)
    assert (norms_of(sent) <= clip * (1 + 1e-12)).all()
    short = norms_of(outputs) <= clip
    assert (sent[short] == outputs[short]).all()
    assert norms_of(sent)[~short] == pytest.approx(np.full((~short).sum(), clip))
    assert direction_scores(sent, outputs[0])[0] == pytest.approx(1)


def test_a_row_of_zeros_is_not_clipped() -> None:
    noise, zeros = OutputNoise(2.0, 0.0, normal()), np.zeros((3, 2), np.float32)
    assert (noise.protect(zeros, PLACE) == zeros).all()
    assert (noise.gradient(zeros, zeros + 1) == 1).all()


def test_noise_has_the_stated_spread_and_repeats_at_the_same_place() -> None:
    noise, outputs = OutputNoise(2.0, 0.25, normal()), np.zeros((5000, 4))
    sent = noise.protect(outputs, PLACE)
    assert sent.std() == pytest.approx(0.5, rel=0.02)
    assert (noise.protect(outputs, PLACE) == sent).all()
    for other in (NoisePlace("hold-out", 0, 3), NoisePlace("training", 1, 3), NoisePlace("training", 0, 4)):
        assert (noise.protect(outputs, other) != sent).all()


def test_every_release_is_told_to_the_accountant() -> None:
    told: list[Release] = []
    OutputNoise(2.0, 0.25, normal(), told.append).protect(rows(), PLACE)
    assert told == [Release(PLACE, 400, 0.25)]


def test_the_gradient_goes_back_through_the_clipping() -> None:
    """Compared with central differences of a function of what is sent."""
    noise, outputs = OutputNoise(1.5, 0.1, normal()), rows(1, (6, 3))
    direction = rows(2, (6, 3))
    assert 0 < (norms_of(outputs) < 1.5).sum() < 6
    found = noise.gradient(outputs, direction)
    for at in np.ndindex(*outputs.shape):
        values = []
        for change in (1e-6, -1e-6):
            moved = np.array(outputs)
            moved[at] += change
            values.append((noise.protect(moved, PLACE) * direction).sum())
        assert found[at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


def test_odd_settings_are_refused() -> None:
    for clip, multiplier in ((0.0, 1.0), (1.0, -1.0), (float("inf"), 1.0), (1.0, float("nan"))):
        with pytest.raises(ValueError, match="clip="):
            OutputNoise(clip, multiplier, normal())
    with pytest.raises(ValueError, match="rule="):
        GradientNoise("isotropic", normal(), 0.0)
    with pytest.raises(ValueError, match="rule="):
        GradientNoise("marvell", normal())  # type: ignore[arg-type]


# Gradients


def binary_gradients(seed: int = 0) -> tuple[Array, Array]:
    """Gradients (p - y) a of 2,000 rows, a tenth of them with the label, along one direction a."""
    chance = np.random.default_rng(seed)
    labels = (chance.random(2000) < 0.1).astype(int)
    guesses = chance.beta(2, 12, 2000)
    return (guesses - labels)[:, None] * chance.normal(size=6), labels


def leaks(gradients: Array, labels: Array) -> tuple[float, float]:
    known = int(labels.argmax())
    return auc(labels, norm_scores(gradients)), auc(labels, direction_scores(gradients, gradients[known]))


def test_plain_gradients_tell_all_labels() -> None:
    by_norm, by_direction = leaks(*binary_gradients())
    assert by_norm > 0.99
    assert by_direction == 1.0


def test_isotropic_noise_hides_more_the_more_there_is() -> None:
    gradients, labels = binary_gradients()
    noises = [GradientNoise("isotropic", normal(1), scale) for scale in (0.01, 0.1, 1.0, 10.0)]
    found = [leaks(noise.protect(gradients, PLACE), labels) for noise in noises]
    for attack in zip(*found, strict=True):
        assert list(attack) == sorted(attack, reverse=True)
        assert attack[0] > 0.9 and attack[-1] < 0.75


def test_max_norm_hides_norms_and_turns_some_directions() -> None:
    gradients, labels = binary_gradients()
    by_norm, by_direction = leaks(GradientNoise("max-norm", normal(1)).protect(gradients, PLACE), labels)
    assert abs(by_norm - 0.5) < 0.1  # from 0.99
    assert by_direction < 0.9  # from 1


@pytest.mark.parametrize("rule", ["isotropic", "max-norm"])
def test_noise_on_gradients_has_the_stated_length_and_no_direction(rule: GradientRule) -> None:
    gradients, _ = binary_gradients()
    noise = GradientNoise(rule, normal(2), 0.5)
    draws = [noise.protect(gradients, NoisePlace("gradient", 0, step)) for step in range(400)]
    longest = norms_of(gradients).max()
    lengths = np.mean([norms_of(draw) ** 2 for draw in draws], axis=0)
    expected = norms_of(gradients) ** 2 + 0.5 * longest**2 if rule == "isotropic" else np.full(2000, longest**2)
    assert lengths.mean() == pytest.approx(expected.mean(), rel=0.02)
    assert np.abs(np.mean(draws, axis=0) - gradients).mean() < 0.1 * longest


def test_gradients_of_zero_stay_zero_and_numbers_stay_finite() -> None:
    none = np.zeros((3, 2), np.float32)
    for rule in ("isotropic", "max-norm"):
        noise = GradientNoise(rule, normal())
        assert (noise.protect(none, PLACE) == 0).all()
        some = np.array([[1, 0], [0, 0], [1e-30, 0]], np.float32)
        assert np.isfinite(noise.protect(some, PLACE)).all()
        assert noise.protect(some, PLACE).dtype == np.float32
        assert noise.protect(none[:0], PLACE).shape == (0, 2)


# Features


def test_features_are_read_exactly_from_as_many_linear_outputs() -> None:
    x, weight, bias = rows(0, (50, 4)), rows(1, (6, 4)), rows(2, (1, 6))
    outputs = x @ weight.T + bias
    assert invert_with_weights(outputs, weight, bias) == pytest.approx(x)
    assert reconstruction_error(x[20:], invert_with_examples(outputs[20:], outputs[:20], x[:20])) < 0.05


def test_fewer_outputs_tell_less_and_noise_hides_the_rest() -> None:
    x, weight = rows(0, (500, 8)), rows(1, (4, 8))
    outputs = x @ weight.T
    errors = [reconstruction_error(x, invert_with_weights(outputs, weight))]
    for multiplier in (0.1, 0.5, 5.0):
        noise = OutputNoise(100.0, multiplier / 10, normal())
        sent = noise.protect(outputs, PLACE)
        errors.append(reconstruction_error(x, invert_with_weights(sent, weight, noise=100 * multiplier / 10)))
    assert errors == sorted(errors)
    assert errors[0] == pytest.approx(0.5, abs=0.05)  # half of the columns' space is seen
    assert 0.9 < errors[-1] < 1.05
    learned = [
        reconstruction_error(x[100:], invert_with_examples(sent[100:], sent[:100], x[:100]))
        for sent in (outputs, OutputNoise(100.0, 0.5, normal()).protect(outputs, PLACE))
    ]
    assert learned[0] < 0.65 < 0.9 < learned[1]


def test_the_error_is_0_for_the_truth_and_1_for_the_mean() -> None:
    x = rows()
    assert reconstruction_error(x, x) == 0
    assert reconstruction_error(x, np.broadcast_to(x.mean(axis=0), x.shape)) == pytest.approx(1)
    constant = np.hstack([x, np.ones((400, 1))])
    assert reconstruction_error(constant, np.hstack([x, np.full((400, 1), 7.0)])) == 0
