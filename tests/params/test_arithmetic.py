"""Averages: weights, blocks, integers, and what every mean must hold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flnet.params.arithmetic import BLOCK as BLOCK_vectors
from flnet.params.arithmetic import (
    Extremes,
    Rows,
    Total,
    WeightedSum,
    blocks,
    blockwise,
    clipped,
    distance,
    distances,
    fsum,
    longest,
    norm_of,
    parts_of,
    quotient,
    sort_columns,
    squares,
    usual_norm,
    weight_names,
    weighted_mean,
)
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.params.segments import Segments
from tests.helpers import params

BLOCK = 131_072  # numbers that one step of an average works on


def mean_of(*weighted: tuple[Any, float], dtype: str = "float64") -> list[float]:
    result = weighted_mean([(params(dtype, w=w), weight) for w, weight in weighted], {})["w"].tolist()
    assert isinstance(result, list)
    return result


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


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 5])
def test_block_by_block_is_the_same_as_all_at_once(size: int) -> None:
    rng = np.random.default_rng(size)
    arrays = [rng.normal(size=size).astype(np.float32) for _ in range(3)]
    weights = [10.0, 20.0, 70.0]
    plain = (
        sum((a.astype(np.float64) * n for a, n in zip(arrays, weights, strict=True)), start=np.zeros(size)) / 100
    )
    result = weighted_mean([(Params({"w": a}), n) for a, n in zip(arrays, weights, strict=True)], {})["w"]
    assert result.dtype == np.float32
    assert result.tobytes() == plain.astype(np.float32).tobytes()


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
    scalars = Params({"n": np.int64(3), "ok": np.array([True, False])})
    assert weighted_mean([(scalars, 1.0), (scalars, 1.0)], {}) == scalars


rows = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(0, 7)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(rows, st.data())
def test_a_mean_lies_between_its_inputs(matrix: Any, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 10**12), min_size=len(matrix), max_size=len(matrix)))
    result = weighted_mean([(Params({"w": row}), float(n)) for row, n in zip(matrix, weights, strict=True)], {})[
        "w"
    ]
    assert (matrix.min(axis=0) <= result).all()
    assert (result <= matrix.max(axis=0)).all()


@given(rows, st.data())
def test_identical_inputs_come_back_bit_by_bit(matrix: Any, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 10**12), min_size=1, max_size=8))
    same = Params({"w": matrix + np.float32(0)})  # a sum has no negative zero
    assert weighted_mean([(same, float(n)) for n in weights], {}) == same


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8))
def test_weights_sum_to_one(weights: list[int]) -> None:
    result = mean_of(*(([1.0], float(n)) for n in weights))
    assert result == pytest.approx([1.0], abs=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("weight", [1.0, 10.0**18, 5e-324, 1.7e308])
def test_neither_large_numbers_nor_large_weights_overflow(dtype: str, weight: float) -> None:
    largest = float(np.finfo(dtype).max)
    result = mean_of(*[([largest, -largest], weight)] * 3, dtype=dtype)
    assert result == pytest.approx([largest, -largest], rel=1e-15)  # exactly so where float64 is the wider
    assert mean_of(([largest], weight), ([-largest], weight), dtype=dtype) == [0.0]


@given(st.lists(st.floats(0, 10**18), min_size=1, max_size=8), st.integers(-200, 200))
def test_a_power_of_two_in_all_weights_changes_no_bit(weights: list[float], power: int) -> None:
    rows = [([1.0 / (i + 3)], weight) for i, weight in enumerate(weights) if weight == 0 or weight > 1e-200]
    if rows:
        assert mean_of(*rows) == mean_of(*((row, weight * 2.0**power) for row, weight in rows))


def test_any_byte_order_and_layout_give_the_same_bits() -> None:
    base = np.arange(6, dtype="<f4").reshape(2, 3) / 7
    expected = weighted_mean([({"w": base}, 2), ({"w": base + 1}, 3)], {})
    result = weighted_mean([({"w": np.asfortranarray(base)}, 2), ({"w": (base + 1).astype(">f4")}, 3)], {})
    assert result == expected


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


def test_nothing_to_merge_is_an_error() -> None:
    specs = Schema.of(params(w=[1.0])).specs
    empty = WeightedSum(specs)
    empty.add(params(w=[7.0]), 0)  # counts for nothing
    empty.fold()
    words = "nothing to merge: expected at least one set of parameters"
    with pytest.raises(ValueError, match=words):
        weighted_mean([], {})
    with pytest.raises(ValueError, match=words):
        blockwise({}, [], spread)
    with pytest.raises(ValueError, match=words):
        quotient(specs, [(empty, 1.0)], 1, Extremes(specs))


def test_extremes_are_never_the_arrays_that_came() -> None:
    first = np.array([1, 5])
    extremes = Extremes(Schema.of({"n": first}).specs)
    extremes.add({"n": first})
    extremes.add({"n": np.array([3, 2])})
    assert (extremes.found["n"].tolist(), first.tolist()) == ([3, 5], [1, 5])


# Rules over all updates at once, block by block: the same as over whole arrays.


def spread(rows: Rows) -> Array:
    rows.sort(axis=0)  # a rule may write into what it is given
    return np.asarray(rows[-1] - rows[0])


def sets_of(count: int, size: int) -> list[Params]:
    chance = np.random.default_rng(7)
    drawn = ((chance.normal(size=(size, 3)), chance.normal(size=2)) for _ in range(count))
    return [params(w=w.astype(np.float32), b=b.astype(np.float32)) for w, b in drawn]


@pytest.mark.parametrize(("count", "size"), [(1, 5), (3, 43_691), (3, 43_690), (2, 80_000), (200, 700)])
def test_blocks_give_what_whole_arrays_give(count: int, size: int) -> None:
    sets = sets_of(count, size)
    before = [each.digest for each in sets]
    result = blockwise(Schema.of(sets[0]).specs, sets, spread)
    for name in ("w", "b"):
        stacked = np.stack([each[name].astype(np.float64) for each in sets])
        expected = (stacked.max(axis=0) - stacked.min(axis=0)).astype(np.float32)
        np.testing.assert_array_equal(result[name], expected)
    assert [Params(dict(each)).digest for each in sets] == before  # the updates stay as they were


def test_what_is_not_averaged_takes_the_maximum_and_nothing_stays_nothing() -> None:
    sets = [Params({"n": np.array(n), "e": np.empty((0, 4), np.float32)}) for n in (3, 9, 4)]
    result = blockwise(Schema.of(sets[0]).specs, sets, spread)
    assert (int(result["n"]), result["e"].shape) == (9, (0, 4))


def test_the_result_lies_in_the_memory_that_is_given() -> None:
    asked: list[int] = []

    def memory(nbytes: int) -> Array:
        asked.append(nbytes)
        return np.empty(nbytes, np.uint8)

    blockwise(Schema.of(params(w=[1.0, 2.0])).specs, [params(w=[1.0, 2.0])], spread, memory)
    assert asked == [8]


@pytest.mark.parametrize("count", [*range(20), 33, 64, 65, 100])
def test_columns_are_sorted_whatever_their_number(count: int) -> None:
    rows = np.random.default_rng(count).integers(-9, 9, size=(count, 50)).astype(np.float64)
    expected = np.sort(rows, axis=0)
    sort_columns(rows)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("count", range(2, 13))
def test_every_order_of_zeros_and_ones_is_sorted(count: int) -> None:
    """So a network sorts everything (Knuth, 5.3.4, Theorem Z)."""
    rows = np.array([[(number >> row) & 1 for number in range(1 << count)] for row in range(count)], np.float64)
    sort_columns(rows)
    assert (np.diff(rows, axis=0) >= 0).all()


def test_zero_has_no_sign() -> None:
    for each, other in ((0.0, -0.0), (-0.0, 0.0)):
        result = blockwise(
            Schema.of(params(w=[each])).specs, [params(w=[each]), params(w=[other])], lambda rows: rows[0]
        )
        assert not np.signbit(result["w"]).any()


# Parameters as one long vector: distances worked by hand, sums in a fixed order, and how far clipping goes.


BASE = params(w=[1, 1], b=[0])
SCHEMA = Schema.of(BASE)
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


# --- distances


def test_the_distance_is_the_norm_over_all_arrays_that_are_averaged() -> None:
    assert distance(BASE, params(w=[4, 5], b=[12]), SCHEMA) == 13.0  # 3, 4 and 12


def test_the_order_of_the_sum_is_fixed() -> None:
    moved = np.random.default_rng(1).normal(size=150_001).astype("float32")
    pieces = np.zeros((586, 256), "float32")
    pieces.reshape(-1)[: moved.size] = moved * moved
    for width in (128, 64, 32, 16, 8, 4, 2, 1):
        pieces = pieces[:, :width] + pieces[:, width:]
    here, base = Params({"w": moved}), Params({"w": np.zeros(moved.size, "float32")})
    assert distance(base, here, Schema.of(base)) == math.sqrt(math.fsum(pieces[:, 0]))


@given(st.lists(st.floats(0, 2.0**1000), max_size=40))
def test_a_sum_in_parts_is_exact(numbers: list[float]) -> None:
    parts = parts_of(numbers)
    assert sum(map(Fraction, parts)) == sum(map(Fraction, numbers))
    assert norm_of(parts) == norm_of(numbers)


def test_a_sum_that_is_too_large_stays_so_in_parts() -> None:
    parts = parts_of([math.inf, 1.0])
    assert all(map(math.isfinite, parts)) and norm_of(parts) == math.inf


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=4), st.integers(1, 20), st.integers(0, 99))
def test_the_norm_of_an_update_follows_from_its_segments(sizes: list[int], count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    base, here = (
        Params({f"a{at}": chance.normal(0, 10.0**at, size).astype("float32") for at, size in enumerate(sizes)})
        for _ in range(2)
    )
    schema = Schema.of(base)
    segments = Segments(schema, count)
    parts: list[float] = []
    for one, other in zip(segments.cut(base), segments.cut(here), strict=True):
        parts += parts_of(squares(one, other, schema.specs, one))
    assert norm_of(parts) == distance(base, here, schema)


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
    one = Params({"b": np.arange(BLOCK_vectors + 2.0), "a": np.ones((2, 2)), "seen": np.arange(3)})
    schema = Schema.of(one)
    assert (weight_names(schema), longest(schema)) == (["a", "b"], BLOCK_vectors + 2)
    result = list(blocks(schema, (one, one)))
    assert [[row.shape for row in rows] for rows in result] == [[(size,)] * 2 for size in (4, BLOCK_vectors, 2)]
    assert result[2][1].tolist() == [BLOCK_vectors, BLOCK_vectors + 1]


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
