"""An oblivious key-value store: a table from which whoever knows a key computes its value, and which hides its keys.

With a key of the store, `decode` gives the value that was stored with it; with any other key, it gives noise. If the
values are random, the table is random too, whatever the keys are, so the table does not tell which of two keys is in
it (Garimella, Pinkas, Rosulek, Trieu, Yanai: "Oblivious key-value stores and amplification for private set
intersection", CRYPTO 2021).

This is the random linear construction, in bins. A key stands for a bin and a random row of `COLUMNS` bits, and its
value is the exclusive or of the slots of the bin that the row selects. So storing is solving one system of linear
equations over GF(2) in each bin, whose free slots are filled at random. A bin gets `LOAD` keys in the mean. More than
163 of 64 in any of up to 2**20 bins, or rows of so many keys that are linearly dependent in 224 columns, happens with a
probability below 2**-40 (Chernoff bound, union bound). Then `encode` refuses, and the alignment has to begin again
with other secrets. A table takes 56 bytes for each key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.vertical.groups import Items, Positions
from flnet.errors import AlignmentRefused
from flnet.text import text

LOAD = 64
COLUMNS = 224
ROW_BYTES = COLUMNS // 8
VALUE_BYTES = 16  # so that a key that is not in the store has a value by chance with probability 2**-128
_VALUE_BITS = 8 * VALUE_BYTES
_VALUE_MASK = (1 << _VALUE_BITS) - 1


def bins_of(count: int) -> int:
    """The bins of a store of so many keys."""
    return -(-count // LOAD)


def slots_of(count: int) -> int:
    """The slots of its table, of `VALUE_BYTES` each."""
    return bins_of(count) * COLUMNS


def bin_numbers(words: Items, count: int) -> Positions:
    """(n,) the bin of each key.

    Args:
        words: (n, 8) random bytes that each key stands for.
        count: of keys in the store.
    """
    numbers = np.ascontiguousarray(words).view("<u8")[:, 0] % np.uint64(bins_of(count))
    return numbers.astype(np.int64)


def encode(numbers: Positions, rows: Items, values: Items, fill: Items) -> Items:
    """(bins * COLUMNS, VALUE_BYTES) the part of the table for some of the bins. One unit of work.

    Args:
        numbers: (n,) the bin of each key, counted from 0 within this part.
        rows: (n, ROW_BYTES) the random row of each key.
        values: (n, VALUE_BYTES) what is stored with each key.
        fill: (bins * COLUMNS, VALUE_BYTES) random bytes; they stay in the slots that are free.

    Raises:
        AlignmentRefused: the keys cannot be stored, with a probability below 2**-40.
    """
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(len(fill) // COLUMNS + 1))
    missing = values ^ decode(fill, numbers, rows)  # what the random slots have to be corrected by
    augmented = np.concatenate([missing, rows], axis=1)  # little-endian: the value has the lower bits
    table = fill.copy()
    for number in range(len(fill) // COLUMNS):
        places = order[ends[number] : ends[number + 1]]
        corrections = _solved([int.from_bytes(augmented[place].tobytes(), "little") for place in places])
        for column, correction in corrections.items():
            slot = table[number * COLUMNS + column]
            slot ^= np.frombuffer(correction.to_bytes(VALUE_BYTES, "little"), np.uint8)
    return table


def decode(table: Items, numbers: Positions, rows: Items) -> Items:
    """(n, VALUE_BYTES) the value that the table has for each key. One unit of work.

    Args:
        table: (slots, VALUE_BYTES) all of it.
        numbers: (n,) the bin of each key.
        rows: (n, ROW_BYTES) the random row of each key.
    """
    halves = np.ascontiguousarray(table).view("<u8").reshape(-1, COLUMNS, 2)
    bits = np.unpackbits(rows, axis=1, bitorder="little").astype("<u8")
    values: NDArray[np.uint64] = np.zeros((len(rows), 2), "<u8")
    for column in range(COLUMNS):
        values ^= halves[numbers, column] * bits[:, column, np.newaxis]
    return values.view(np.uint8)


def _solved(equations: Sequence[int]) -> dict[int, int]:
    """A solution of the equations of one bin: columns and their values; all other columns are 0.

    Args:
        equations: the bits of the row, above those of the value.
    """
    pivots: dict[int, int] = {}  # by the highest bit
    for equation in equations:
        rest = equation
        while (lead := rest.bit_length() - 1) >= _VALUE_BITS and lead in pivots:
            rest ^= pivots[lead]
        if lead < _VALUE_BITS:
            raise AlignmentRefused(
                text("the ids cannot be encoded with these secrets; begin the alignment again with new ones")
            )
        pivots[lead] = rest
    solution: dict[int, int] = {}
    known = 0  # the columns of the solution, as bits
    for lead in sorted(pivots):  # an equation has no column above its lead, so those that it needs are known
        value, columns = pivots[lead] & _VALUE_MASK, pivots[lead] >> _VALUE_BITS & known
        while columns:
            lowest = columns & -columns
            value ^= solution[lowest.bit_length() - 1]
            columns ^= lowest
        solution[lead - _VALUE_BITS] = value
        known |= 1 << (lead - _VALUE_BITS)
    return solution
