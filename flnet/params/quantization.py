"""Floats in fewer bytes: float16, or int8 with a scale for each block of 256 numbers, or with one for the array.

Packing is lossless: an array whose numbers cannot be represented exactly in fewer bytes stays as it is. `rounded` rounds
an array to such numbers. In "int8-blocks", each block of 256 numbers in flat order (the last one may be shorter) has a
scale of its own, so that one large number costs precision in its own block only. In "int8", which is all that earlier
versions read, the whole array has one scale. A scale is max|x| / 127, rounded up to 16 significant bits, so that every
q * scale with |q| <= 127 is exact in float32, and the scale can be derived again from the largest of the rounded numbers.
Where all numbers are below 2^-100, the scale is that of 2^-100.

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

ROWS = 3  # of int32, each as long as a chunk, which `narrow` works in


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


Encoding = Literal["float32", "float16", "int8", "int8-blocks"]

MIN_NUMBERS = 1024  # smaller arrays stay as they are: little to save, and biases matter
BLOCK = 256  # numbers that share a scale
_CHUNK = 131_072  # numbers, whole blocks of them; all that is computed on one chunk fits a core's cache
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
_WHOLE = {dtype: dtype.type(1.5 * 2 ** np.finfo(dtype).nmant) for dtype in _WIDE}
_FULL = np.float32(127)
_UNUSED_BITS = np.uint32(0xFF)  # of a float32; a scale has the upper 16 of 24 significant bits, and q has 7
# Of max|x|: with the scales that this and 2^127 have, every q * scale is a normal float32.
_LEAST = np.float32(2.0**-100)
_LEAST_SCALE, _MOST_SCALE = 33_027 * 2.0**-122, 33_027 * 2.0**105  # 2^-100 / 127 and 2^127 / 127, rounded up
_MOST_FLOAT16 = 65504.0

Scales = NDArray[np.float32]


def is_packable(array: Array) -> bool:
    """Whether an array can be packed: wide floats in native byte order, and enough of them."""
    return array.dtype in _WIDE and array.size >= MIN_NUMBERS


def count_blocks(size: int) -> int:
    """The number of blocks of so many numbers."""
    return -(-size // BLOCK)


def packed(array: Array, encoding: Encoding) -> tuple[Array, Scales] | None:
    """The array in fewer bytes and its scales; None if that would lose anything.

    Args:
        array: C-contiguous, of any shape.

    Returns:
        int8 and one scale, or one for each block; or float16 and no scales.
    """
    if encoding == "float32" or not is_packable(array):
        return None
    flat = array.reshape(-1)
    result = _packed_halves(flat) if encoding == "float16" else _packed_int8(flat, encoding == "int8")
    return None if result is None else (result[0].reshape(array.shape), result[1])


def widened(stored: Array, scales: Scales, dtype: np.dtype[Any]) -> Array:
    """The array that `packed` packed, with the same bits: stored * scale in `dtype`.

    Args:
        scales: one for each block, or a single one for all numbers; ignored for float16.
    """
    out, flat = np.empty(stored.shape, dtype), stored.reshape(-1)
    wide = out.reshape(-1)
    for numbers, blocks in _chunks(flat.size):
        if stored.dtype == np.int8:
            part = wide[numbers]
            np.copyto(part, flat[numbers])  # numpy casts short pieces, if the multiplication is left to do it
            _multiply(part, scales if scales.size == 1 else scales[blocks], part)
        else:
            _widen(flat[numbers], wide[numbers])
    return out


def rounded(array: Array, encoding: Encoding) -> Array | None:
    """The nearest array that `packed` accepts, in the same dtype; None if the array cannot or need not be packed.

    Not packed are small arrays, all but wide floats, and arrays with numbers that are not finite or too large for the
    encoding.
    """
    if encoding == "float32" or not is_packable(array):
        return None
    flat = array.reshape(-1)
    result = _rounded_halves(flat) if encoding == "float16" else _rounded_int8(flat, encoding == "int8")
    return None if result is None else result.reshape(array.shape)


def is_scale(scale: float, stored: np.dtype[Any]) -> bool:
    """Whether this can be the single scale of an array of this dtype, as a body may state it."""
    if stored == np.float16:
        return scale == 1
    if stored != np.int8 or not _LEAST_SCALE <= scale <= _MOST_SCALE:  # not for NaN
        return False
    return float(np.float32(scale)) == scale and are_scales(np.array([scale], np.float32))


def are_scales(scales: Scales) -> bool:
    """Whether `packed` can return all of these as scales of blocks."""
    bits = scales.view(np.uint32)  # in the order of the numbers where these are positive; larger otherwise
    least, most = np.array([_LEAST_SCALE, _MOST_SCALE], np.float32).view(np.uint32)
    return bool(((bits >= least) & (bits <= most) & (bits & _UNUSED_BITS == 0)).all())


def _packed_int8(flat: Array, has_one_scale: bool) -> tuple[Array, Scales] | None:
    stored, work = np.empty(flat.shape, np.int8), np.empty(min(flat.size, _CHUNK), flat.dtype)
    scales = _shared_scale(flat, work) if has_one_scale else np.empty(count_blocks(flat.size), np.float32)
    if scales is None:
        return None
    for numbers, blocks in _chunks(flat.size):
        part, own = work[: flat[numbers].size], scales if has_one_scale else scales[blocks]
        if not has_one_scale and not _find_scales(flat[numbers], part, own):
            return None
        _divide(flat[numbers], own, part)
        np.copyto(stored[numbers], part, casting="unsafe")
        _multiply(part, own, part)
        if not same_bits(part, flat[numbers]):
            return None
    return stored, scales


def _rounded_int8(flat: Array, has_one_scale: bool) -> Array | None:
    out = np.empty_like(flat)
    scales = _shared_scale(flat, out) if has_one_scale else np.empty(count_blocks(flat.size), np.float32)
    if scales is None:
        return None
    for numbers, blocks in _chunks(flat.size):
        part, own = out[numbers], scales if has_one_scale else scales[blocks]
        if not has_one_scale and not _find_scales(flat[numbers], part, own):
            return None
        _divide(flat[numbers], own, part)
        _multiply(part, own, part)
    return out


def _shared_scale(flat: Array, work: Array) -> Scales | None:
    """The one scale of an array, which is the largest of its blocks; None if a number is too large or none.

    Args:
        work: as many numbers as a chunk has, to work in.
    """
    scales = np.empty(count_blocks(flat.size), np.float32)
    for numbers, blocks in _chunks(flat.size):
        if not _find_scales(flat[numbers], work[: flat[numbers].size], scales[blocks]):
            return None
    return np.full(1, scales.max(), np.float32)


def _find_scales(numbers: Array, work: Array, scales: Scales) -> bool:
    """Find the scales of blocks; False if a number is too large or none.

    Args:
        numbers: of whole blocks, or of one shorter block.
        work: as many numbers, to work in.
        scales: for the scales, one for each block.
    """
    # The bits of floats without a sign are in the order of the floats, and their maximum is found in half the time.
    bits = np.abs(numbers, out=work).view(f"i{work.itemsize}")
    with np.errstate(over="ignore"):
        largest = bits.reshape(scales.size, -1).max(axis=1).view(work.dtype).astype(np.float32, copy=False)
    if not (largest <= _FULL * _MOST_SCALE).all():  # as for NaN
        return False
    exact = np.maximum(largest, _LEAST) / _FULL
    scales[:] = ((exact.view(np.uint32) + _UNUSED_BITS) & ~_UNUSED_BITS).view(np.float32)
    return True


def _divide(numbers: Array, scales: Array, out: Array) -> None:
    """Divide blocks to whole numbers, each by its scale; no zero among them has a sign."""
    _multiply(numbers, 1 / scales.astype(out.dtype, copy=False), out)
    # Beside so large a number there is room for whole numbers only: the sum is rounded to even, and -0.0 is lost.
    wide = _WHOLE[out.dtype]
    np.subtract(np.add(out, wide, out=out), wide, out=out)


def _multiply(numbers: Array, scales: Array, out: Array) -> None:
    """Multiply blocks, each by its scale."""
    rows = (scales.size, -1)
    factors = scales.astype(out.dtype, copy=False)[:, None]
    np.multiply(numbers.reshape(rows), factors, out=out.reshape(rows))


def _packed_halves(flat: Array) -> tuple[Array, Scales] | None:
    """The numbers as float16, or None if that would lose anything."""
    stored, none = np.empty(flat.shape, np.float16), np.empty(0, np.float32)
    if flat.dtype == np.float32:
        work = np.empty((ROWS, min(flat.size, _CHUNK)), np.int32)
        exact = all(narrow(flat[numbers], stored[numbers], work) for numbers, _ in _chunks(flat.size))
        return (stored, none) if exact else None
    if not _fit_float16(flat):
        return None
    wide = np.empty(min(flat.size, _CHUNK), flat.dtype)
    for numbers, _ in _chunks(flat.size):
        part = wide[: flat[numbers].size]
        np.copyto(stored[numbers], flat[numbers], casting="unsafe")
        _widen(stored[numbers], part)
        if not same_bits(part, flat[numbers]):
            return None
    return stored, none


def _rounded_halves(flat: Array) -> Array | None:
    if not _fit_float16(flat):
        return None
    out, stored = np.empty_like(flat), np.empty(min(flat.size, _CHUNK), np.float16)
    for numbers, _ in _chunks(flat.size):
        part = stored[: flat[numbers].size]
        np.copyto(part, flat[numbers], casting="unsafe")
        _widen(part, out[numbers])
    return out


def _fit_float16(flat: Array) -> bool:
    """Whether all numbers are finite, and none is too large."""
    with np.errstate(invalid="ignore"):
        return all(
            np.maximum(flat[numbers].max(), -flat[numbers].min()) <= _MOST_FLOAT16
            for numbers, _ in _chunks(flat.size)
        )


def _widen(stored: Array, out: Array) -> None:
    if out.dtype == np.float32:
        widen(stored, out)
    else:
        with np.errstate(invalid="ignore"):  # a stranger's NaN of the signalling kind
            np.copyto(out, stored)


def _chunks(size: int) -> Iterator[tuple[slice, slice]]:
    """The places of numbers and of their blocks: whole blocks, as many as fit the cache, and last a shorter one."""
    whole = size - size % BLOCK
    for start in range(0, whole, _CHUNK):
        stop = min(start + _CHUNK, whole)
        yield slice(start, stop), slice(start // BLOCK, stop // BLOCK)
    if whole < size:
        yield slice(whole, size), slice(whole // BLOCK, count_blocks(size))


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
