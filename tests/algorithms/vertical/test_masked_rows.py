"""Alignment by the key holder: all matches and no other, and nothing of it in what a data holder gets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.masked_rows import EMPTY, arranged, match_blinded
from flnet.errors import InvalidMessage


def blinded(ids: list[int]) -> list[bytes]:
    return [number.to_bytes(4, "big") for number in ids]


ids = st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True)


@given(ids, ids, st.integers(0, 2**32))
def test_the_mask_is_1_where_both_rows_are_of_one_person(a: list[int], b: list[int], seed: int) -> None:
    if not set(a) & set(b):
        with pytest.raises(InvalidMessage, match="no row"):
            match_blinded(blinded(a), blinded(b), np.random.default_rng(seed))
        return
    matched = match_blinded(blinded(a), blinded(b), np.random.default_rng(seed))
    placed_a = arranged(np.array(a, float), matched.order_a, empty=-1)
    placed_b = arranged(np.array(b, float), matched.order_b, empty=-2)
    assert matched.mask.tolist() == (placed_a == placed_b).astype(float).tolist()
    assert len(matched.mask) == max(len(a), len(b))
    assert set(placed_a[matched.mask == 1]) == set(a) & set(b)
    assert (matched.order_a == EMPTY).sum() == len(matched.mask) - len(a)


def test_the_order_of_a_node_does_not_depend_on_what_matches() -> None:
    """All orders of three rows are equally frequent, whether the first or the last two match."""
    for b in ([0, 1, 9], [8, 1, 2]):
        orders = Counter(
            tuple(match_blinded(blinded([0, 1, 2]), blinded(b), np.random.default_rng(seed)).order_a.tolist())
            for seed in range(1200)
        )
        assert len(orders) == 6
        assert max(orders.values()) < 300  # 200 expected, deviation 13


def test_an_id_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="twice"):
        match_blinded(blinded([1, 1]), blinded([1]), np.random.default_rng(0))


@pytest.mark.parametrize("order", [[0, 1], [0, 0, 1], [0, 1, 3], [-1, -1, -1]])
def test_an_order_has_to_name_each_row_once(order: list[int]) -> None:
    with pytest.raises(InvalidMessage, match="each of the 3 rows once"):
        arranged(np.zeros(3), np.array(order))
