"""Bulyan: a liar that is near as a whole is left out where it is far."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.strategies import bulyan, krum, median
from flnet.strategies.bulyan import around_median
from tests.strategies.robust import w

HONEST = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 1.5], [1.5, 2.0], [2.5, 1.0]]


def test_each_number_is_the_mean_of_those_nearest_to_its_median() -> None:
    columns = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 6.0], [90.0, 7.0], [3.0, 50.0]])
    assert around_median(columns, 3).tolist() == pytest.approx([3, 16 / 3])  # 2, 3, 4 around 3; 5, 5, 6 around 6


def test_of_equally_near_numbers_the_smaller_counts() -> None:
    assert around_median(np.array([[0.0], [1.0], [2.0]]), 2).tolist() == [0.5]


def test_seven_updates_bear_one_liar() -> None:
    found = w(bulyan(1), [*HONEST, [1.4, 900.0]])
    assert 0 <= found[1] <= 2
    assert w(bulyan(1), HONEST) == w(bulyan(0), HONEST)  # six are too few for one liar: none is borne


def test_the_mean_of_what_is_left_when_nobody_lies() -> None:
    assert w(bulyan(0), HONEST) == np.mean(HONEST, axis=0).tolist()


def test_krum_alone_would_take_what_bulyan_leaves_out() -> None:
    """A hundred numbers; the liar is the honest mean in all but one of them."""
    chance = np.random.default_rng(3)
    honest = chance.normal(size=(10, 100))
    liar = honest.mean(axis=0)
    liar[17] += 3
    rows = [*honest.tolist(), liar.tolist()]
    assert w(krum(2), rows)[17] == liar[17]
    assert abs(w(bulyan(2), rows)[17] - w(median(), honest.tolist())[17]) < 1
