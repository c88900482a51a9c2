"""float16 and float32 by their bits: the same as numpy's own conversion, for every float16 and any float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.halves import ROWS, narrow, same_bits, widen

EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS = EVERY[np.isfinite(EVERY)]


def narrowed(*numbers: float) -> np.ndarray | None:
    wide = np.array(numbers, np.float32)
    out = np.empty(wide.shape, np.float16)
    return out if narrow(wide, out, np.empty((ROWS, wide.size + 3), np.int32)) else None


def widened(halves: np.ndarray) -> np.ndarray:
    out = np.empty(halves.shape, np.float32)
    widen(halves, out)
    return out


def test_one_and_its_neighbours_by_hand() -> None:
    assert narrowed(1.0, -2.0, 65504.0, 2.0**-24).view(np.uint16).tolist() == [0x3C00, 0xC000, 0x7BFF, 0x0001]  # type: ignore[union-attr]
    halves = np.array([0x3C00, 0xC000, 0x7BFF, 0x0001], np.uint16).view(np.float16)
    assert widened(halves).tolist() == [1.0, -2.0, 65504.0, 2.0**-24]


@pytest.mark.parametrize("size", [1, 1000, len(NUMBERS)])
def test_every_number_of_float16_goes_there_and_back(size: int) -> None:
    halves = NUMBERS[-size:]
    wide = halves.astype(np.float32)
    assert same_bits(widened(halves), wide)
    out = np.empty(size, np.float16)
    assert narrow(wide, out, np.empty((ROWS, size), np.int32))
    assert same_bits(out, halves)


def test_what_is_no_number_becomes_what_numpy_makes_of_it() -> None:
    with np.errstate(invalid="ignore"):
        expected = EVERY.astype(np.float32)
    np.testing.assert_array_equal(widened(EVERY), expected)
    np.testing.assert_array_equal(widened(EVERY.astype(EVERY.dtype.newbyteorder())), expected)


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
    found = narrowed(*numbers)
    assert (found is not None) == exact
    if found is not None:
        assert same_bits(found, halves)


def test_nothing_is_narrowed_and_widened_too() -> None:
    assert narrowed() is not None
    assert widened(NUMBERS[:0]).size == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bits_are_compared_not_values(dtype: type[np.floating]) -> None:
    zeros = np.zeros(4, dtype)
    assert same_bits(zeros, zeros.copy())
    assert not same_bits(zeros, -zeros)
    assert not same_bits(zeros[:3], -zeros[:3])
