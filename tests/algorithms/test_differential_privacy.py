"""The setting, the clipping on a grid, and exact discrete noise; worked examples are those of the specification (O15)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flnet.algorithms.differential_privacy import (
    GRID,
    MOST_SIGMA,
    Privacy,
    RandomWords,
    discrete_gaussian,
    noised_share,
    on_grid,
    parse_privacy,
    released,
    row_schedule,
    share_of_noise,
    words_of,
)
from flnet.params.params import Params


def seeded(seed: int = 0) -> RandomWords:
    """A source of words that always gives the same ones."""
    return words_of(np.random.default_rng(seed))


# The setting.


@pytest.mark.parametrize(
    ("text", "privacy"),
    [
        ("none", None),
        ("node:3:1e-5", Privacy("node", 3, 1e-5, 1)),
        (" node:0.5:1e-6:2.5 ", Privacy("node", 0.5, 1e-6, 2.5)),
        ("rows:3:.00001:1.", Privacy("rows", 3, 1e-5, 1)),
    ],
)
def test_the_notation_of_the_setting_is_parsed(text: str, privacy: Privacy | None) -> None:
    assert parse_privacy(text) == privacy


@pytest.mark.parametrize(
    ("text", "expected", "came"),
    [
        ("node:0:1e-5", "an epsilon above 0", "got 0"),
        ("node:-1:1e-5", "an epsilon above 0", "got -1"),
        ("node:1e999:1e-5", "at most 1000", "got 1e999"),
        ("node:1:0", "a delta above 0 and below 1", "got 0"),
        ("rows:1:1", "a delta above 0 and below 1", "got 1"),
        ("rows:1:1e-5:0", "a clip above 0", "got 0"),
        ("node:1:1e-5:1e999", "a clip above 0", "got 1e999"),
        ("node:1", "node:epsilon:delta", "got 'node:1'"),
        ("node:1:1e-5:", "node:epsilon:delta", "got 'node:1:1e-5:'"),
        ("node:nan:1e-5", "node:epsilon:delta", "got 'node:nan:1e-5'"),
        ("user:1:1e-5", "none, node:epsilon:delta or rows:epsilon:delta", "got 'user:1:1e-5'"),
    ],
)
def test_what_promises_nothing_is_refused_with_what_was_expected_and_what_came(
    text: str, expected: str, came: str
) -> None:
    with pytest.raises(ValueError, match="expected") as refusal:
        parse_privacy(text)
    assert expected in str(refusal.value) and str(refusal.value).endswith(came)


def test_the_steps_of_a_training_are_those_of_its_batches() -> None:
    assert row_schedule(1000, 64, 3) == (0.064, 48)
    assert row_schedule(10, 64, 2) == (1.0, 2)
    with pytest.raises(ValueError, match="at least one row"):
        row_schedule(0, 64, 2)


# The clip.


def test_a_change_is_shortened_in_its_direction() -> None:
    assert (on_grid(np.array([3.0, 4.0]), 1.0, 2.0**-40) * 2.0**-40).tolist() == pytest.approx([0.6, 0.8])
    assert on_grid(np.array([0.3, -0.4]), 1.0, 2.0**-40).tolist() == [int(0.3 * 2**40), -int(0.4 * 2**40)]
    assert on_grid(np.zeros(3), 1.0, 0.1).tolist() == [0, 0, 0]


def test_no_rounding_makes_a_change_longer_than_the_clip() -> None:
    generator = np.random.default_rng(1)
    for size in (1, 2, 3, 1000, 30_000):
        for unit in (0.3, 1e-3, 1e-7):
            change = generator.standard_normal(size) * 10.0 ** generator.integers(-3, 6)
            units = [int(number) for number in on_grid(change, 1.0, unit)]
            assert sum(number * number for number in units) <= (1.0 / unit) ** 2


def test_a_change_that_is_not_finite_is_refused() -> None:
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="expected a finite change"):
            on_grid(np.array([0.0, number]), 1.0, 0.1)


# What leaves.


def test_an_update_is_the_base_and_the_shortened_change_with_noise_over_all_float_arrays() -> None:
    base = Params({"w": np.ones((60, 50), np.float32), "mean": np.zeros(1000), "seen": np.array(3)})
    trained = Params({"w": base["w"] + 100, "mean": base["mean"] + 100, "seen": np.array(9)})
    update = released(base, trained, 2.0, 1e-3, seeded())
    moved = np.concatenate([np.ravel(update["w"] - 1), update["mean"]])
    assert np.linalg.norm(moved) == pytest.approx(2.0, abs=0.01)
    assert moved.mean() == pytest.approx(2 / math.sqrt(4000), rel=0.01)
    assert update["seen"] == 3
    assert [update[name].dtype.name for name in ("w", "mean", "seen")] == ["float32", "float64", "int64"]
    noise = np.ravel(released(base, base, 2.0, 3.0, seeded(1))["w"] - 1)
    assert noise.std() == pytest.approx(6.0, rel=0.05) and abs(noise.mean()) < 0.5


def test_two_updates_of_the_same_training_get_other_noise() -> None:
    base = Params({"w": np.zeros(8)})
    words = seeded()
    assert released(base, base, 1.0, 1.0, words) != released(base, base, 1.0, 1.0, words)


@pytest.mark.parametrize(("clip", "multiplier"), [(0.0, 1.0), (1.0, 0.0), (-1.0, -1.0), (math.inf, 1.0)])
def test_nothing_is_released_without_a_clip_and_noise(clip: float, multiplier: float) -> None:
    base = Params({"w": np.zeros(8)})
    with pytest.raises(ValueError, match="expected a clip and a noise multiplier above 0"):
        released(base, base, clip, multiplier, seeded())


# The noise.


@pytest.mark.parametrize("sigma", [1, 2, 7])
def test_the_noise_has_the_probabilities_of_the_discrete_gaussian(sigma: int) -> None:
    drawn = discrete_gaussian(200_000, sigma, seeded(sigma))
    values = np.arange(-40 * sigma, 40 * sigma + 1)
    chances = np.exp(-(values**2) / (2 * sigma**2))
    chances /= chances.sum()
    expected, seen = 200_000 * chances, np.array([(drawn == value).sum() for value in values])
    often = expected > 20
    chi = ((seen - expected)[often] ** 2 / expected[often]).sum()
    freedom = often.sum() - 1
    assert abs(chi - freedom) < 5 * math.sqrt(2 * freedom)
    assert seen[~often].sum() < 200


def test_wide_noise_has_the_moments_of_the_continuous_one() -> None:
    for sigma in (GRID, MOST_SIGMA):
        drawn = discrete_gaussian(200_000, sigma, seeded(3)) / sigma
        assert abs(drawn.mean()) < 0.01 and drawn.std() == pytest.approx(1, abs=0.01)
        assert (drawn**4).mean() == pytest.approx(3, abs=0.1)
        assert len(np.unique(drawn)) > 190_000


def test_noise_that_cannot_be_drawn_exactly_is_refused() -> None:
    for sigma in (0, MOST_SIGMA + 1):
        with pytest.raises(ValueError, match="expected a standard deviation from 1 to 16777216 units"):
            discrete_gaussian(3, sigma, seeded())


def test_the_shares_of_honest_nodes_add_up_to_the_stated_noise() -> None:
    for sigma in (1, 2, 10, 1000, GRID):
        for honest in (1, 2, 3, 7, 100):
            share = share_of_noise(sigma, honest)
            assert honest * share**2 >= sigma**2 > honest * (share - 1) ** 2
    values = np.zeros(100_000, np.int64)
    summed = sum(noised_share(values, 1000, 4, seeded(node)) for node in range(4))
    assert np.std(np.asarray(summed)) == pytest.approx(1000, rel=0.02)
    assert noised_share(np.array([10**9]), 1, 1, seeded())[0] == pytest.approx(10**9, abs=20)
    with pytest.raises(ValueError, match="one honest node or more"):
        share_of_noise(10, 0)
