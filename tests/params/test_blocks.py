"""int8 with a scale for each block of 256 numbers, against rounding that is written here block by block."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.params.params import Array, Params
from flnet.params.quantization import lowered, packed, rounded, widened

LEAST = Fraction(1, 2**100)


def scale_of(block: Array) -> float:
    """max|x| / 127, rounded up to 16 significant bits, of a fraction that knows no rounding before that."""
    largest = max(*(abs(Fraction(float(x))) for x in block), LEAST)
    exact, unit = largest / 127, Fraction(1)
    while exact / unit >= 2**16:
        unit *= 2
    while exact / unit < 2**15:
        unit /= 2
    return float(ceil(exact / unit) * unit)


def blocks_of(array: Array) -> list[Array]:
    flat = array.reshape(-1)
    return [flat[start : start + 256] for start in range(0, flat.size, 256)]


def update(size: int = 65_536, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Numbers of standard deviation 0.02, as the weights of a network are."""
    return (np.random.default_rng(seed).standard_normal(size) * 0.02).astype(dtype)


def low_of(array: Array) -> Array:
    low = rounded(array, "int8-blocks")
    assert low is not None
    return low


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1024, 1025, 1279, 131_072 + 255, 2 * 131_072 + 256])
def test_each_block_is_rounded_to_its_own_steps(size: int, dtype: Any) -> None:
    array = update(size, dtype) * np.logspace(-5, 5, size).astype(dtype)
    low = low_of(array)
    result = packed(low, "int8-blocks")
    assert result is not None
    stored, scales = result
    assert (stored.size, scales.size) == (size, -(-size // 256))
    pairs = list(zip(blocks_of(array), blocks_of(low), blocks_of(stored), scales, strict=True))
    for block, rounded_block, steps, scale in pairs[:8] + pairs[-8:]:
        assert scale == pytest.approx(scale_of(block), rel=1e-7)
        assert rounded_block.tolist() == [q * float(scale) for q in steps.tolist()]
        nearest = np.rint(block.astype(np.float64) / float(scale))
        assert np.abs(steps - nearest).max() <= 1  # the other neighbour, of a number in the middle
        assert np.abs(rounded_block - block.astype(np.float64)).max() <= scale * (0.5 + 1e-4)
        assert np.abs(steps).max() == 127


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_large_number_does_not_round_the_others_to_0(dtype: Any) -> None:
    array = update(dtype=dtype)
    array[1000] = 5.0
    low = low_of(array)
    others = np.ones(array.size, bool)
    others[768:1024] = False  # the block of the large number
    lost = np.linalg.norm((low - array)[others]) / np.linalg.norm(array[others])
    assert lost < 0.01
    assert np.count_nonzero(low[others]) > 0.98 * np.count_nonzero(others)
    assert low[1000] == pytest.approx(5.0, rel=2.0**-15)
    assert np.array_equal(low[others], low_of(update(dtype=dtype))[others])


@given(seed=st.integers(0, 2**32 - 1), block=st.integers(0, 15), value=st.floats(-(2.0**100), 2.0**100, width=32))
@settings(max_examples=40, deadline=None)
def test_a_number_matters_in_its_own_block_only(seed: int, block: int, value: float) -> None:
    array = update(16 * 256, seed=seed)
    before = blocks_of(low_of(array))
    array[block * 256 + seed % 256] = value
    after = blocks_of(low_of(array))
    assert [i for i in range(16) if i != block and not np.array_equal(before[i], after[i])] == []


@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**126), max_value=2.0**126),
        max_size=300,
    ),
    st.sampled_from([1024, 1300]),
    st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_what_was_rounded_is_packed_and_rounded_to_itself(some: list[float], size: int, place: int) -> None:
    array = update(size)
    array[place : place + len(some)] = some[: size - place]
    low = low_of(array)
    again, result = low_of(low), packed(low, "int8-blocks")
    assert result is not None
    assert again.tobytes() == low.tobytes() == widened(*result, low.dtype).tobytes()
    assert not np.signbit(low[low == 0]).any()


@pytest.mark.parametrize("where", [0, 1023, 131_072, 140_000])
@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf, 3e38])
def test_a_number_that_cannot_be_packed_leaves_its_array_as_it_is(where: int, wrong: float) -> None:
    array = update(140_001)
    array[where] = wrong
    assert rounded(array, "int8-blocks") is None
    assert packed(array, "int8-blocks") is None


def test_what_is_lost_beside_a_large_number_is_sent_later() -> None:
    truth = update(4096)
    truth[10] = 5.0
    residual: Params | None = None
    total = np.zeros(truth.size)
    rounds = 40
    for _ in range(rounds):
        sent, residual = lowered(Params({"w": truth}), residual, "int8-blocks")
        total += sent["w"]
    steps = np.array([scale_of(block) for block in blocks_of(truth)]).repeat(256)
    assert residual is not None
    # The sums differ by what is owed at the end: half a step of the own block, and float32's own rounding.
    assert (np.abs(total - rounds * truth.astype(np.float64)) <= 0.6 * steps).all()
    assert (np.abs(residual["w"]) <= 0.6 * steps).all()
