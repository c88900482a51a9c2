"""The arithmetic of secure sums: it cannot overflow, its error is bounded, and its mean is the plain one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.algorithms.fed_mt.estimation import Estimate
from flnet.algorithms.fed_mt.local_training import JOINED, POOLED, POOLING
from flnet.algorithms.secure_sum import (
    CLIP,
    WEIGHT_CAPS,
    ArrayEncoder,
    Bits,
    BoundedArray,
    FixedPoint,
    MeanEncoder,
    add_signed,
    pair_sign,
    threshold,
    weight_of,
)
from flnet.params.arithmetic import clipped
from flnet.params.params import Params, Schema
from tests.algorithms.secure_cases import case, must_equal
from tests.helpers import params

BITS: tuple[Bits, Bits] = (32, 64)
bits_of = st.sampled_from(BITS)
nodes_of = st.integers(1, 300) | st.sampled_from([1024, 4099, 2**16])
bounds_of = st.floats(1e-30, 1e30) | st.sampled_from([2.0**-500, 2.0**500, 1.0, 8.0, 0.1])


def added(terms: MeanEncoder, *sent: Any) -> Any:
    """The sum of the vectors, modulo 2^bits."""
    total = np.zeros(terms.size, terms.fixed.dtype)
    for contribution in sent:
        total += contribution.numbers
    return total


# How many nodes


@pytest.mark.parametrize(
    ("count", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 4), (9, 6), (10, 7), (30, 20), (100, 67)]
)
def test_a_third_may_vanish(count: int, needed: int) -> None:
    assert threshold(count) == needed


@given(st.integers(1, 500), st.floats(0, 0.499))
def test_a_threshold_is_above_half_and_is_reached_without_those_that_may_vanish(count: int, part: float) -> None:
    needed = threshold(count, part)
    assert count < 2 * needed <= 2 * count
    assert threshold(count, 0.0) == count


@given(st.integers(3, 300))
def test_colluders_below_the_bound_cannot_have_both_kinds_of_shares(count: int) -> None:
    needed = threshold(count)
    colluders = 2 * needed - count - 1  # the most for which 2 * needed > count + colluders
    assert colluders >= count // 3 - 2
    for honest in range(count - colluders + 1):  # who give the one kind; all others give the other one
        assert min(colluders + honest, count - honest) < needed


def test_parts_are_taken_as_they_are_written() -> None:
    assert threshold(100, 0.29) == 71


@pytest.mark.parametrize(("count", "part"), [(0, 0.3), (3, 0.5), (3, -0.1), (3, math.nan)])
def test_a_threshold_that_makes_no_sense_is_refused(count: int, part: float) -> None:
    with pytest.raises(ValueError, match="expected at least 1, and 0 to below"):
        threshold(count, part)


# Masks between two nodes


def test_oracle_15() -> None:
    inputs = {"0": (5, 7), "1": (1, 2), "2": (10, 0)}
    masks = {("0", "1"): (3, 4), ("0", "2"): (11, 6), ("1", "2"): (2, 9)}
    sent = {}
    for me, numbers in inputs.items():
        sent[me] = np.array(numbers, np.uint16)
        for pair, mask in masks.items():
            if me in pair:
                other = pair[pair[0] == me]
                add_signed(sent[me], np.array(mask, np.uint16), pair_sign(me, other))
    assert [numbers.tolist() for numbers in sent.values()] == [[19, 17], [0, 7], [65533, 65521]]
    assert sum(sent.values(), np.zeros(2, np.uint16)).tolist() == [16, 9]


def test_the_two_sides_of_a_pair_cancel() -> None:
    assert pair_sign("a", "b") == -pair_sign("b", "a")
    with pytest.raises(ValueError, match="shares no mask with itself"):
        pair_sign("a", "a")


# Fixed-point numbers


@given(bits_of, nodes_of, bounds_of)
@example(64, 1, 8.0)  # 2^63 - 1 is no float64: it would be rounded up, out of range
@example(32, 3, 0.1)
def test_the_sum_of_all_nodes_at_their_bound_does_not_overflow(bits: Bits, nodes: int, bound: float) -> None:
    fixed = FixedPoint(bits, nodes)
    inside = math.nextafter(bound, 0)
    values = np.array([bound, -bound, inside, -inside, 10 * bound, -10 * bound])
    numbers, cut = fixed.encode(values, bound)
    assert cut == 2
    exact = [nodes * int(number) for number in numbers.view(fixed.signed)]
    assert exact[0] == exact[4] == -exact[1] == nodes * fixed.unit <= 2 ** (bits - 1) - 1
    assert max(exact) == exact[0]
    total = numbers * fixed.dtype.type(nodes)  # the sum modulo 2^bits of so many equal nodes
    assert total.view(fixed.signed).tolist() == exact
    assert np.abs(fixed.decode(total, bound) - nodes * np.clip(values, -bound, bound)).max() <= fixed.step(bound)


@given(bits_of, bounds_of, st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=1, max_size=9))
def test_a_sum_is_right_to_the_stated_step(bits: Bits, bound: float, parts: list[list[float]]) -> None:
    fixed = FixedPoint(bits, len(parts))
    rows = [np.clip(np.array(part) * bound, -bound, bound) for part in parts]
    total = sum((fixed.encode(row, bound).numbers for row in rows), np.zeros(3, fixed.dtype))
    for place, found in enumerate(fixed.decode(total, bound)):
        exact = sum((Fraction(float(row[place])) for row in rows), Fraction(0))
        assert abs(Fraction(float(found)) - exact) <= Fraction(fixed.step(bound))


def test_steps_of_four_nodes() -> None:
    assert FixedPoint(32, 4).step(8.0) == pytest.approx(4 * 8 / 2 / 2**29, rel=1e-6)
    assert FixedPoint(64, 4).step(8.0) < 1e-13


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8"])
def test_long_arrays_of_each_dtype_are_encoded_block_by_block(dtype: str) -> None:
    values = np.random.default_rng(7).integers(0, 100, (3, 70_001)).astype(dtype)
    fixed, base = FixedPoint(32, 2), np.ones((3, 70_001), dtype)
    numbers, cut = fixed.encode(values, 200.0, base=base, share=0.5)
    assert numbers.shape == (210_003,)
    assert cut == 0
    right = (values.astype(float).ravel() - 1) / 2
    assert np.abs(fixed.decode(numbers, 200.0) - right).max() <= fixed.step(200.0)


def test_what_is_beyond_the_bound_is_cut_and_counted_before_it_is_weighted() -> None:
    fixed = FixedPoint(64, 3)
    numbers, cut = fixed.encode(np.array([9.0, -9, 8, 1]), 4.0, base=np.array([1.0, 1, 8, 1]), share=0.25)
    assert cut == 2
    assert fixed.decode(numbers, 4.0).tolist() == pytest.approx([1, -1, 0, 0])


@pytest.mark.parametrize("size", [0, 1])
def test_short_arrays(size: int) -> None:
    fixed = FixedPoint(32, 2)
    numbers, cut = fixed.encode(np.full(size, 0.5), 1.0)
    assert (numbers.size, cut) == (size, 0)
    assert fixed.decode(numbers, 1.0) == pytest.approx([0.5] * size)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_that_is_not_finite_is_refused(wrong: float, dtype: str) -> None:
    values = np.zeros(70_000, dtype)
    values[69_999] = wrong
    with pytest.raises(ValueError, match="not finite cannot go into a sum"):
        FixedPoint(32, 2).encode(values, 1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FixedPoint(16, 2), "of 16 bits; expected 32 or 64"),  # type: ignore[arg-type]
        (lambda: FixedPoint(32, 0), "a sum over 0 nodes; expected 1 to 65,536"),
        (lambda: FixedPoint(32, 2**16 + 1), "a sum over 65537 nodes"),
        (lambda: FixedPoint(32, 2).encode(np.zeros(1), 0.0), "a bound of 0.0; expected"),
        (lambda: FixedPoint(32, 2).encode(np.zeros(1), math.inf), "a bound of inf; expected"),
        (lambda: FixedPoint(32, 2).encode(np.zeros(1), math.nan), "a bound of nan; expected"),
        (lambda: FixedPoint(32, 2).encode(np.zeros(1), 1.0, share=1.5), "a share of 1.5; expected 0 to 1"),
    ],
)
def test_wrong_fixed_point_numbers_are_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


# Named sums


def test_named_arrays_come_back_as_named_sums() -> None:
    terms = ArrayEncoder(
        {"rows": BoundedArray((2, 2), 1000, whole=True), "mean": BoundedArray((3,), 2.0)}, FixedPoint(32, 3)
    )
    one = terms.encode({"rows": np.array([[1, 2], [3, 4]]), "mean": np.array([0.5, -0.5, 3])})
    two = terms.encode({"rows": np.array([[10, 0], [-5, 2000]]), "mean": np.array([1.5, 0, 0])})
    assert (one.cut, two.cut, terms.size) == (1, 1, 7)
    sums = terms.decode(one.numbers + two.numbers, 2)
    assert sums["rows"].tolist() == [[11, 2], [-2, 1004]]
    assert sums["mean"] == pytest.approx([2, -0.5, 2], abs=terms.fixed.step(2.0))


TERMS = ArrayEncoder(
    {"rows": BoundedArray((2,), 10, whole=True), "mean": BoundedArray((1,), 2.0)}, FixedPoint(32, 3)
)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: TERMS.encode({"rows": np.zeros(2, int)}), "arrays ['rows']; expected ['mean', 'rows']"),
        (lambda: TERMS.encode({"rows": np.zeros(3, int), "mean": np.zeros(1)}), "has shape [3]; expected [2]"),
        (lambda: TERMS.encode({"rows": np.zeros(2), "mean": np.zeros(1)}), "numbers of float64; expected whole"),
        (lambda: TERMS.decode(np.zeros(4, np.uint32), 2), "a sum of 4 numbers of uint32; expected 3 of uint32"),
        (lambda: TERMS.decode(np.zeros(3, np.uint64), 2), "a sum of 3 numbers of uint64"),
        (lambda: TERMS.decode(np.zeros(3, np.uint32), 4), "a sum over 4 nodes; expected 1 to 3"),
        (lambda: TERMS.decode(np.array([21, 0, 0], np.uint32), 2), "the sum of 'rows' is beyond"),
        (lambda: TERMS.decode(np.array([0, 0, 2**31], np.uint32), 2), "the sum of 'mean' is beyond"),
        (
            lambda: ArrayEncoder({"n": BoundedArray((1,), 2**30, whole=True)}, FixedPoint(32, 3)),
            "from 3 nodes do not fit in 32 bits",
        ),
    ],
)
def test_what_is_no_named_sum_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


# Means


@pytest.mark.parametrize("hundred", range(10))
def test_the_mean_is_the_plain_one_in_a_thousand_random_rounds(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        found = case(seed)
        terms = MeanEncoder(found.schema, found.base, len(found.members), found.weighting, bits=found.bits)
        sent = [terms.encode(one.params, one.examples or 0, one.labels) for one in found.updates]
        assert sum(one.cut for one in sent) == 0
        assert not any(one.weight_cut for one in sent)
        mean = terms.decode(added(terms, *sent), len(sent))
        assert mean.weight == sum(one.weight for one in sent)
        must_equal(found, mean)


def test_weights() -> None:
    assert [weight_of("agg0", examples, 3) for examples in (0, 1, 50)] == [0, 1, 1]
    assert [weight_of("agg1", examples, 3) for examples in (0, 1, 50)] == [0, 1, 50]
    assert [weight_of("agg2", examples, 3) for examples in (0, 1, 50)] == [0, 3, 150]


BASE = params(w=[1.0, -3.0], empty=np.zeros((0, 3), np.float32))


def mean_terms(**options: Any) -> MeanEncoder:
    return MeanEncoder(Schema.of(BASE), BASE, 3, **options)


def moved(*change: float) -> Mapping[str, Any]:
    return {**BASE, "w": BASE["w"] + np.asarray(change, np.float32)}


def test_a_weight_above_the_cap_is_cut_and_told() -> None:
    terms = mean_terms(cap=100)
    many, few = terms.encode(moved(1, 1), 1000), terms.encode(moved(0, 0), 100)
    assert (many.weight, many.weight_cut, few.weight, few.weight_cut) == (100, True, 100, False)
    assert terms.decode(many.numbers + few.numbers, 2).params["w"] == pytest.approx([1.5, -2.5])


def test_changes_beyond_the_bound_are_cut_before_they_are_weighted() -> None:
    terms = mean_terms(bits=64)
    assert terms.bounds["w"] == 3 * CLIP
    sent = terms.encode(moved(100, -1), 5)
    assert sent.cut == 1
    assert terms.decode(sent.numbers, 1).params["w"] == pytest.approx([25, -4])


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("seed", range(10))
def test_updates_that_agree_and_were_shortened_to_a_norm_make_a_mean_of_this_norm(bits: Bits, seed: int) -> None:
    """Rounding makes the mean a little longer than each of them, half of the time."""
    chance = np.random.default_rng(seed)
    base = Params({"w": chance.normal(size=500).astype(np.float32)})
    moved = Params({"w": base["w"] + chance.normal(size=500).astype(np.float32)})
    schema = Schema.of(base)
    shortened = clipped(base, moved, schema, 1.0)
    terms = MeanEncoder(schema, base, 4, bits=bits)
    sent = terms.encode(shortened, 60_000).numbers
    total = sent + sent + sent + sent
    assert terms.decode(total, 4, most_norm=1.0).norm == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match=r"at most 0\.95"):
        terms.decode(total, 4, most_norm=0.95)


def test_the_norm_leaves_out_buffers() -> None:
    base = params(w=[0.0, 0.0], running=[0.0])
    terms = MeanEncoder(Schema.of(base, buffers=["running"]), base, 2, bits=64)
    sent = terms.encode({"w": np.array([3, -4], np.float32), "running": np.ones(1, np.float32)}, 10)
    assert terms.decode(sent.numbers, 1).norm == pytest.approx(5)
    with pytest.raises(ValueError, match=re.escape("length 5; at most 4.9 is accepted")):
        terms.decode(sent.numbers, 1, most_norm=4.9)


def test_whole_numbers_and_truth_values_get_the_rounded_mean_of_their_changes() -> None:
    base = Params(
        {"batches": np.array([1000, 7]), "seen": np.array([False, True]), "small": np.array([250], np.uint8)}
    )
    terms = MeanEncoder(Schema.of(base), base, 2, cap=100)
    one = {"batches": np.array([1010, 7]), "seen": np.array([True, True]), "small": np.array([255], np.uint8)}
    two = {"batches": np.array([1040, 9]), "seen": np.array([False, True]), "small": np.array([255], np.uint8)}
    mean = terms.decode(terms.encode(one, 90).numbers + terms.encode(two, 30).numbers, 2).params
    assert mean["batches"].tolist() == [1018, 8] or mean["batches"].tolist() == [1018, 7]  # 7.5
    assert mean["seen"].tolist() == [True, True]
    assert mean["small"].tolist() == [255]
    assert Schema.of(mean) == Schema.of(base)


def test_large_numbers_stay_finite() -> None:
    """Rounding takes the mean beyond the largest float32."""
    most = float(np.finfo(np.float32).max)
    step = 8 * most / FixedPoint(32, 1000).unit
    base = params(w=[most - 0.6 * step, -most, 0.0])
    terms = MeanEncoder(Schema.of(base), base, 1000, "agg0")
    sent = terms.encode({"w": np.array([most, -most, most], np.float32)}, 1)
    mean = terms.decode(sent.numbers, 1).params["w"]
    assert mean[:2].tolist() == [np.float32(most), np.float32(-most)]
    assert mean[2] == pytest.approx(most, rel=1e-4)


def test_equal_sums_give_equal_bits_whoever_made_them() -> None:
    terms = mean_terms()
    sent = [terms.encode(moved(0.1 * step, -0.3), 7 * step + 1).numbers for step in range(3)]
    there, back = sent[0] + sent[1] + sent[2], sent[2] + sent[1] + sent[0]
    assert terms.decode(there, 3).params.digest == mean_terms().decode(back, 3).params.digest


def test_a_model_without_arrays_has_a_weight() -> None:
    terms = MeanEncoder(Schema.of({}), {}, 2)
    assert terms.size == 1
    assert terms.decode(terms.encode({}, 4).numbers, 1).weight == 4


@pytest.mark.parametrize("weighting", WEIGHT_CAPS)
def test_without_examples_there_is_no_mean(weighting: Any) -> None:
    terms = mean_terms(weighting=weighting)
    with pytest.raises(ValueError, match="nobody has examples"):
        terms.decode(added(terms, terms.encode(moved(1, 2), 0), terms.encode(moved(3, 4), 0)), 2)


def test_what_honest_nodes_cannot_send_is_refused() -> None:
    terms = mean_terms()
    sent = terms.encode(moved(1, 1), 10).numbers
    for place, wrong in ((0, 2**31), (0, 3 * terms.cap), (1, 2**30), (2, 2**31)):
        total = sent.copy()
        total[place] = wrong
        with pytest.raises(ValueError, match="one of them did not send its update"):
            terms.decode(total, 2)
    with pytest.raises(ValueError, match="a sum of 2 numbers of uint32; expected 3"):
        terms.decode(sent[:2], 2)
    with pytest.raises(ValueError, match="a sum over 0 nodes"):
        terms.decode(sent, 0)


def test_masks_that_do_not_cancel_are_noticed() -> None:
    """A sum of noise has an absurd weight or absurd changes."""
    terms, chance = mean_terms(), np.random.default_rng(8)
    for _ in range(100):
        with pytest.raises(ValueError, match="one of them did not send its update"):
            terms.decode(chance.integers(0, 2**32, terms.size, np.uint32), 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mean_terms(cap=2**30), "weights up to 1073741824 from 3 nodes do not fit in 32 bits"),
        (lambda: mean_terms(cap=0), "weights up to 0 from 3 nodes"),
        (lambda: mean_terms().encode(moved(1, 1), -1), "a weight of -1; expected at least 0"),
        (lambda: mean_terms().encode(moved(math.nan, 1), 1), "not finite cannot go into a sum"),
        (lambda: mean_terms(clip=0.0).encode(moved(1, 1), 1), "a bound of 0.0"),
    ],
)
def test_a_wrong_mean_is_refused_in_words(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


# Other statistics


def test_pooled_counts_of_fed_mt_go_through_the_mean() -> None:
    """They are arrays of the model that agg0 averages: parts of a node's rows, and whether it counted."""
    rows, counts = 1000, [np.array([[40, 2], [1, 60]]), np.array([[300, 10], [20, 500]])]
    base = Params(
        {POOLED: np.zeros((2, 2), np.float32), **dict.fromkeys((POOLING, JOINED), np.zeros(1, np.float32))}
    )
    terms = MeanEncoder(Schema.of(base), base, 3, "agg0")
    updates = [{POOLED: (some / rows).astype(np.float32), POOLING: np.ones(1, np.float32)} for some in counts]
    joined = [np.ones(1, np.float32), np.zeros(1, np.float32)]
    sent = [terms.encode({**one, JOINED: there}, 5) for one, there in zip(updates, joined, strict=True)]
    mean = terms.decode(added(terms, *sent, terms.encode(base, 5)), 3).params  # the third node counts nothing
    pooled = np.rint(mean[POOLED].astype(float) / float(mean[POOLING][0]) * rows).astype(int)
    assert pooled.tolist() == ((counts[0] + counts[1]) / 2).astype(int).tolist()
    assert Estimate(pooled).matrix.sum(axis=0) == pytest.approx([1, 1])
    assert mean[JOINED][0] > 0  # one node that joined is enough for all
