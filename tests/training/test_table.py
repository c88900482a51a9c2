"""Cells become numbers or an error that says where; a refused row leaves no trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.matrix import dense_rows
from flnet.training.table import BadRow, Column, RowBuilder, Table, gather

COLUMNS = [Column("a"), Column("b", frozenset({0.0, 1.0}))]


def held(builder: RowBuilder) -> Array:
    matrix = builder.matrix()
    return dense_rows(matrix, np.arange(matrix.shape[0]))


def test_a_refused_row_leaves_no_trace() -> None:
    dense, sparse = RowBuilder(COLUMNS), RowBuilder(COLUMNS)
    dense.add_dense(["1", "1"], "here")
    sparse.add_sparse([("0", "1"), ("1", "1")], "here")
    for cells in (["2", "7"], ["2"], ["?", "1"]):
        with pytest.raises(BadRow):
            dense.add_dense(cells, "here")
    for named in ([("0", "2"), ("1", "7")], [("0", "2"), ("9", "1")]):
        with pytest.raises(BadRow):
            sparse.add_sparse(named, "here")
    assert held(dense).tolist() == held(sparse).tolist() == [[1, 1]]


def test_a_number_too_long_for_python_is_no_number() -> None:
    with pytest.raises(BadRow, match="expected a number"):
        Column("a").number("9" * 5000, "here")


def test_rows_are_skipped_only_when_asked_and_are_counted() -> None:
    rows = [(3, ["1", "1"]), (4, ["", "1"]), (5, ["x", "0"])]
    builder = RowBuilder(COLUMNS)
    table = gather(Path("f"), builder, rows, builder.add_dense, "skip")
    assert (table.values.shape, table.skipped) == ((1, 2), 2)
    assert table.first_skipped == "f, line 4: 'a' has no value (an empty cell)"
    other = RowBuilder(COLUMNS)
    with pytest.raises(BadRow, match="f, line 4"):
        gather(Path("f"), other, rows, other.add_dense, "stop")


def test_columns_are_found_by_name() -> None:
    table = Table(("a", "b", "c"), np.zeros((1, 3), np.float32))
    assert table.numbers_of(["c", "a"], "f").tolist() == [2, 0]
    with pytest.raises(TrainerError, match="f has no column x; it has a, b, c"):
        table.numbers_of(["a", "x"], "f")
