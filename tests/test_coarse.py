"""Vectors kept with a byte for each number: how far off they are, and that every node keeps the same bytes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from flnet.coarse import PIECE, Kept, room_for
from flnet.params import Array

F32 = np.dtype(np.float32)


def kept(vector: Array, blocks: int = PIECE, *, coarse: bool = True) -> Kept:
    """The vector, written in blocks of this size."""
    found = room_for(vector.size, vector.dtype, coarse=coarse)
    for start in range(0, vector.size, blocks):
        found.write(start, vector[start : start + blocks])
    return found


def read(one: Kept, blocks: int = PIECE) -> Array:
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


def test_a_vector_of_normal_numbers_is_off_by_one_part_in_a_hundred() -> None:
    vector = np.random.default_rng(3).normal(size=100_000).astype("float32")
    assert np.linalg.norm(read(kept(vector)) - vector) < 0.011 * np.linalg.norm(vector)


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
    found = hashlib.sha256(one.numbers.tobytes() + one.scales.tobytes()).hexdigest()
    assert found == "dc05d454975d1e2c800c1fba684d720ef638d592b26a91e39a2e7fed30a75848"


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_what_is_no_number_or_far_too_large_stays_far(wild: float) -> None:
    vector = np.zeros(PIECE + 2, np.float32)
    vector[1], vector[-1] = wild, 1.0
    found = read(kept(vector))
    assert np.isfinite(found).all()
    assert abs(found[1]) == pytest.approx(1e38, rel=0.01)
    assert found[-1] == 1.0  # in another piece


def test_nothing_and_next_to_nothing_are_0() -> None:
    assert read(kept(np.array([0.0, 1e-38, -1e-31], np.float32))).tolist() == [0, 0, 0]


def test_small_vectors_are_kept_as_they_are() -> None:
    vector = np.array([1.0, 1e-300, 3.3])
    one = kept(vector, coarse=False)
    assert one.scales is None
    assert one.read(0, np.empty(3)).tolist() == vector.tolist()
