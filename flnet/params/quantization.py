"""Floats in fewer bytes: float16, or int8 with a scale.

Packing is lossless: an array whose numbers cannot be represented exactly in fewer bytes stays as it is. `rounded` rounds
an array to such numbers. The scale of int8 is max|x| / 127, rounded up to 16 significant bits, so that every q * scale
with |q| <= 127 is exact in float32, and the scale can be derived again from the largest of the rounded numbers.

`lowered` rounds an update before it is sent, which is the only place where parameters lose anything on their way. It
adds the rounding error to the next update (error feedback), so that the sum of all sent updates stays within one
rounding step of the exact sum. Source: Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Karimireddy
et al., ICML 2019.

`narrow` and `widen` convert between float32 and float16 by bits, with numpy's results in a third of the time. A float32
times 2^-112, which is exact, has the exponent of the float16 of the same value: then the sign, the lower five bits of
the exponent and the upper ten of the fraction are the float16, and all other bits are 0. Source: IEEE 754, section 3.4.

`StoredVector` holds long vectors that are only compared later, one byte per number: each piece of 4096 numbers becomes
whole numbers in [-127, 127] and a scale. A vector of about normal numbers is then off by one part in a hundred, in
directions unrelated to any other vector, and distances grow by less than one part in a thousand. IEEE 754 fixes every
step (maximum, division, product, rounding to even), so all nodes store the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flnet.params.params import Array, Params

_DOWN, _UP = np.float32(2.0**-112), np.float32(2.0**112)  # 127 - 15: between the two biases of the exponent
_SHIFT = 13  # bits of the fraction that float16 does not have
_KEPT = np.int32(-0x70002000)  # 0x8fffe000: the bits that a float16 has
_SIGN, _REST = np.int16(-0x8000), np.int16(0x7FFF)
_INFINITE = 0x7C00  # from here on a float16 without its sign is no number

ROWS = 3  # of int32, each as long as a block, which `narrow` works in


def narrow(wide: Array, out: Array, work: NDArray[np.int32]) -> bool:
    """Convert float32 numbers to float16 in `out`; returns whether all of them are exact (otherwise `out` is undefined).

    Args:
        wide: float32, one dimension.
        out: float16, as many.
        work: (ROWS, at least as many), to work in.
    """
    bits, shifted, third = work[:, : wide.size]
    moved, halves, signs = bits.view(np.float32), out.view(np.int16), third.view(np.int16)[: wide.size]
    np.multiply(wide, _DOWN, out=moved)
    np.bitwise_and(bits, _KEPT, out=bits)
    np.right_shift(bits, _SHIFT, out=shifted)
    np.copyto(halves, shifted, casting="unsafe")
    if wide.size and halves.max() >= _INFINITE:
        return False
    np.right_shift(bits, 16, out=shifted)
    np.copyto(signs, shifted, casting="unsafe")
    np.bitwise_and(signs, _SIGN, out=signs)
    np.bitwise_or(halves, signs, out=halves)
    with np.errstate(invalid="ignore"):
        np.multiply(moved, _UP, out=moved)
    return same_bits(moved, wide)


def widen(halves: Array, out: Array) -> None:
    """Convert float16 numbers to float32; infinities and NaN take a slower path.

    Args:
        halves: float16, one dimension.
        out: float32, as many.
    """
    if (
        not halves.size
        or not halves.dtype.isnative
        or np.bitwise_and(halves.view(np.int16), _REST).max() >= _INFINITE
    ):
        with np.errstate(invalid="ignore"):  # a stranger's NaN of the signalling kind
            np.copyto(out, halves)
        return
    bits = out.view(np.int32)
    np.copyto(bits, halves.view(np.int16))
    np.left_shift(bits, _SHIFT, out=bits)
    np.bitwise_and(bits, _KEPT, out=bits)
    np.multiply(out, _UP, out=out)


def same_bits(left: Array, right: Array) -> bool:
    """Whether two arrays of one dtype and one dimension are equal bit by bit; -0.0 and 0.0 differ."""
    wide = left.size % 2 == 0 and left.itemsize == 4  # two numbers at once
    bits = np.dtype(np.uint64) if wide else np.dtype(f"u{left.itemsize}")
    return bool((left.view(bits) == right.view(bits)).all())


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
    """Whether an array can be packed: wide floats in native byte order, and enough of them."""
    return array.dtype in _WIDE and array.size >= MIN_NUMBERS


def packed(array: Array, encoding: Encoding) -> tuple[Array, float] | None:
    """The array in fewer bytes and its scale; None if that would lose anything.

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
        part = work[: len(flat[block])]
        _store(flat[block], scale, part, stored[block])
        _widen(stored[block], scale, part)
        if not same_bits(part, flat[block]):
            return None
    return stored.reshape(array.shape), scale


def widened(stored: Array, scale: float, dtype: np.dtype[Any]) -> Array:
    """The array that `packed` packed, with the same bits: stored * scale in `dtype`."""
    out, flat = np.empty(stored.shape, dtype), stored.reshape(-1)
    wide = out.reshape(-1)
    for block in _blocks(flat.size):
        _widen(flat[block], scale, wide[block])
    return out


def rounded(array: Array, encoding: Encoding) -> Array | None:
    """The nearest array that `packed` accepts, in the same dtype; None if the array cannot or need not be packed.

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
        part = stored[: len(flat[block])]
        _store(flat[block], scale, out[block], part)
        _widen(part, scale, out[block])
    return out.reshape(array.shape)


def is_scale(scale: float, stored: np.dtype[Any]) -> bool:
    """Whether `packed` can return this scale for arrays of this dtype."""
    if stored == _STORED["float16"]:
        return scale == 1
    # False for NaN; the last of the scales was rounded up.
    in_range = _LEAST / _FULL <= scale <= _MOST / _FULL * (1 + 2.0 ** (1 - _SCALE_BITS))
    return stored == _STORED["int8"] and in_range and _is_short(scale)


def _is_short(scale: float) -> bool:
    return math.ldexp(math.frexp(scale)[0], _SCALE_BITS).is_integer()


def _halves(flat: Array) -> Array | None:
    """float32 as float16, or None if that would lose anything."""
    stored, work = np.empty(flat.shape, np.float16), np.empty((ROWS, min(flat.size, _BLOCK)), np.int32)
    return stored if all(narrow(flat[block], stored[block], work) for block in _blocks(flat.size)) else None


def _scale(array: Array, encoding: Encoding) -> float | None:
    """The scale for this array, or None if it cannot be packed."""
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
    """max|x|; NaN if any number is NaN."""
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


PIECE = 4_096  # numbers that have a scale of their own
_STEPS = 127
_SMALLEST_PIECE, _LARGEST_PIECE = 1e-30, 1e38  # largest number of a piece: all are 0 below, cut off above


@dataclass(frozen=True)
class StoredVector:
    """A vector that is written once from beginning to end and then only read.

    Attributes:
        numbers: int8, or the numbers themselves.
        scales: float32, one for each piece; None where nothing is rounded.
    """

    numbers: Array
    scales: Array | None = None

    @property
    def size(self) -> int:
        """The number of numbers."""
        return self.numbers.size

    def write(self, start: int, block: Array) -> None:
        """Keep these numbers from place `start` on, a multiple of PIECE; all but the last block are, too."""
        where = slice(start, start + block.size)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.scales is None:
                self.numbers[where] = block
                return
            whole = block.size - block.size % PIECE
            for part, at in ((block[:whole], start), (block[whole:], start + whole)):
                if part.size:
                    rows = part.reshape(-1, min(PIECE, part.size))
                    self._write_rows(rows, at // PIECE, slice(at, at + part.size))

    def read(self, start: int, room: Array) -> Array:
        """The numbers from place `start` on, a multiple of PIECE, as many as there is room for.

        They may be a view of what is kept, so nobody writes into them.

        Args:
            room: floats to work in.
        """
        numbers = self.numbers[start : start + room.size]
        if self.scales is None:
            return numbers
        whole = room.size - room.size % PIECE
        scales, first = self.scales, start // PIECE
        rows, last = (-1, PIECE), first + whole // PIECE
        if whole:
            np.multiply(numbers[:whole].reshape(rows), scales[first:last, None], out=room[:whole].reshape(rows))
        if room.size > whole:
            np.multiply(numbers[whole:], scales[last], out=room[whole:])
        return room

    def _write_rows(self, rows: Array, first: int, where: slice) -> None:
        assert self.scales is not None
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        if not (largest < _LARGEST_PIECE).all():  # too large, or not a number
            rows = np.clip(np.nan_to_num(rows, nan=_LARGEST_PIECE), -_LARGEST_PIECE, _LARGEST_PIECE)
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        steps = np.divide(_STEPS, largest, out=np.zeros_like(largest), where=largest > _SMALLEST_PIECE)
        self.scales[first : first + len(rows)] = np.where(largest > _SMALLEST_PIECE, largest / _STEPS, 0)
        numbers = np.multiply(rows, steps[:, None])
        self.numbers[where] = np.clip(np.rint(numbers, out=numbers), -_STEPS, _STEPS, out=numbers).reshape(-1)


def room_for(size: int, dtype: np.dtype[np.floating], *, coarse: bool) -> StoredVector:
    """An empty vector for so many numbers.

    Args:
        size: how many.
        dtype: of the numbers where they are kept as they are.
        coarse: whether they are kept with a byte each.
    """
    if not coarse:
        return StoredVector(np.zeros(size, dtype))
    return StoredVector(np.zeros(size, np.int8), np.zeros(-(-size // PIECE), np.float32))


def lowered(params: Params, residual: Params | None, encoding: Encoding) -> tuple[Params, Params]:
    """Round an update to numbers that `BinaryCodec(encoding)` packs, after adding the last rounding error.

    Small arrays, integers and booleans are not touched, nor is an array that is not finite; one that is beyond
    the range of the encoding, and every one where the encoding is "float32", gets its residual and is not
    rounded. Rounding again what was rounded changes nothing.

    Args:
        residual: what the last call gave; arrays of other names, shapes or dtypes (another model) are ignored.

    Returns:
        The parameters to send, and what was lost, for the next call.
    """
    sent: dict[str, Array] = {}
    lost: dict[str, Array] = {}
    for name, array in params.items():
        wanted = _with_residual(array, None if residual is None else residual.get(name))
        low = rounded(wanted, encoding)
        sent[name] = wanted if low is None else low
        if low is not None:
            # The sum with the residual is nobody else's: its memory holds what is lost from here on.
            lost[name] = np.subtract(wanted, low, out=None if wanted is array else wanted)
    return Params(sent), Params(lost)


def _with_residual(array: Array, residual: Array | None) -> Array:
    if residual is None or not is_packable(array):
        return array
    if residual.shape != array.shape or residual.dtype != array.dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.add(array, residual)
    return wanted if np.isfinite(wanted).all() else array
