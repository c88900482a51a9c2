"""The store gives back what was stored, hides its keys, and fails as rarely as its docstring says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.groups import Items
from flnet.algorithms.vertical.key_value_store import (
    COLUMNS,
    LOAD,
    ROW_BYTES,
    VALUE_BYTES,
    bin_numbers,
    bins_of,
    decode,
    encode,
    slots_of,
)
from flnet.errors import AlignmentRefused


def drawn(rng: np.random.Generator, count: int, width: int) -> Items:
    return rng.integers(0, 256, (count, width), np.uint8)


@given(st.integers(1, 400), st.integers(0, 2**32))
def test_every_key_has_its_value(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = bin_numbers(drawn(rng, count, 8), count)
    rows, values = drawn(rng, count, ROW_BYTES), drawn(rng, count, VALUE_BYTES)
    table = encode(numbers, rows, values, drawn(rng, slots_of(count), VALUE_BYTES))
    assert table.shape == (slots_of(count), VALUE_BYTES)
    assert np.array_equal(decode(table, numbers, rows), values)
    place = rng.permutation(count)[:7]
    assert np.array_equal(decode(table, numbers[place], rows[place]), values[place])


def test_a_value_is_the_exclusive_or_of_the_slots_of_its_row() -> None:
    table = drawn(np.random.default_rng(1), 2 * COLUMNS, VALUE_BYTES)
    row = np.zeros((1, ROW_BYTES), np.uint8)
    row[0, 0], row[0, -1] = 0b101, 0b1000_0000  # columns 0, 2 and 223
    expected = table[COLUMNS] ^ table[COLUMNS + 2] ^ table[COLUMNS + 223]
    assert np.array_equal(decode(table, np.array([1]), row)[0], expected)


def test_parts_that_are_made_one_after_the_other_are_the_whole() -> None:
    rng, count = np.random.default_rng(2), 300
    numbers = bin_numbers(drawn(rng, count, 8), count)
    rows, values = drawn(rng, count, ROW_BYTES), drawn(rng, count, VALUE_BYTES)
    fill = drawn(rng, slots_of(count), VALUE_BYTES)
    parts = []
    for number in range(bins_of(count)):
        mine = numbers == number
        part = fill[number * COLUMNS : (number + 1) * COLUMNS]
        parts.append(encode(numbers[mine] - number, rows[mine], values[mine], part))
    assert np.array_equal(np.concatenate(parts), encode(numbers, rows, values, fill))


def test_keys_that_depend_on_each_other_are_refused() -> None:
    rng = np.random.default_rng(3)
    rows, values = drawn(rng, 3, ROW_BYTES), drawn(rng, 3, VALUE_BYTES)
    rows[2] = rows[0] ^ rows[1]
    fill = drawn(rng, COLUMNS, VALUE_BYTES)
    with pytest.raises(AlignmentRefused, match="begin the alignment again"):
        encode(np.zeros(3, np.int64), rows, values, fill)


def most_ones(tables: Items) -> float:
    """How far the number of ones of any bit is from half, in standard deviations."""
    bits = np.unpackbits(tables.reshape(len(tables), -1), axis=1)
    return float(np.abs(bits.sum(axis=0) - len(bits) / 2).max() / math.sqrt(len(bits) / 4))


def test_a_table_of_random_values_is_random_whatever_its_keys_are() -> None:
    rng = np.random.default_rng(4)
    rows, numbers = drawn(rng, 40, ROW_BYTES), np.zeros(40, np.int64)
    tables = np.stack(
        [encode(numbers, rows, drawn(rng, 40, VALUE_BYTES), drawn(rng, COLUMNS, VALUE_BYTES)) for _ in range(400)]
    )
    assert most_ones(tables) < 6  # 28,672 bits: a larger deviation has a probability below 1e-4
    stuck = tables.copy()
    stuck[:, 17, 3] |= (rng.random(400) < 0.4).astype(np.uint8)
    assert most_ones(stuck) > 6


def test_a_key_of_the_store_looks_like_any_other() -> None:
    """Values of stored and of other keys, both with random values: no bit is more often 1 in the one."""
    rng = np.random.default_rng(5)
    rows, numbers = drawn(rng, 60, ROW_BYTES), np.zeros(60, np.int64)
    looked_up = np.stack(
        [
            decode(
                encode(numbers[:30], rows[:30], drawn(rng, 30, VALUE_BYTES), drawn(rng, COLUMNS, VALUE_BYTES)),
                numbers,
                rows,
            )
            for _ in range(400)
        ]
    )
    assert most_ones(looked_up[:, :30]) < 6
    assert most_ones(looked_up[:, 30:]) < 6


def log2_tail(count: int, bins: int, load: int) -> float:
    """The binary logarithm of an upper bound of P[one bin has more than `load` of so many keys]."""
    share = 1 / bins

    def log_probability(k: int) -> float:
        choose = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        return choose + k * math.log(share) + (count - k) * math.log1p(-share)

    terms = [log_probability(k) for k in range(load + 1, min(count, load + 400) + 1)]
    highest = max(terms)
    return (highest + math.log(sum(math.exp(term - highest) for term in terms))) / math.log(2) + 0.01


@pytest.mark.parametrize("bins", [3, 100, 1563, 2**20])
def test_storing_fails_as_rarely_as_promised(bins: int) -> None:
    most = 163
    crowded = math.log2(bins) + log2_tail(bins * LOAD, bins, most)
    dependent = math.log2(bins) + most - COLUMNS  # so many random rows are dependent with at most this probability
    assert 2**crowded + 2**dependent < 2**-40
    assert bins_of(bins * LOAD) == bins
    assert bins_of(bins * LOAD + 1) == bins + 1


def test_the_size_of_a_table() -> None:
    assert slots_of(1) == slots_of(64) == COLUMNS
    assert slots_of(100_000) * VALUE_BYTES == 1563 * 224 * 16
