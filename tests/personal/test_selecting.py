"""The threshold of the selector, and its answers."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.personal import known, threshold


def test_the_threshold_worked_by_hand() -> None:
    """Mean .02, standard deviation of the population .0070710678."""
    limit = threshold(np.array([0.01, 0.02, 0.03, 0.02]))
    assert limit == pytest.approx(0.0412132034, abs=1e-9)
    assert known(np.array([0.0412, 0.0413]), limit).tolist() == [True, False]


def test_without_own_inputs_nothing_is_known() -> None:
    assert not known(np.zeros(3), threshold(np.empty(0))).any()


def test_equal_errors_are_their_own_threshold() -> None:
    limit = threshold(np.full(4, 0.5))
    assert limit == 0.5
    assert known(np.array([0.5, 0.500001]), limit).tolist() == [True, False]
