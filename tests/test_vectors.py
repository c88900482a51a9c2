"""Parameters as one long vector: distances worked by hand, sums in a fixed order, and how far clipping goes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import Params, PeerId, Schema
from flnet.vectors import BLOCK, Total, averaged, blocks, clipped, distance, distances, fsum, longest, usual_norm
from tests.helpers import params

BASE = params(w=[1, 1], b=[0])
SCHEMA = Schema.of(BASE)
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


# --- distances


def test_the_distance_is_the_norm_over_all_arrays_that_are_averaged() -> None:
    assert distance(BASE, params(w=[4, 5], b=[12]), SCHEMA) == 13.0  # 3, 4 and 12


def test_the_order_of_the_sum_is_fixed() -> None:
    moved = np.random.default_rng(1).normal(size=(40, 4096)).astype("float32")
    lanes = np.zeros(4096, "float32")
    for row in moved[:32]:
        lanes += row * row
    first, lanes = lanes.astype("float64"), np.zeros(4096, "float32")
    for row in moved[32:]:
        lanes += row * row
    here, base = Params({"w": moved.reshape(-1)}), Params({"w": np.zeros(40 * 4096, "float32")})
    assert distance(base, here, Schema.of(base)) == math.sqrt(math.fsum(first + lanes))


def test_what_is_merged_by_maximum_has_no_distance() -> None:
    base = Params({"w": np.zeros(1, np.float32), "seen": np.zeros(1, np.int64), "top": np.zeros(1, np.float32)})
    here = Params({"w": np.full(1, 2, np.float32), "seen": np.full(1, 9), "top": np.full(1, 9, np.float32)})
    assert distance(base, here, Schema.of(base, {"top": "max"})) == 2.0


@given(st.integers(1, 300_000))
def test_the_distance_of_many_numbers_is_exact_where_the_sum_is(size: int) -> None:
    base, here = Params({"w": np.zeros(size, np.float32)}), Params({"w": np.full(size, 2, np.float32)})
    assert distance(base, here, Schema.of(base)) == math.sqrt(4 * size)


def test_numbers_beyond_float64_are_infinitely_far() -> None:
    base = Params({"w": np.full(2, -1e300)})
    assert distance(base, Params({"w": np.full(2, 1e300)}), Schema.of(base)) == math.inf


def test_distances_go_by_peer() -> None:
    there = {PeerId("a"): params(w=[1, 1], b=[2]), PeerId("b"): BASE}
    assert distances(BASE, there, SCHEMA) == {"a": 2.0, "b": 0.0}


# --- sums and blocks


def test_a_sum_is_rounded_once_over_its_lanes() -> None:
    total = Total(3)
    total.add(np.array([1e16, 1.0, -1e16]))
    total.add(np.array([0.5]))
    assert total.value == 1.0  # 1e16 + 0.5 is 1e16 in its lane
    total.add(np.array([math.inf]))
    assert total.value == math.inf


def test_a_sum_beyond_float64_is_infinite() -> None:
    assert fsum([1e308] * 3) == math.inf
    total = Total(2)
    total.add(np.full(2, 1e308))
    assert total.value == math.inf


def test_blocks_of_all_sets_come_together_in_the_order_of_names() -> None:
    one = Params({"b": np.arange(BLOCK + 2.0), "a": np.ones((2, 2)), "seen": np.arange(3)})
    schema = Schema.of(one)
    assert (averaged(schema), longest(schema)) == (["a", "b"], BLOCK + 2)
    found = list(blocks(schema, (one, one)))
    assert [[row.shape for row in rows] for rows in found] == [[(size,)] * 2 for size in (4, BLOCK, 2)]
    assert found[2][1].tolist() == [BLOCK, BLOCK + 1]


@pytest.mark.parametrize(
    ("norms", "usual"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([1, 3], 1), ([5, 1, 2], 2), ([1, 2, 3, math.inf], 2)]
)
def test_the_usual_norm_is_the_lower_median_of_those_that_moved(norms: list[float], usual: float) -> None:
    assert usual_norm(norms) == usual


# --- clipping


def test_an_update_beyond_the_norm_is_shortened_in_its_own_direction() -> None:
    shorter = clipped(BASE, params(w=[4, 5], b=[12]), SCHEMA, 6.5)
    assert shorter == params(w=[2.5, 3], b=[6])


def test_an_update_within_the_norm_is_left_as_it_is() -> None:
    near = params(w=[4, 5], b=[12])
    assert clipped(BASE, near, SCHEMA, 13) is near


@given(st.lists(FINITE, min_size=3, max_size=3), st.floats(0.001, 1000))
def test_what_is_clipped_is_within_the_norm_but_for_its_rounding(numbers: list[float], most: float) -> None:
    shorter = clipped(BASE, params(w=numbers[:2], b=numbers[2:]), SCHEMA, most)
    assert distance(BASE, shorter, SCHEMA) <= most * 1.0001 + 1e-6
    assert shorter.nbytes == BASE.nbytes
