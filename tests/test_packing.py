"""Fewer bytes without loss: what is packed comes back bit by bit, and all else is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.packing import MIN_NUMBERS, Encoding, is_packable, is_scale, packed, rounded, widened
from flnet.params import Array

N = MIN_NUMBERS
NARROW: list[Encoding] = ["float16", "int8"]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def spread(values: list[float], dtype: Any = np.float32) -> Array:
    """An array that is large enough to be packed, of these numbers and zeros."""
    array = np.zeros(N, dtype)
    array[: len(values)] = values
    return array


def same_bits(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


# --- worked by hand


def test_int8_by_hand() -> None:
    # max|x| = 63.5, so the scale is 63.5 / 127 = 0.5: 1.3 is 2.6 steps, 3 when rounded.
    low = rounded(spread([63.5, 1.3, -1.3, 0.2, -63.5]), "int8")
    assert low is not None
    assert low[:6].tolist() == [63.5, 1.5, -1.5, 0.0, -63.5, 0.0]
    found = packed(low, "int8")
    assert found is not None
    stored, scale = found
    assert scale == 0.5
    assert stored.dtype == np.int8
    assert stored[:6].tolist() == [127, 3, -3, 0, -127, 0]


def test_the_scale_is_rounded_up_to_sixteen_bits() -> None:
    # 1 / 127 in binary is 2^-6 * 0.100000010000001 0000001...: in 16 bits 33027 / 2^22 after rounding up.
    low = rounded(spread([1.0]), "int8")
    assert low is not None
    found = packed(low, "int8")
    assert found is not None
    assert found[1] == 33027 / 2**22
    assert 1 / 127 <= found[1] < 1 / 127 * (1 + 2.0**-15)
    assert low[0] == 127 * found[1]


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
@settings(max_examples=60, deadline=None)
def test_what_was_rounded_is_packed_and_comes_back_bit_by_bit(encoding: Encoding, array: Array) -> None:
    low = rounded(array, encoding)
    if low is None:
        largest = np.abs(array).max()
        assert not 2.0**-100 <= largest <= (65504 if encoding == "float16" else 2.0**127) or largest == 0
        return
    assert (low.shape, low.dtype) == (array.shape, array.dtype)
    found = packed(low, encoding)
    assert found is not None
    stored, scale = found
    assert stored.nbytes == array.size * (2 if encoding == "float16" else 1)
    assert is_scale(scale, stored.dtype)
    assert same_bits(widened(stored, scale, array.dtype), low)
    again = rounded(low, encoding)
    assert again is not None
    assert same_bits(again, low)
    limit = np.maximum(np.abs(array) * 2.0**-11, 2.0**-25) if encoding == "float16" else scale * (0.5 + 1e-4)
    assert (np.abs(low.astype(np.float64) - array) <= limit).all()


@pytest.mark.parametrize("encoding", NARROW)
@given(array=arrays())
@settings(max_examples=60, deadline=None)
def test_what_is_packed_comes_back_bit_by_bit_rounded_or_not(encoding: Encoding, array: Array) -> None:
    found = packed(array, encoding)
    assert found is None or same_bits(widened(*found, array.dtype), array)


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_are_packed_with_the_scale_one(encoding: Encoding, dtype: Any) -> None:
    found = packed(np.zeros(N, dtype), encoding)
    assert found is not None
    assert found[1] == 1.0
    assert not found[0].any()


def test_a_zero_with_a_sign_is_not_lost_unless_it_is_rounded() -> None:
    signed = spread([-0.0])
    assert packed(signed, "int8") is None
    low = rounded(signed, "int8")
    assert low is not None
    assert not np.signbit(low).any()
    assert packed(signed, "float16") is not None
    kept = rounded(signed, "float16")
    assert kept is not None
    assert np.signbit(kept[0])


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays(encoding: Encoding, wrong: float) -> None:
    assert rounded(spread([1.0, wrong]), encoding) is None
    assert packed(spread([1.0, wrong]), encoding) is None


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(N - 1, np.float32),
        np.zeros(N, np.float16),
        np.zeros(N, ">f4"),
        np.zeros(N, np.int64),
        np.zeros(N, np.bool_),
        np.zeros((0, N), np.float32),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_small_arrays_and_all_but_wide_floats_stay(array: Array) -> None:
    assert not is_packable(array)
    for encoding in NARROW:
        assert packed(array, encoding) is None
        assert rounded(array, encoding) is None


def test_float32_packs_nothing() -> None:
    assert packed(np.zeros(N, np.float32), "float32") is None
    assert rounded(np.zeros(N, np.float32), "float32") is None


@pytest.mark.parametrize("largest", [2.0**-101, 1e-45, 1.8e38])
def test_numbers_at_the_edges_of_float32_stay(largest: float) -> None:
    assert rounded(spread([largest]), "int8") is None


def test_a_number_in_the_last_block_alone_is_enough_not_to_pack() -> None:
    low = rounded(np.random.default_rng(0).standard_normal(200_000).astype(np.float32), "int8")
    assert low is not None
    low[-1] = np.nextafter(low[-1], np.float32(9))
    assert packed(low, "int8") is None


# --- scales of others


@pytest.mark.parametrize("scale", [1.0, 0.5, 33027 / 2**22, 2.0**-100 * 65535 / 65536, 2.0**120])
def test_scales_that_packing_gives(scale: float) -> None:
    assert is_scale(scale, np.dtype(np.int8))


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, np.nan, np.inf, 1e-45, 2.0**-108, 2.0**121, 1 / 127, 1 + 2.0**-16, 10**400]
)
def test_scales_that_packing_never_gives(scale: float) -> None:
    assert not is_scale(scale, np.dtype(np.int8))
    assert not is_scale(scale, np.dtype(np.float16))


def test_float16_has_the_scale_one_and_other_dtypes_have_none() -> None:
    assert is_scale(1.0, np.dtype(np.float16))
    assert not is_scale(0.5, np.dtype(np.float16))
    assert not is_scale(1.0, F32)


@given(st.integers(2**15, 2**16 - 1), st.integers(-107, 120))
@settings(deadline=None)
def test_every_scale_is_exact_for_every_number_of_int8(mantissa: int, exponent: int) -> None:
    scale = mantissa * 2.0 ** (exponent - 15)
    if not is_scale(scale, np.dtype(np.int8)):
        return
    q = np.arange(-128, 128, dtype=np.int8)
    exact = q.astype(np.float64) * scale
    assert np.array_equal(widened(q, scale, F32).astype(np.float64), exact)
    assert np.array_equal(widened(q, scale, F64), exact)
