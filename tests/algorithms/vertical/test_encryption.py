"""The twin of an encryption scheme: what it computes, and what it refuses as the real one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.encryption import MOST_ROWS, PlainScheme, Shape, spread
from flnet.errors import InvalidMessage, LocalError

SCHEME = PlainScheme()


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32))
def test_a_transposed_matrix_is_multiplied(rows: int, columns: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    values, other, matrix = chance.normal(size=rows), chance.normal(size=rows), chance.normal(size=(rows, columns))
    left, right = SCHEME.encrypt(values, columns), SCHEME.encrypt(other, columns)
    assert SCHEME.decrypt(SCHEME.add(left, right)) == pytest.approx(values + other)
    assert SCHEME.decrypt(SCHEME.subtract(left, right)) == pytest.approx(values - other)
    assert SCHEME.decrypt(SCHEME.multiply(left, 2.5)) == pytest.approx(2.5 * values)
    assert SCHEME.decrypt(SCHEME.multiply(left, other)) == pytest.approx(values * other)
    assert SCHEME.decrypt(SCHEME.total(SCHEME.multiply(left, matrix))) == pytest.approx(matrix.T @ values)


def test_a_factor_is_0_where_it_has_no_entry() -> None:
    shape = Shape(3, 2)
    assert spread(2.0, shape).tolist() == [[2, 2]] * 3
    assert spread(np.array([1.0, 5]), shape).tolist() == [[1, 1], [5, 5], [0, 0]]
    assert spread(np.array([[1.0], [5]]), shape).tolist() == [[1, 0], [5, 0], [0, 0]]
    for wrong in (np.ones(4), np.ones((3, 3)), np.ones((1, 1, 1)), np.array([np.nan]), np.inf):
        with pytest.raises(LocalError, match="a factor"):
            spread(wrong, shape)


def test_only_what_is_fresh_leaves_a_node() -> None:
    sealed = SCHEME.encrypt(np.ones(2))
    product = SCHEME.multiply(sealed, 3.0)
    received = SCHEME.load(SCHEME.dump(sealed), Shape(2))
    for stale in (product, received, SCHEME.total(product), SCHEME.add(received, product)):
        with pytest.raises(LocalError, match="re-randomised"):
            SCHEME.dump(stale)
    for fresh in (SCHEME.rerandomise(product), SCHEME.add(received, SCHEME.rerandomise(product))):
        SCHEME.dump(fresh)


def test_what_a_peer_sends_has_the_expected_shape() -> None:
    shape = Shape(3, 2)
    data = SCHEME.dump(SCHEME.encrypt(np.arange(3.0), 2))
    assert SCHEME.decrypt(SCHEME.load(data, shape)).tolist() == [0, 1, 2]
    summed = SCHEME.dump(SCHEME.total(SCHEME.encrypt(np.arange(3.0), 2)))
    assert SCHEME.decrypt(SCHEME.load(summed, Shape(3, 2, summed=True))).tolist() == [3, 3]
    nan = data[:-8] + np.array([np.nan]).tobytes()
    for wrong, other in ((data[:-1], shape), (data, Shape(2, 3)), (summed, shape), (b"", shape), (nan, shape)):
        with pytest.raises(InvalidMessage):
            SCHEME.load(wrong, other)


def test_shapes_and_keys_are_bounded() -> None:
    for rows, columns in ((0, 1), (1, 0), (MOST_ROWS + 1, 1)):
        with pytest.raises(LocalError, match="columns"):
            Shape(rows, columns)
    with pytest.raises(LocalError, match="different shapes"):
        SCHEME.add(SCHEME.encrypt(np.ones(2)), SCHEME.encrypt(np.ones(3)))
    with pytest.raises(InvalidMessage, match="no public key"):
        PlainScheme.open_key(b"key")
    assert SCHEME.flooding(100, 100, 100) == 0
