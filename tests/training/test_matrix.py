"""Sparse rows are the same numbers as dense ones; what cannot be a matrix is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.matrix import SparseRows, dense_rows, pick_columns

matrices = st.tuples(st.integers(0, 8), st.integers(1, 8)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.sampled_from([0.0, 0.0, 1.0, -2.5]))
)


def sparse(dense: Array) -> SparseRows:
    rows, columns = np.nonzero(dense)
    indptr = np.r_[0, np.cumsum(np.count_nonzero(dense, axis=1))].astype(np.int64)
    return SparseRows(dense[rows, columns], columns, indptr, (dense.shape[0], dense.shape[1]))


@given(matrices)
def test_any_rows_and_columns_are_those_of_the_dense_matrix(dense: Array) -> None:
    rng = np.random.default_rng(len(dense))
    rows = rng.integers(0, len(dense), 5) if len(dense) else np.empty(0, np.int64)
    columns = rng.permutation(dense.shape[1])[: max(1, dense.shape[1] // 2)]
    picked = pick_columns(sparse(dense), columns)
    assert (dense_rows(sparse(dense), rows) == dense[rows]).all()
    assert (dense_rows(picked, rows) == dense[rows][:, columns]).all()
    assert (dense_rows(pick_columns(dense, columns), rows) == dense[rows][:, columns]).all()


def test_rows_come_as_float32() -> None:
    assert dense_rows(np.eye(3, dtype=np.int64), np.array([2])).dtype == np.float32


@pytest.mark.parametrize(
    ("data", "indices", "indptr", "shape", "rule"),
    [
        ([1.0], [0, 1], [0, 1], (1, 2), "expected n, n and 2"),
        ([1.0], [0], [0, 1], (2, 2), "expected n, n and 3"),
        ([1.0], [0], [0, 2], (1, 2), "ascend from 0 to 1"),
        ([1.0, 1.0], [0, 1], [0, 2, 1, 2], (3, 2), "ascend from 0 to 2"),
        ([1.0], [2], [0, 1], (1, 2), "outside 0 to 1"),
        ([1.0], [-1], [0, 1], (1, 2), "outside 0 to 1"),
    ],
)
def test_what_is_no_matrix_is_refused(
    data: list[float], indices: list[int], indptr: list[int], shape: tuple[int, int], rule: str
) -> None:
    with pytest.raises(TrainerError, match=rule):
        SparseRows(np.array(data), np.array(indices), np.array(indptr), shape)
