"""The robust rules beside those of Flower, on random updates; Flower is an oracle and no dependency.

`pip install flwr` (the extra "oracles") runs them. Flower weighs the updates of Multi-Krum by examples; here all
count alike, so the updates get equal examples. It refuses Bulyan for fewer updates than 4 f + 3.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule
from flnet.aggregation.krum import bulyan, krum, multi_krum
from flnet.aggregation.median import median
from flnet.aggregation.trimmed_mean import trimmed_mean
from tests.aggregation.robust import merged
from tests.helpers import update

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("flwr") is None, reason="flwr is not installed; it is an oracle and no dependency"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # flwr's own use of click
]
CASES = range(200)


def drawn(seed: int, fewest: int) -> tuple[list[list[Any]], int]:
    """Models of two arrays each, and how many of them may be hostile."""
    chance = np.random.default_rng(seed)
    hostile = int(chance.integers(0, 3))
    count = int(chance.integers(max(fewest * hostile + 3, 3), 16))
    scale = 10.0 ** chance.integers(-3, 4)
    models = [[chance.normal(size=(3, 4)) * scale, chance.normal(size=5) * scale] for _ in range(count)]
    for model in models[:hostile]:
        model[0] *= 30
    return models, hostile


def assert_like(rule: AggregationRule, models: list[list[Any]], expected: list[Any]) -> None:
    updates = [update(f"p{n:02}", examples=10, b=model[1], w=model[0]) for n, model in enumerate(models)]
    result = merged(rule, updates)
    for name, array in zip(("w", "b"), expected, strict=True):
        np.testing.assert_allclose(result[name], array, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(array).max()))


def test_the_median_is_that_of_flower() -> None:
    from flwr.server.strategy.aggregate import aggregate_median  # type: ignore[import-not-found, unused-ignore]

    for seed in CASES:
        models, _ = drawn(seed, 0)
        assert_like(median(), models, aggregate_median([(model, 10) for model in models]))


def test_the_trimmed_mean_is_that_of_flower() -> None:
    from flwr.server.strategy.aggregate import aggregate_trimmed_avg

    for seed in CASES:
        models, _ = drawn(seed, 0)
        part = (0.1, 0.2, 0.35)[seed % 3]
        assert_like(trimmed_mean(part), models, aggregate_trimmed_avg([(model, 10) for model in models], part))


def test_krum_and_multi_krum_are_those_of_flower() -> None:
    from flwr.server.strategy.aggregate import aggregate_krum

    for seed in CASES:
        models, hostile = drawn(seed, 2)
        updates = [(model, 10) for model in models]
        assert_like(krum(hostile), models, aggregate_krum(updates, hostile, 0))
        kept = 1 + seed % len(models)
        assert_like(multi_krum(hostile, kept), models, aggregate_krum(updates, hostile, kept))


def test_bulyan_is_that_of_flower() -> None:
    from flwr.server.strategy.aggregate import aggregate_bulyan, aggregate_krum

    for seed in CASES:
        models, hostile = drawn(seed, 4)
        expected = aggregate_bulyan([(model, 10) for model in models], hostile, aggregate_krum, to_keep=0)
        assert_like(bulyan(hostile), models, expected)
