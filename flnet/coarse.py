"""Long vectors that are only compared later, kept as they are or with a byte for each number.

What a rule remembers of many peers over many rounds is many models' worth of memory. To tell how far two of them
are apart takes no seven digits: of a piece of 4096 numbers each becomes a whole one in [-127, 127], times a scale
that the piece has for itself. A vector of about normal numbers is then off by one part in a hundred, in directions
that have nothing to do with any other vector: distances grow by less than one part in a thousand.

Every step is one that IEEE 754 fixes (a largest number, a division, a product, a rounding to even), so nodes that
keep the same numbers keep the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flnet.params import Array

PIECE = 4_096  # numbers that have a scale of their own
_STEPS = 127
_LEAST, _MOST = 1e-30, 1e38  # of a piece's largest number: below it all are 0; what is larger is cut off there


@dataclass(frozen=True)
class Kept:
    """A vector, written once from its beginning to its end and then only read.

    Attributes:
        numbers: int8, or the numbers themselves.
        scales: float32, one for each piece; None where nothing is rounded.
    """

    numbers: Array
    scales: Array | None = None

    @property
    def size(self) -> int:
        """How many numbers it holds."""
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
        found = self.numbers[start : start + room.size]
        if self.scales is None:
            return found
        whole = room.size - room.size % PIECE
        scales, first = self.scales, start // PIECE
        rows, last = (-1, PIECE), first + whole // PIECE
        if whole:
            np.multiply(found[:whole].reshape(rows), scales[first:last, None], out=room[:whole].reshape(rows))
        if room.size > whole:
            np.multiply(found[whole:], scales[last], out=room[whole:])
        return room

    def _write_rows(self, rows: Array, first: int, where: slice) -> None:
        assert self.scales is not None
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        if not (largest < _MOST).all():  # too large, or not a number
            rows = np.clip(np.nan_to_num(rows, nan=_MOST), -_MOST, _MOST)
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        steps = np.divide(_STEPS, largest, out=np.zeros_like(largest), where=largest > _LEAST)
        self.scales[first : first + len(rows)] = np.where(largest > _LEAST, largest / _STEPS, 0)
        found = np.multiply(rows, steps[:, None])
        self.numbers[where] = np.clip(np.rint(found, out=found), -_STEPS, _STEPS, out=found).reshape(-1)


def room_for(size: int, dtype: np.dtype[np.floating], *, coarse: bool) -> Kept:
    """A vector of so many numbers, still to be written.

    Args:
        size: how many.
        dtype: of the numbers where they are kept as they are.
        coarse: whether they are kept with a byte each.
    """
    if not coarse:
        return Kept(np.zeros(size, dtype))
    return Kept(np.zeros(size, np.int8), np.zeros(-(-size // PIECE), np.float32))
