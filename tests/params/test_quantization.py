"""Fewer bytes without loss: what is packed comes back bit by bit, and all else is left alone."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flnet.params.params import Array, Params
from flnet.params.quantization import (
    BLOCK,
    MIN_NUMBERS,
    PIECE,
    ROWS,
    Encoding,
    StoredVector,
    are_scales,
    count_blocks,
    is_packable,
    is_scale,
    lowered,
    narrow,
    packed,
    room_for,
    rounded,
    same_bits,
    widen,
    widened,
)

N = MIN_NUMBERS
SCALES_OF_ZEROS = [33027 * 2.0**-122] * (N // BLOCK - 1)  # 2^-100 / 127, rounded up
INT8: list[Encoding] = ["int8", "int8-blocks"]
NARROW: list[Encoding] = ["float16", *INT8]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def spread(values: list[float], dtype: Any = np.float32) -> Array:
    """An array that is large enough to be packed, of these numbers and zeros."""
    array = np.zeros(N, dtype)
    array[: len(values)] = values
    return array


def equal_arrays(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


# --- worked by hand


@pytest.mark.parametrize(("encoding", "other_scales"), [("int8", []), ("int8-blocks", SCALES_OF_ZEROS)])
def test_int8_by_hand(encoding: Encoding, other_scales: list[float]) -> None:
    # max|x| = 63.5, so the scale is 63.5 / 127 = 0.5: 1.3 is 2.6 steps, 3 when rounded.
    low = rounded(spread([63.5, 1.3, -1.3, 0.2, -63.5]), encoding)
    assert low is not None
    assert low[:6].tolist() == [63.5, 1.5, -1.5, 0.0, -63.5, 0.0]
    result = packed(low, encoding)
    assert result is not None
    stored, scales = result
    assert scales.tolist() == [0.5, *other_scales]
    assert stored.dtype == np.int8
    assert stored[:6].tolist() == [127, 3, -3, 0, -127, 0]


@pytest.mark.parametrize("encoding", INT8)
def test_the_scale_is_rounded_up_to_sixteen_bits(encoding: Encoding) -> None:
    # 1 / 127 in binary is 2^-6 * 0.100000010000001 0000001...: in 16 bits 33027 / 2^22 after rounding up.
    low = rounded(spread([1.0]), encoding)
    assert low is not None
    result = packed(low, encoding)
    assert result is not None
    scale = float(result[1][0])
    assert scale == 33027 / 2**22
    assert 1 / 127 <= scale < 1 / 127 * (1 + 2.0**-15)
    assert low[0] == 127 * scale


def test_float16_by_hand() -> None:
    # Between 2048 and 4096 the step of float16 is 2; below 2^-14 it is 2^-24; ties go to the even neighbour.
    low = rounded(spread([2049.0, 2051.0, 1.0 + 2**-11, 2**-25 * 3.0, 65504.0]), "float16")
    assert low is not None
    assert low[:5].tolist() == [2048.0, 2052.0, 1.0, 2**-23, 65504.0]


def test_what_float16_cannot_reach_stays() -> None:
    assert rounded(spread([65505.0]), "float16") is None
    assert packed(spread([65536.0]), "float16") is None
    assert rounded(spread([65505.0]), "int8") is not None


# --- what is packed comes back, and all else is left alone


numbers = {
    F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    F64: st.floats(width=64, allow_nan=False, allow_infinity=False),
}
scales = st.sampled_from([1e-44, 1e-38, 1e-30, 1e-6, 1e-3, 1.0, 1e4, 1e20, 1e38])


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """All sizes of numbers: spread around one size, a few of them arbitrary, both widths."""
    dtype: np.dtype[Any] = draw(st.sampled_from([F32, F64]))
    seed, size = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([N, N + 1, 70_000]))
    with np.errstate(over="ignore"):
        array = (np.random.default_rng(seed).standard_normal(size) * draw(scales)).astype(dtype)
    some = draw(st.lists(numbers[dtype], max_size=4))
    array[: len(some)] = some
    return array.reshape(draw(st.sampled_from([(size,), (1, size)])))


@pytest.mark.parametrize("encoding", NARROW)
@given(array=arrays())
@settings(max_examples=60)
def test_what_was_rounded_is_packed_and_comes_back_bit_by_bit(encoding: Encoding, array: Array) -> None:
    low = rounded(array, encoding)
    if low is None:
        assert not np.abs(array).max() <= (65504 if encoding == "float16" else 2.0**127)
        return
    assert (low.shape, low.dtype) == (array.shape, array.dtype)
    result = packed(low, encoding)
    assert result is not None
    stored, scales = result
    assert stored.nbytes == array.size * (2 if encoding == "float16" else 1)
    assert scales.size == {"float16": 0, "int8": 1}.get(encoding, count_blocks(array.size))
    assert are_scales(scales)
    assert equal_arrays(widened(stored, scales, array.dtype), low)
    again = rounded(low, encoding)
    assert again is not None
    assert equal_arrays(again, low)
    if encoding == "float16":
        limit = np.maximum(np.abs(array) * 2.0**-11, 2.0**-25)
    else:
        numbers_each = array.size if encoding == "int8" else BLOCK
        limit = scales.astype(np.float64).repeat(numbers_each)[: array.size] * (0.5 + 1e-4)
    assert (np.abs(low.astype(np.float64) - array) <= limit).all()


@pytest.mark.parametrize("encoding", NARROW)
@given(array=arrays())
@settings(max_examples=60)
def test_what_is_packed_comes_back_bit_by_bit_rounded_or_not(encoding: Encoding, array: Array) -> None:
    result = packed(array, encoding)
    assert result is None or equal_arrays(widened(*result, array.dtype), array)


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_are_packed(encoding: Encoding, dtype: Any) -> None:
    result = packed(np.zeros(N, dtype), encoding)
    assert result is not None
    assert not result[0].any()
    assert equal_arrays(widened(*result, np.dtype(dtype)), np.zeros(N, dtype))


def test_a_zero_with_a_sign_is_not_lost_unless_it_is_rounded() -> None:
    signed = spread([-0.0])
    for encoding in INT8:
        assert packed(signed, encoding) is None
        low = rounded(signed, encoding)
        assert low is not None
        assert not np.signbit(low).any()
    assert packed(signed, "float16") is not None
    kept = rounded(signed, "float16")
    assert kept is not None
    assert np.signbit(kept[0])


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_for_others_to_refuse(encoding: Encoding, wrong: float) -> None:
    assert rounded(spread([1.0, wrong]), encoding) is None
    assert packed(spread([1.0, wrong]), encoding) is None
    for residual in (None, w(0.25)):
        assert lowered(w(1.3, wrong), residual, encoding) == (w(1.3, wrong), NONE)


@pytest.mark.parametrize(
    "array",
    [
        np.full(N - 1, 0.1, np.float32),
        np.full(N, 0.1, np.float16),
        np.full(N, 0.1, ">f4"),
        np.full(N, 7, np.int64),
        np.full(N, True),
        np.array(0.1, np.float32),
        np.zeros((0, N), np.float32),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_small_arrays_and_all_but_wide_floats_stay(array: Array) -> None:
    assert not is_packable(array)
    for encoding in NARROW:
        assert packed(array, encoding) is None
        assert rounded(array, encoding) is None
        if array.dtype.isnative:
            for residual in (None, Params({"w": np.ones_like(array)})):
                assert lowered(Params({"w": array}), residual, encoding) == (Params({"w": array}), NONE)


@pytest.mark.parametrize("encoding", INT8)
@pytest.mark.parametrize("largest", [1.8e38, 3e38])
def test_numbers_at_the_edge_of_float32_stay(largest: float, encoding: Encoding) -> None:
    assert rounded(spread([largest]), encoding) is None
    assert rounded(spread([float(2.0**127)]), encoding) is not None
    assert rounded(spread([1e300], np.float64), encoding) is None


@pytest.mark.parametrize("encoding", INT8)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_numbers_are_rounded_to_steps_that_float32_has(dtype: Any, encoding: Encoding) -> None:
    step = SCALES_OF_ZEROS[0]
    low = rounded(spread([2.0**-101, 1.6 * step, 1e-45, -1e-45], dtype), encoding)
    assert low is not None
    assert (low[:4] / dtype(step)).tolist() == [63.0, 2.0, 0.0, 0.0]
    assert not np.signbit(low[2:4]).any()


@pytest.mark.parametrize("encoding", INT8)
def test_a_number_in_the_last_block_alone_is_enough_not_to_pack(encoding: Encoding) -> None:
    low = rounded(np.random.default_rng(0).standard_normal(200_000).astype(np.float32), encoding)
    assert low is not None
    low[-1] = np.nextafter(low[-1], np.float32(9))
    assert packed(low, encoding) is None


# --- scales of others


def test_scales_that_packing_gives() -> None:
    for scale in (1.0, 0.5, 33027 / 2**22, 2.0**-100 * 65535 / 65536, 2.0**120):
        assert is_scale(scale, np.dtype(np.int8))
    for wrong in (0.0, -1.0, np.nan, np.inf, 1e-45, 2.0**-108, 2.0**121, 1 / 127, 1 + 2.0**-16, 10**400):
        assert not is_scale(wrong, np.dtype(np.int8))
        assert not is_scale(wrong, np.dtype(np.float16))
    assert is_scale(1.0, np.dtype(np.float16)) and not is_scale(0.5, np.dtype(np.float16))
    assert not is_scale(1.0, F32)  # a dtype without a scale


@given(st.integers(0, 2**32 - 1))
@example(0x7F800001)  # not a number, of the signalling kind
@example(0x80000000)
@example(0xBF800000)
def test_scales_of_blocks_are_those_that_may_stand_alone(bits: int) -> None:
    scales = np.array([0x3F800000, bits, bits & ~0xFF], np.uint32).view(np.float32)
    for scale in scales:
        assert are_scales(np.array([scale])) == is_scale(float(scale), np.dtype(np.int8))
    assert are_scales(scales) == are_scales(scales[1:2])


@given(st.integers(2**15, 2**16 - 1), st.integers(-107, 120))
def test_every_scale_is_exact_for_every_number_of_int8(mantissa: int, exponent: int) -> None:
    scale = mantissa * 2.0 ** (exponent - 15)
    if not is_scale(scale, np.dtype(np.int8)):
        return
    q = np.arange(-128, 128, dtype=np.int8)
    exact = q.astype(np.float64) * scale
    scales = np.array([scale], np.float32)
    assert np.array_equal(widened(q, scales, F32).astype(np.float64), exact)
    assert np.array_equal(widened(q, scales, F64), exact)


# float16 and float32 by their bits: the same as numpy's own conversion, for every float16 and any float32.


EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS = EVERY[np.isfinite(EVERY)]


def narrowed(*numbers: float) -> np.ndarray | None:
    wide = np.array(numbers, np.float32)
    out = np.empty(wide.shape, np.float16)
    return out if narrow(wide, out, np.empty((ROWS, wide.size + 3), np.int32)) else None


def as_float32(halves: np.ndarray) -> np.ndarray:
    out = np.empty(halves.shape, np.float32)
    widen(halves, out)
    return out


@pytest.mark.parametrize("size", [1, 1000, len(NUMBERS)])
def test_every_number_of_float16_goes_there_and_back(size: int) -> None:
    halves = NUMBERS[-size:]
    wide = halves.astype(np.float32)
    assert same_bits(as_float32(halves), wide)
    out = np.empty(size, np.float16)
    assert narrow(wide, out, np.empty((ROWS, size), np.int32))
    assert same_bits(out, halves)


def test_what_is_no_number_becomes_what_numpy_makes_of_it() -> None:
    with np.errstate(invalid="ignore"):
        expected = EVERY.astype(np.float32)
    np.testing.assert_array_equal(as_float32(EVERY), expected)
    np.testing.assert_array_equal(as_float32(EVERY.astype(EVERY.dtype.newbyteorder())), expected)


@given(st.lists(st.floats(width=32) | st.floats(width=16), min_size=1, max_size=5))
@example([65536.0])  # of the first exponent beyond: by its bits alone it would be infinite
@example([-131008.0, 1.0])
@example([2.0**-25])
@example([2.0**-149, 0.0])
@example([float("inf")])
@example([float("nan")])
@example([-0.0])
def test_numbers_are_narrowed_where_all_of_them_are_float16_and_finite(numbers: list[float]) -> None:
    wide = np.array(numbers, np.float32)
    with np.errstate(over="ignore"):
        halves = wide.astype(np.float16)
    exact = bool(np.isfinite(halves).all()) and same_bits(halves.astype(np.float32), wide)
    result = narrowed(*numbers)
    assert (result is not None) == exact
    if result is not None:
        assert same_bits(result, halves)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bits_are_compared_not_values(dtype: type[np.floating]) -> None:
    zeros = np.zeros(4, dtype)
    assert same_bits(zeros, zeros.copy())
    assert not same_bits(zeros, -zeros)
    assert not same_bits(zeros[:3], -zeros[:3])


# Vectors kept with a byte for each number: how far off they are, and that every node keeps the same bytes.


def kept(vector: Array, blocks: int = PIECE, *, coarse: bool = True) -> StoredVector:
    """The vector, written in blocks of this size."""
    result = room_for(vector.size, vector.dtype, coarse=coarse)
    for start in range(0, vector.size, blocks):
        result.write(start, vector[start : start + blocks])
    return result


def read(one: StoredVector, blocks: int = PIECE) -> Array:
    return np.concatenate(
        [
            one.read(start, np.empty(min(blocks, one.size - start), np.float32)).copy()
            for start in range(0, one.size, blocks)
        ]
    )


def test_by_hand() -> None:
    one = kept(np.array([127.0, -63.4, 0.6, 0.0], np.float32))
    assert one.numbers.tolist() == [127, -63, 1, 0]
    assert one.scales is not None and one.scales.tolist() == [1.0]
    assert read(one).tolist() == [127, -63, 1, 0]


@pytest.mark.parametrize("size", [1, PIECE, PIECE + 1, 3 * PIECE - 7])
def test_each_piece_has_its_own_scale_and_is_off_by_half_a_step_at_most(size: int) -> None:
    vector = np.random.default_rng(size).normal(size=size).astype("float32")
    vector[:PIECE] *= 1000
    one = kept(vector)
    assert one.numbers.dtype == "int8" and one.size == size
    for start in range(0, size, PIECE):
        piece = vector[start : start + PIECE]
        off = np.abs(read(one)[start : start + PIECE] - piece)
        assert off.max() <= np.abs(piece).max() / 127 * 0.5001


def test_the_size_of_blocks_changes_no_byte() -> None:
    vector = np.random.default_rng(4).normal(size=5 * PIECE + 3).astype("float32")
    one, other = kept(vector), kept(vector, 4 * PIECE)
    assert one.scales is not None and other.scales is not None
    assert one.numbers.tobytes() + one.scales.tobytes() == other.numbers.tobytes() + other.scales.tobytes()
    np.testing.assert_array_equal(read(one), read(other, 2 * PIECE))


def test_bytes_are_the_same_everywhere() -> None:
    """Of numbers that need no generator; a processor or library that rounds otherwise shows here."""
    numbers = np.arange(-5000, 5000, dtype=np.float32)
    vector = numbers * numbers / np.float32(7e5) * numbers
    one = kept(vector)
    assert one.scales is not None
    result = hashlib.sha256(one.numbers.tobytes() + one.scales.tobytes()).hexdigest()
    assert result == "dc05d454975d1e2c800c1fba684d720ef638d592b26a91e39a2e7fed30a75848"


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_what_is_no_number_or_far_too_large_stays_far(wild: float) -> None:
    vector = np.zeros(PIECE + 2, np.float32)
    vector[1], vector[-1] = wild, 1.0
    result = read(kept(vector))
    assert np.isfinite(result).all()
    assert abs(result[1]) == pytest.approx(1e38, rel=0.01)
    assert result[-1] == 1.0  # in another piece


def test_nothing_and_next_to_nothing_are_0() -> None:
    assert read(kept(np.array([0.0, 1e-38, -1e-31], np.float32))).tolist() == [0, 0, 0]


def test_small_vectors_are_kept_as_they_are() -> None:
    vector = np.array([1.0, 1e-300, 3.3])
    one = kept(vector, coarse=False)
    assert one.scales is None
    assert one.read(0, np.empty(3)).tolist() == vector.tolist()


# Rounding an update, and giving back next time what it took away.

NONE = Params()


def w(*values: float, dtype: Any = np.float32) -> Params:
    """One array that is large enough: these numbers, then zeros."""
    return Params({"w": np.concatenate([np.asarray(values, dtype), np.zeros(N - len(values), dtype)])})


def first(params: Params, count: int = 2) -> list[float]:
    result: list[float] = params["w"][:count].tolist()
    return result


# --- by hand: max|x| = 63.5 makes the step of int8 63.5 / 127 = 0.5


def test_what_was_lost_is_sent_next_time() -> None:
    # 1.25 is 2.5 steps, rounded to 2 (even): 0.25 is lost. 1.25 + 0.25 is 3 steps, and nothing is lost.
    sent, lost = lowered(w(63.5, 1.25), None, "int8")
    assert first(sent) == [63.5, 1.0]
    assert first(lost) == [0.0, 0.25]
    sent, lost = lowered(w(63.5, 1.25), lost, "int8")
    assert first(sent) == [63.5, 1.5]
    assert first(lost) == [0.0, 0.0]


def test_a_small_constant_gain_arrives_only_with_what_was_lost() -> None:
    gain = w(63.5, 0.0625)  # an eighth of a step
    with_feedback = without = 0.0
    residual: Params | None = None
    for _ in range(48):
        sent, residual = lowered(gain, residual, "int8")
        with_feedback += first(sent)[1]
        without += first(lowered(gain, None, "int8")[0])[1]
    assert without == 0.0
    assert with_feedback == 48 * 0.0625


# --- over many rounds


@pytest.mark.parametrize("encoding", NARROW)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1e-6, 1e-2, 1.0, 1e3]), drift=st.floats(-1, 1))
@settings(max_examples=20)
def test_the_mean_of_what_was_sent_is_the_mean_of_the_truth(
    encoding: Encoding, seed: int, size: float, drift: float
) -> None:
    rng = np.random.default_rng(seed)
    rounds, residual = 50, None
    sent_sum, true_sum, step = np.zeros(N), np.zeros(N), 0.0
    for _ in range(rounds):
        truth = (size * (drift + 0.1 * rng.standard_normal(N))).astype(np.float32)
        sent, residual = lowered(Params({"w": truth}), residual, encoding)
        sent_sum += sent["w"]
        true_sum += truth
        largest = float(np.abs(sent["w"]).max())
        step = max(step, largest / 127 if encoding != "float16" else max(largest * 2.0**-10, 2.0**-24))
    # Telescoping: the sums differ by what is owed at the end, at most half a step, and float32's own rounding.
    assert np.abs(sent_sum - true_sum).max() <= 0.55 * step
    assert np.abs(sent_sum / rounds - true_sum / rounds).max() <= step / rounds
    assert residual is not None
    assert np.abs(true_sum - sent_sum - residual["w"]).max() <= 0.02 * step


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sent_and_lost_are_the_whole(encoding: Encoding, dtype: Any) -> None:
    array = np.random.default_rng(0).standard_normal((N, 70)).astype(dtype)
    sent, lost = lowered(Params({"w": array}), None, encoding)
    assert (lost["w"].dtype, lost["w"].shape) == (array.dtype, array.shape)
    assert np.array_equal(sent["w"] + lost["w"], array)
    assert lost["w"].any()
    assert packed(sent["w"], encoding) is not None


# --- what is not rounded


def test_what_is_beyond_float16_is_sent_whole_with_what_was_owed() -> None:
    assert lowered(w(70_000.0, 0.1), w(0.0, 0.25), "float16") == (
        w(70_000.0, 0.1 + 0.25),
        NONE,
    )


@pytest.mark.parametrize("encoding", NARROW)
def test_denormals_are_owed(encoding: Encoding) -> None:
    tiny = w(1e-40, -1e-42)
    sent, lost = lowered(tiny, None, encoding)
    assert not sent["w"].any()
    assert lost == tiny


def test_float32_rounds_nothing_and_pays_what_is_owed() -> None:
    assert lowered(w(1.3, 0.5), None, "float32") == (w(1.3, 0.5), NONE)
    assert lowered(w(1.25, 0.5), w(0.25), "float32") == (w(1.5, 0.5), NONE)
    same = w(1.3)
    assert np.shares_memory(lowered(same, None, "float32")[0]["w"], same["w"])


# --- the debt of another model


@pytest.mark.parametrize(
    "residual",
    [
        Params({"v": np.ones(N, np.float32)}),
        Params({"w": np.ones(N + 1, np.float32)}),
        Params({"w": np.ones((1, N), np.float32)}),
        Params({"w": np.ones(1, np.float32)}),
        Params({"w": np.ones(N, np.float64)}),
        NONE,
    ],
    ids=repr,
)
def test_what_is_owed_to_another_model_is_forgotten(residual: Params) -> None:
    assert lowered(w(63.5, 1.3), residual, "int8") == lowered(w(63.5, 1.3), None, "int8")


def test_arrays_keep_their_order_and_each_has_its_own_step() -> None:
    update = Params({"z": w(63.5, 1.25)["w"], "a": w(127.0, 1.25)["w"], "b": np.ones(3, np.float32)})
    sent, lost = lowered(update, None, "int8")
    assert list(sent) == ["z", "a", "b"]
    assert (sent["z"][1], sent["a"][1]) == (1.0, 1.0)
    assert (lost["z"][1], lost["a"][1]) == (0.25, 0.25)
    assert lowered(update, Params({"a": lost["a"]}), "int8")[0]["a"][1] == 2.0
    assert list(lost) == ["z", "a"]
