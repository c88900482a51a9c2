"""The noisy mean of gradients of rows, in numpy; and who is refused when single rows are to be hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from flnet.algorithms.registry import with_method
from flnet.algorithms.row_privacy import hidden_mean
from flnet.algorithms.wrapper import Wrapped
from flnet.params.params import Array
from flnet.security.noise import system_noise, system_uniform
from flnet.trainer import InputSpec, Method, RowPrivacy, TrainerError
from tests.algorithms.lines import Point

ROWS = {"a": np.array([[3.0, 0.0], [0.0, 0.3]], np.float32), "b": np.array([4.0, 0.4], np.float32)}


def silent(count: int) -> Array:
    return np.zeros(count)


def test_each_row_is_clipped_over_all_arrays_together() -> None:
    mean = hidden_mean(ROWS, RowPrivacy(0, 1.0), 2, silent)  # norms 5 and 0.5
    np.testing.assert_allclose(mean["a"], [0.3, 0.15], rtol=1e-6)
    np.testing.assert_allclose(mean["b"], 0.6, rtol=1e-6)
    assert mean["a"].dtype == np.float32


def test_the_sum_is_divided_by_the_expected_number_and_not_by_the_drawn_one() -> None:
    mean = hidden_mean(ROWS, RowPrivacy(0, 100.0), 8, silent)
    np.testing.assert_allclose(mean["a"], ROWS["a"].sum(0) / 8, rtol=1e-6)


def test_a_step_without_rows_is_noise() -> None:
    none = {name: rows[:0] for name, rows in ROWS.items()}
    mean = hidden_mean(none, RowPrivacy(2.0, 0.5), 4, np.ones)
    np.testing.assert_allclose(mean["a"], [0.25, 0.25])
    np.testing.assert_allclose(mean["b"], 0.25)


def test_noise_has_the_stated_spread() -> None:
    """20,000 numbers: the sample's standard deviation is within 2.5 % of the stated one, five of its own errors."""
    chance = np.random.default_rng(5)
    none = {"a": np.zeros((0, 20_000), np.float64)}
    noise = hidden_mean(none, RowPrivacy(1.7, 0.5), 1, chance.standard_normal)["a"]
    assert noise.std() == pytest.approx(1.7 * 0.5, rel=0.025)
    assert abs(noise.mean()) < 5 * 0.85 / 20_000**0.5


def test_noise_of_the_system_is_normal_and_never_the_same() -> None:
    first, second = system_noise(50_001), system_noise(50_001)
    assert first.shape == (50_001,)
    assert first.std() == pytest.approx(1, abs=0.03)  # nine errors of the estimate
    assert (first**4).mean() == pytest.approx(3, abs=0.25)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    draws = system_uniform(50_000)
    assert 0 <= draws.min() < 0.001 < 0.999 < draws.max() < 1
    assert not np.array_equal(draws, system_uniform(50_000))


class Hiding(Point):
    honours: ClassVar[frozenset[str]] = frozenset({"row-privacy", "proximal"})

    def __init__(self, **told: Any) -> None:
        super().__init__((2.0, 0.0), (1.0, 1.0))
        for name, value in told.items():
            setattr(self, name, value)


class Normalised(Hiding):
    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {**super().initial_params(seed), "norm.running_mean": np.zeros(2, np.float32)}


class OwnScale(Hiding):
    def input_spec(self) -> InputSpec:
        return InputSpec("table", (1,), scale=((0.0, 1.0),), scale_is_own=True)


@pytest.mark.parametrize(
    ("trainer", "method", "words"),
    [
        (
            Point((1.0,), (1.0,)),
            Method(),
            "needs a trainer that can hide single rows, which T cannot; .* MNIST, .*TOML",
        ),
        (Hiding(), Method(controls=True), "FLNET_PRIVACY=rows and FLNET_AGGREGATION=scaffold do not go together"),
        (Hiding(), Method(personal="apfl"), "FLNET_PRIVACY=rows and FLNET_PERSONAL_MODEL=apfl do not go together"),
        (Wrapped(Hiding(), 0), Method(), "FLNET_PRIVACY=rows and FLNET_LABELS do not go together"),
        (Normalised(), Method(), r"batch normalisation \(norm.running_mean\) .* group normalisation"),
        (Hiding(buffers=("z", "y", "x")), Method(), r"batch normalisation \(z, y, ...\) mixes the rows"),
        (Hiding(personalises=True), Method(), "it trains private layers without noise"),
        (OwnScale(), Method(), r"mean and spread of all own rows.*under \[scale\]"),
    ],
)
def test_what_would_not_hide_single_rows_is_refused_in_words(trainer: Any, method: Method, words: str) -> None:
    told = Method(method.local, method.personal, method.choice, method.controls, row_privacy=True)
    with pytest.raises(TrainerError, match=words):
        with_method(trainer, told, 0, "T")
    if not isinstance(trainer, Wrapped):
        assert with_method(trainer, method, 0, "T")  # without that setting nothing is refused


@pytest.mark.parametrize(
    "method", [Method(row_privacy=True), Method("proximal:0.1", "increment", row_privacy=True)]
)
def test_what_keeps_rows_hidden_is_taken(method: Method) -> None:
    assert with_method(Hiding(), method, 0, "T")
