"""Floats in fewer bytes: float16, or int8 with one scale for an array.

Packing never loses anything: an array whose numbers are not exactly representable in fewer bytes stays as it
is. What rounds an array to such numbers is `rounded`, and nothing else does. The scale of int8 is max|x| / 127,
rounded up to 16 significant bits, so that every q * scale with |q| <= 127 is exact in float32, and the scale is
found again from the largest of the rounded numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from flnet.halves import ROWS, narrow, same_bits, widen
from flnet.params import Array

Encoding = Literal["float32", "float16", "int8"]

MIN_NUMBERS = 1024  # smaller arrays stay as they are: little to save, and biases matter
_BLOCK = 131_072  # numbers; all that is computed on one block fits a core's cache
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
_STORED: dict[Encoding, np.dtype[Any]] = {"float16": np.dtype(np.float16), "int8": np.dtype(np.int8)}
_FULL = 127
_SCALE_BITS = 16  # and 7 of q: less than the 24 of float32
_LEAST, _MOST = 2.0**-100, 2.0**127  # of max|x|, so that every q * scale is a normal float32
_MOST_FLOAT16 = 65504.0


def is_packable(array: Array) -> bool:
    """Whether it is of a kind that is packed: wide floats in the processor's byte order, and enough of them."""
    return array.dtype in _WIDE and array.size >= MIN_NUMBERS


def packed(array: Array, encoding: Encoding) -> tuple[Array, float] | None:
    """The array in fewer bytes, and the scale to multiply it with; None where that would lose anything.

    Args:
        array: C-contiguous, of any shape.
    """
    if encoding == "float16" and array.dtype == np.float32 and is_packable(array):
        halves = _halves(array.reshape(-1))
        return None if halves is None else (halves.reshape(array.shape), 1.0)
    scale = _scale(array, encoding)
    if scale is None:
        return None
    flat = array.reshape(-1)
    stored = np.empty(flat.shape, _STORED[encoding])
    work = np.empty(min(flat.size, _BLOCK), flat.dtype)
    for block in _blocks(flat.size):
        there = work[: len(flat[block])]
        _store(flat[block], scale, there, stored[block])
        _widen(stored[block], scale, there)
        if not same_bits(there, flat[block]):
            return None
    return stored.reshape(array.shape), scale


def widened(stored: Array, scale: float, dtype: np.dtype[Any]) -> Array:
    """What `packed` packed, bit by bit: stored * scale in `dtype`."""
    out, flat = np.empty(stored.shape, dtype), stored.reshape(-1)
    wide = out.reshape(-1)
    for block in _blocks(flat.size):
        _widen(flat[block], scale, wide[block])
    return out


def rounded(array: Array, encoding: Encoding) -> Array | None:
    """The nearest array that `packed` packs, in the same dtype; None where the array cannot or need not be packed.

    Not packed are small arrays, all but wide floats, numbers that are not finite or too large for the encoding
    and, for int8, arrays in which all numbers are smaller than 2^-100.
    """
    scale = _scale(array, encoding)
    if scale is None:
        return None
    flat = array.reshape(-1)
    out = np.empty_like(flat)
    stored = np.empty(min(flat.size, _BLOCK), _STORED[encoding])
    for block in _blocks(flat.size):
        there = stored[: len(flat[block])]
        _store(flat[block], scale, out[block], there)
        _widen(there, scale, out[block])
    return out.reshape(array.shape)


def is_scale(scale: float, stored: np.dtype[Any]) -> bool:
    """Whether `packed` could have given this scale for arrays stored so."""
    if stored == _STORED["float16"]:
        return scale == 1
    # False for NaN; the last of the scales was rounded up.
    in_range = _LEAST / _FULL <= scale <= _MOST / _FULL * (1 + 2.0 ** (1 - _SCALE_BITS))
    return stored == _STORED["int8"] and in_range and _is_short(scale)


def _is_short(scale: float) -> bool:
    return math.ldexp(math.frexp(scale)[0], _SCALE_BITS).is_integer()


def _halves(flat: Array) -> Array | None:
    """float32 as float16, or None where that would lose anything."""
    stored, work = np.empty(flat.shape, np.float16), np.empty((ROWS, min(flat.size, _BLOCK)), np.int32)
    return stored if all(narrow(flat[block], stored[block], work) for block in _blocks(flat.size)) else None


def _scale(array: Array, encoding: Encoding) -> float | None:
    """The scale for this array, or None when it is not to be packed."""
    if encoding == "float32" or not is_packable(array):
        return None
    largest = _largest(array.reshape(-1))
    if encoding == "float16":
        return 1.0 if largest <= _MOST_FLOAT16 else None
    if largest == 0:
        return 1.0
    if not _LEAST <= largest <= _MOST:
        return None
    fraction, exponent = math.frexp(largest / _FULL)
    return math.ldexp(math.ceil(fraction * 2**_SCALE_BITS), exponent - _SCALE_BITS)


def _largest(flat: Array) -> float:
    """max|x|; not a number when one of them is none."""
    with np.errstate(invalid="ignore"):
        return float(np.max([(flat[block].max(), -flat[block].min()) for block in _blocks(flat.size)]))


def _store(block: Array, scale: float, work: Array, stored: Array) -> None:
    if stored.dtype == _STORED["int8"]:
        np.rint(np.multiply(block, block.dtype.type(1 / scale), out=work), out=work)
        np.copyto(stored, work, casting="unsafe")
    else:
        np.copyto(stored, block, casting="unsafe")


def _widen(stored: Array, scale: float, out: Array) -> None:
    if stored.dtype == _STORED["int8"]:
        np.copyto(out, stored)  # numpy casts short pieces, if the multiplication is left to do it
        np.multiply(out, out.dtype.type(scale), out=out)
    elif out.dtype == np.float32:
        widen(stored, out)
    else:
        with np.errstate(invalid="ignore"):  # a stranger's NaN of the signalling kind
            np.copyto(out, stored)


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, size, _BLOCK))
