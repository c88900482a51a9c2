"""Distances between updates, and Krum's scores, worked by hand."""

from __future__ import annotations

import pytest

from flnet.params import Schema
from flnet.strategies.nearest import Squares, best_first, krum_scores, squared_distances
from tests.strategies.robust import updates_of

LINE = [[0.0], [1.0], [3.0], [4.0], [50.0]]


def squares() -> Squares:
    there = updates_of(LINE)
    return squared_distances(there, Schema.of(there[0].params))


def test_distances_are_squared_and_alike_in_both_directions() -> None:
    found = squares()
    assert found[0].tolist() == pytest.approx([0, 1, 9, 16, 2500])
    assert (found == found.T).all()


def test_a_score_is_the_sum_to_the_nearest_ones() -> None:
    # five updates, one hostile: each is measured against its two nearest
    assert krum_scores(squares(), 1, range(5)) == pytest.approx([1 + 9, 1 + 4, 1 + 4, 1 + 9, 46**2 + 47**2])


def test_only_who_is_among_them_is_a_neighbour_and_one_is_the_least() -> None:
    assert krum_scores(squares(), 1, [0, 2, 4]) == pytest.approx([9, 9, 47**2])


def test_of_equal_scores_the_first_comes_first() -> None:
    assert best_first(squares(), 1, range(5)) == [1, 2, 0, 3, 4]
