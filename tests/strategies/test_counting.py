"""Who takes part in a merge without weights, and its means."""

from __future__ import annotations

import numpy as np

from flnet.params import Schema
from flnet.strategies.counting import counting, mean_of_sorted, plain_mean, usual_mean
from tests.helpers import update


def test_who_learnt_from_nothing_is_left_out_unless_all_did() -> None:
    some, none, unsaid = update("a", examples=4), update("b", examples=0), update("c", examples=None)
    assert counting([some, none, unsaid]) == [some, unsaid]
    assert counting([none, none]) == [none, none]


def test_the_plain_mean_counts_every_update_alike() -> None:
    there = [update("a", examples=1, w=[1.0]), update("b", examples=99, w=[3.0])]
    assert plain_mean(there, Schema.of(there[0].params))["w"].tolist() == [2.0]


def test_the_mean_of_equal_numbers_is_that_number() -> None:
    third = np.full((3, 2), [0.1, np.finfo(np.float64).max])
    assert mean_of_sorted(third).tolist() == third[0].tolist()


def test_the_usual_mean_is_by_examples_where_all_say_them() -> None:
    there = [update("a", examples=1, w=[1.0]), update("b", examples=3, w=[5.0])]
    assert usual_mean(there, Schema.of(there[0].params))["w"].tolist() == [4.0]
    there = [there[0], update("b", examples=None, w=[5.0])]
    assert usual_mean(there, Schema.of(there[0].params))["w"].tolist() == [3.0]
