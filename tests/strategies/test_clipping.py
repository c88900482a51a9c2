"""Clipping to the median norm, or to a given one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.strategies.clipping import clip
from tests.helpers import update
from tests.strategies.robust import begun, updates_of

BASE = [1.0, 1.0]


def test_those_beyond_the_median_norm_are_shortened_to_it() -> None:
    there = updates_of([[4.0, 5.0], [1.0, 2.0], [1.0, -99.0]])  # 5, 1 and 100 away
    found = clip().apply(begun(w=BASE), there)
    assert [one.params["w"].tolist() for one in found.updates] == [[4, 5], [1, 2], [1, -4]]
    assert found.updates[1] is there[1]
    assert found.weighed == {}


def test_of_an_even_number_the_lower_middle_counts() -> None:
    found = clip().apply(begun(w=[0.0]), updates_of([[1], [2], [3], [-40]]))
    assert [float(one.params["w"][0]) for one in found.updates] == [1, 2, 2, -2]


def test_who_did_not_move_nor_learn_has_no_part_in_the_median() -> None:
    there = [*updates_of([[0], [0], [3], [3], [8]]), update("z", examples=0, w=[0.5])]
    found = clip().apply(begun(w=[0.0]), there)
    assert [float(one.params["w"][0]) for one in found.updates] == [0, 0, 3, 3, 3, 0.5]


def test_of_two_neither_is_shortened_unless_a_norm_is_given() -> None:
    there = updates_of([[1.0], [50.0]])
    assert clip().apply(begun(w=[0.0]), there).updates == there
    assert [float(one.params["w"][0]) for one in clip(2).apply(begun(w=[0.0]), there).updates] == [1, 2]


def test_the_name_says_the_norm() -> None:
    assert (clip().name, clip(2.50).name) == ("clip", "clip:2.5")
    for most in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match="above 0"):
            clip(most)


@given(st.lists(st.floats(0.5, 100), min_size=3, max_size=9), st.data())
def test_a_minority_cannot_stretch_the_norm_beyond_the_honest_ones(
    honest: list[float], data: st.DataObject
) -> None:
    few = data.draw(st.lists(st.floats(-1e30, 1e30), max_size=len(honest) - 1))
    found = clip().apply(begun(w=[0.0]), updates_of([[one] for one in [*honest, *few]]))
    assert max(abs(float(one.params["w"][0])) for one in found.updates) <= max(honest) * (1 + 1e-12)
