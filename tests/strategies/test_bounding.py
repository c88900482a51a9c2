"""Means within the range of the others: who counts for it, and what may be asked of numbers."""

from __future__ import annotations

import numpy as np

from flnet.params import Schema
from flnet.strategies.bounding import bounded_mean
from tests.helpers import params


def test_a_set_without_weight_neither_counts_nor_bounds_others() -> None:
    sets = [params(w=[value], n=np.array(count)) for value, count in ((0.0, 1), (1.0, 2), (2.0, 3), (-5.0, 9))]
    specs = Schema.of(sets[0]).specs
    found = bounded_mean(list(zip(sets, (1.0, 1.0, 1.0, 0.0), strict=True)), specs)
    assert (found["w"].tolist(), found["n"].tolist()) == ([1.0], 9)
    assert bounded_mean([(one, 0.0) for one in sets[:2]], specs)["w"].tolist() == [0.5]


def test_equal_numbers_come_back_to_the_last_bit_whatever_their_weights() -> None:
    sets = [params(w=[0.1, -7.3e30])] * 5
    specs = Schema.of(sets[0]).specs
    found = bounded_mean([(one, 1 / (row + 3)) for row, one in enumerate(sets)], specs)
    assert found.digest == sets[0].digest
