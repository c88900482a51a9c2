"""Averages: weights, blocks, integers, and what every mean must hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flnet.merging import Extremes, WeightedSum, quotient, weighted_mean
from flnet.params import Params, Schema
from tests.helpers import params

BLOCK = 131_072  # numbers that one step of an average works on


def mean_of(*weighted: tuple[Any, float], dtype: str = "float64") -> list[float]:
    found = weighted_mean([(params(dtype, w=w), weight) for w, weight in weighted], {})["w"].tolist()
    assert isinstance(found, list)
    return found


def test_weights_are_renormalised_over_what_is_given() -> None:
    assert mean_of(([0.0], 1), ([4.0], 3)) == [3.0]  # (1*0 + 3*4) / 4
    assert mean_of(([0.0], 10), ([4.0], 30)) == [3.0]


def test_all_weights_zero_give_the_plain_mean() -> None:
    assert mean_of(([1.0, 3.0], 0), ([3.0, 5.0], 0)) == [2.0, 4.0]  # rule R5


def test_one_set_is_handed_back() -> None:
    only = params(w=[0.1, -0.0])
    assert weighted_mean([(only, 0.0)], {}) == only
    assert weighted_mean([(only, 7.0)], {}) == only


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_weights_that_are_none_are_an_error(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be finite and not negative"):
        mean_of(*(([1.0], weight) for weight in weights))


def test_nothing_to_merge_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to merge"):
        weighted_mean([], {})


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 5])
def test_block_by_block_is_the_same_as_all_at_once(size: int) -> None:
    rng = np.random.default_rng(size)
    arrays = [rng.normal(size=size).astype(np.float32) for _ in range(3)]
    weights = [10.0, 20.0, 70.0]
    plain = (
        sum((a.astype(np.float64) * n for a, n in zip(arrays, weights, strict=True)), start=np.zeros(size)) / 100
    )
    found = weighted_mean([(Params({"w": a}), n) for a, n in zip(arrays, weights, strict=True)], {})["w"]
    assert found.dtype == np.float32
    assert found.tobytes() == plain.astype(np.float32).tobytes()


def test_sums_run_in_float64() -> None:
    # in float32, 1 would vanish beside 2^25
    assert mean_of(([2.0**25], 1), ([1.0], 1), ([-(2.0**25)], 1), ([2.0], 1), dtype="float32") == [0.75]


def test_shapes_and_scalars_are_kept() -> None:
    merged = weighted_mean([(params(w=[[1.0, 2.0]], s=3.0), 1), (params(w=[[3.0, 4.0]], s=5.0), 1)], {})
    assert merged == params(w=[[2.0, 3.0]], s=4.0)


def test_integers_take_the_maximum_and_never_a_mean() -> None:
    sets = [(Params({"n": np.array([7, 1])}), 1.0), (Params({"n": np.array([2, 9])}), 5.0)]
    for rule in ({}, {"n": "mean"}, {"n": "max"}):
        merged = weighted_mean(sets, rule)["n"]  # type: ignore[arg-type]
        assert (merged.dtype.name, merged.tolist()) == ("int64", [7, 9])  # rule R6
    assert weighted_mean(sets, {"n": "min"})["n"].tolist() == [2, 1]


def test_scalars_and_booleans_take_the_maximum() -> None:
    sets = [(Params({"n": np.int64(3), "ok": np.array([True, False])}), 1.0) for _ in range(2)]
    merged = weighted_mean(sets, {})
    assert merged == sets[0][0]


rows = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(0, 7)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(rows, st.data())
def test_a_mean_lies_between_its_inputs(matrix: Any, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 10**12), min_size=len(matrix), max_size=len(matrix)))
    found = weighted_mean([(Params({"w": row}), float(n)) for row, n in zip(matrix, weights, strict=True)], {})[
        "w"
    ]
    assert (matrix.min(axis=0) <= found).all()
    assert (found <= matrix.max(axis=0)).all()


@given(rows, st.data())
def test_identical_inputs_come_back_bit_by_bit(matrix: Any, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 10**12), min_size=1, max_size=8))
    same = Params({"w": matrix + np.float32(0)})  # a sum has no negative zero
    assert weighted_mean([(same, float(n)) for n in weights], {}) == same


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8))
def test_weights_sum_to_one(weights: list[int]) -> None:
    found = mean_of(*(([1.0], float(n)) for n in weights))
    assert found == pytest.approx([1.0], abs=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("weight", [1.0, 10.0**18, 5e-324, 1.7e308])
def test_neither_large_numbers_nor_large_weights_overflow(dtype: str, weight: float) -> None:
    largest = float(np.finfo(dtype).max)
    found = mean_of(*[([largest, -largest], weight)] * 3, dtype=dtype)
    assert found == pytest.approx([largest, -largest], rel=1e-15)  # exactly so where float64 is the wider
    assert mean_of(([largest], weight), ([-largest], weight), dtype=dtype) == [0.0]


@given(st.lists(st.floats(0, 10**18), min_size=1, max_size=8), st.integers(-200, 200))
def test_a_power_of_two_in_all_weights_changes_no_bit(weights: list[float], power: int) -> None:
    rows = [([1.0 / (i + 3)], weight) for i, weight in enumerate(weights) if weight == 0 or weight > 1e-200]
    if rows:
        assert mean_of(*rows) == mean_of(*((row, weight * 2.0**power) for row, weight in rows))


def test_any_byte_order_and_layout_give_the_same_bits() -> None:
    base = np.arange(6, dtype="<f4").reshape(2, 3) / 7
    expected = weighted_mean([({"w": base}, 2), ({"w": base + 1}, 3)], {})
    found = weighted_mean([({"w": np.asfortranarray(base)}, 2), ({"w": (base + 1).astype(">f4")}, 3)], {})
    assert found == expected


def test_a_sum_over_a_sum_by_hand() -> None:
    first, second = params(w=[1.0, 2.0], n=np.array(4)), params(w=[3.0, -6.0], n=np.array(1))
    specs = Schema.of(first).specs
    one, other, extremes = WeightedSum(specs), WeightedSum(specs), Extremes(specs)
    one.add(first, 2)
    other.add(second, 5)
    other.fold()
    other.add(second, 1)
    for arrays in (first, second):
        extremes.add(arrays)
    # (1 * 2 * (1, 2) + 0.5 * (5 + 1) * (3, -6)) / 11
    assert quotient(specs, [(one, 1.0), (other, 0.5)], 11, extremes) == params(w=[1.0, -14 / 11], n=np.array(4))


def test_a_sum_of_nothing_is_an_error() -> None:
    specs = Schema.of(params(w=[1.0])).specs
    empty = WeightedSum(specs)
    empty.add(params(w=[7.0]), 0)  # counts for nothing
    empty.fold()
    with pytest.raises(ValueError, match="nothing to merge"):
        quotient(specs, [(empty, 1.0)], 1, Extremes(specs))


def test_extremes_are_never_the_arrays_that_came() -> None:
    first = np.array([1, 5])
    extremes = Extremes(Schema.of({"n": first}).specs)
    extremes.add({"n": first})
    extremes.add({"n": np.array([3, 2])})
    assert (extremes.found["n"].tolist(), first.tolist()) == ([3, 5], [1, 5])
