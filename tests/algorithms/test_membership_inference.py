"""Membership inference by the loss: figures worked out by hand, and cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.algorithms import membership_inference
from flnet.algorithms.membership_inference import by_chance, membership, row_losses
from flnet.datasets.metrics import auc


def test_figures_worked_out_by_hand() -> None:
    found = membership(np.array([1.0, 2.0, 6.0]), np.array([2.0, 4.0, 5.0, 7.0]))
    # At the loss 2 two of three training rows are recognised and one of four others is taken for one.
    assert found.advantage == pytest.approx(2 / 3 - 1 / 4)
    # The mean of the training rows is 3: the same rows.
    assert found.by_mean == pytest.approx(2 / 3 - 1 / 4)
    # Pairs in which the training row has the smaller loss: 4 + 3.5 + 1 of 12.
    assert found.auc == pytest.approx(8.5 / 12)
    assert (found.members, found.others) == (3, 4)


def test_a_memoriser_gives_away_every_row() -> None:
    found = membership(np.full(300, 0.001), np.random.default_rng(0).uniform(1, 2, 300))
    assert (found.advantage, found.by_mean, found.auc, found.low, found.high) == (1, 1, 1, 1, 1)
    assert found.is_seen


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for the ends of intervals that are only counted."""
    monkeypatch.setattr(membership_inference, "RESAMPLES", 100)


@pytest.mark.usefixtures("few_resamples")
def test_a_model_that_knows_no_row_stays_below_what_chance_gives() -> None:
    chance = np.random.default_rng(1)
    pairs = [chance.exponential(1, (2, 400)) for _ in range(100)]
    found = [membership(*pair) for pair in pairs]
    assert 1 <= sum(one.is_seen for one in found) <= 10  # 5 % are 5
    assert abs(np.mean([one.by_mean for one in found])) < 0.015  # a threshold of its own is fitted to nothing
    assert np.mean([one.low == 0 for one in found]) > 0.8


@pytest.mark.usefixtures("few_resamples")
def test_the_interval_holds_the_true_advantage() -> None:
    chance, true = np.random.default_rng(2), 0.25  # of exponential losses with means 1/2 and 1: at ln 2
    found = [membership(chance.exponential(0.5, 500), chance.exponential(1, 500)) for _ in range(100)]
    assert 85 <= sum(one.low <= true <= one.high for one in found) <= 100


def test_equal_losses_tell_nothing_and_infinite_ones_are_refused() -> None:
    found = membership(np.ones(9), np.ones(9))
    assert (found.advantage, found.by_mean, found.auc, found.is_seen) == (0, 0, 0.5, False)
    for bad in (np.array([]), np.array([1.0, np.nan]), np.ones((2, 2))):
        with pytest.raises(ValueError, match="expected a row of finite numbers"):
            membership(bad, np.ones(3))


def test_the_auc_is_that_of_the_metrics() -> None:
    members, others = np.random.default_rng(3).integers(0, 9, (2, 40)).astype(float)
    truth = np.repeat([1, 0], 40)
    assert membership(members, others).auc == pytest.approx(auc(truth, -np.concatenate([members, others])))


def test_chance_by_smirnov() -> None:
    assert by_chance(200, 200) == pytest.approx(1.2239 * 0.1, abs=1e-4)
    assert by_chance(1, 1) == 1


def test_the_loss_of_a_row_is_finite_also_where_its_class_has_no_chance() -> None:
    losses = row_losses(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([1, 1]))
    assert losses[0] == pytest.approx(np.log(2))
    assert np.isfinite(losses).all()
