"""Krum and Multi-Krum on updates on a line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.krum import (
    Squares,
    around_median,
    best_first,
    bulyan,
    krum,
    krum_scores,
    multi_krum,
    squared_distances,
)
from flnet.aggregation.median import median
from flnet.params.params import Schema
from tests.aggregation.robust import updates_of, w

LINE = [[0.0], [1.0], [3.0], [4.0], [50.0]]


def test_krum_takes_the_update_nearest_to_the_others() -> None:
    assert w(krum(1), LINE) == [1]


def test_multi_krum_takes_the_mean_of_those_nearest() -> None:
    assert w(multi_krum(1), LINE) == [2]  # all but one
    assert w(multi_krum(1, kept=3), LINE) == [4 / 3]  # 1, 3 and 0
    assert w(multi_krum(1, kept=1), LINE) == w(krum(1), LINE)


def test_names_say_what_nodes_have_to_agree_on() -> None:
    assert [krum(2).name, multi_krum(2).name, multi_krum(2, 3).name] == [
        "krum:2",
        "multi-krum:2",
        "multi-krum:2:3",
    ]


# Distances between updates, and Krum's scores, worked by hand.


def squares() -> Squares:
    updates = updates_of(LINE)
    return squared_distances(updates, Schema.of(updates[0].params))


def test_distances_are_squared_and_alike_in_both_directions() -> None:
    result = squares()
    assert result[0].tolist() == pytest.approx([0, 1, 9, 16, 2500])
    assert (result == result.T).all()


def test_a_score_is_the_sum_to_the_nearest_ones() -> None:
    # five updates, one hostile: each is measured against its two nearest
    assert krum_scores(squares(), 1, range(5)) == pytest.approx([1 + 9, 1 + 4, 1 + 4, 1 + 9, 46**2 + 47**2])


def test_only_who_is_among_them_is_a_neighbour_and_one_is_the_least() -> None:
    assert krum_scores(squares(), 1, [0, 2, 4]) == pytest.approx([9, 9, 47**2])


def test_of_equal_scores_the_first_comes_first() -> None:
    assert best_first(squares(), 1, range(5)) == [1, 2, 0, 3, 4]


# Bulyan: a liar that is near as a whole is left out where it is far.


HONEST = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 1.5], [1.5, 2.0], [2.5, 1.0]]


def test_each_number_is_the_mean_of_those_nearest_to_its_median() -> None:
    columns = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 6.0], [90.0, 7.0], [3.0, 50.0]])
    assert around_median(columns, 3).tolist() == pytest.approx([3, 16 / 3])  # 2, 3, 4 around 3; 5, 5, 6 around 6


def test_of_equally_near_numbers_the_smaller_counts() -> None:
    assert around_median(np.array([[0.0], [1.0], [2.0]]), 2).tolist() == [0.5]


@given(column=st.lists(st.integers(-9, 9) | st.floats(-9, 9, width=16), min_size=1, max_size=9), data=st.data())
def test_they_are_the_nearest_ones_one_by_one(column: list[float], data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, len(column)))
    around = float(np.median(column))
    nearest = sorted(sorted(column), key=lambda value: abs(value - around))[:kept]
    assert around_median(np.array([column]).T, kept).tolist() == pytest.approx([np.mean(nearest)], abs=1e-12)


def test_of_numbers_at_equal_distances_not_only_the_farthest_one_is_looked_at() -> None:
    assert around_median(np.array([[-1.0, -1, 0, 0.5, 3]]).T, 3).tolist() == pytest.approx([-1 / 6])


def test_seven_updates_bear_one_liar() -> None:
    result = w(bulyan(1), [*HONEST, [1.4, 900.0]])
    assert 0 <= result[1] <= 2


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
