"""The cosine gate: angles worked by hand, and who is left out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flnet.params import PeerId
from flnet.strategies.cosine import cosine, cosines
from tests.helpers import update
from tests.strategies.robust import begun, updates_of


def test_angles_are_those_to_the_median_of_the_changes() -> None:
    """Changes (1, 0), (0, 2), (2, 2): the median of each number is (1, 2)."""
    found = cosines(begun(w=[5.0, 5.0]), updates_of([[6, 5], [5, 7], [7, 7]]))
    assert list(found.values()) == pytest.approx([1 / 5**0.5, 2 / 5**0.5, 3 / 10**0.5], abs=1e-12)


def test_of_an_even_number_it_is_the_mean_of_the_two_in_the_middle() -> None:
    found = cosines(begun(w=[0.0, 0.0]), updates_of([[1, 0], [0, 1], [2, 3], [9, 9]]))  # the median is (1.5, 2)
    assert list(found.values()) == pytest.approx([0.6, 0.8, 9 / (2.5 * 13**0.5), 3.5 / (2.5 * 2**0.5)], abs=1e-12)


def test_who_points_away_is_left_out_in_words() -> None:
    found = cosine().apply(begun(w=[1.0, 1.0]), updates_of([[2, 1], [2, 1.5], [-1, 1], [2, 0.5]]))
    assert [one.peer for one in found.updates] == ["p000", "p001", "p003"]
    out = found.weighed[PeerId("p002")]
    assert out.cosine == -1.0
    assert out.reason == "its change points away from the median of all changes, with a cosine of -1.00"
    assert all(not one.reason for peer, one in found.weighed.items() if peer != "p002")


def test_a_right_angle_is_left_out() -> None:
    found = cosine().apply(begun(w=[0.0, 0.0]), updates_of([[1, 0], [1, 0], [0, 1]]))
    assert [one.peer for one in found.updates] == ["p000", "p001"]


def test_of_two_nobody_can_say_which_one_points_away() -> None:
    there = updates_of([[1.0], [-9.0]])
    found = cosine().apply(begun(w=[0.0]), there)
    assert found.updates == there
    assert found.weighed[PeerId("p000")].cosine == -1.0


def test_where_the_median_did_not_move_there_are_no_angles() -> None:
    there = updates_of([[0.0], [1.0], [-1.0]])
    found = cosine().apply(begun(w=[0.0]), there)
    assert found.updates == there
    assert {one.cosine for one in found.weighed.values()} == {None}


def test_who_did_not_move_has_no_angle_and_counts() -> None:
    found = cosine().apply(begun(w=[0.0]), updates_of([[0.0], [1.0], [1.0]]))
    assert [one.cosine for one in found.weighed.values()] == [None, 1.0, 1.0]
    assert len(found.updates) == 3


def test_who_learnt_from_nothing_is_passed_on_unseen() -> None:
    there = [*updates_of([[1.0], [1.0], [2.0]]), update("z", examples=0, w=[-5.0])]
    found = cosine().apply(begun(w=[0.0]), there)
    assert found.updates == there
    assert "z" not in found.weighed


def test_never_all_are_left_out() -> None:
    """Two of three numbers agree with the median of each, yet every change as a whole points away from it."""
    far = 100.0
    rows = [[1, 1, -far], [1, -far, 1], [-far, 1, 1]]
    found = cosine().apply(begun(w=[0.0, 0.0, 0.0]), updates_of(rows))
    assert all(one.cosine is not None and one.cosine < 0 for one in found.weighed.values())
    assert len(found.updates) == 3


def test_changes_too_large_to_be_computed_with_count_for_nothing() -> None:
    huge = float(np.finfo(np.float64).max)
    found = cosine().apply(begun(w=[0.0]), updates_of([[1.0], [1.0], [2.0], [1.0], [huge]]))
    assert [one.peer for one in found.updates] == ["p000", "p001", "p002", "p003"]
    assert found.weighed[PeerId("p004")].cosine == 0.0


def test_angles_are_those_of_numpy_over_many_numbers() -> None:
    changes = np.random.default_rng(3).normal(size=(5, 300_001)).astype("float32")
    changes[:4] += 0.5
    base = np.ones(300_001, "float32")
    there = [update(f"p{at}", w=(base + row)) for at, row in enumerate(changes)]
    moved = np.stack([one.params["w"] for one in there]).astype(float) - base
    median = np.median(moved, axis=0)
    expected = moved @ median / np.linalg.norm(moved, axis=1) / np.linalg.norm(median)
    found = [one for one in cosines(begun(w=base), there).values() if one is not None]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not math.isclose(found[4], found[0], rel_tol=0.1)
