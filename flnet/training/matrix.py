"""Rows of numbers, most of them 0: kept as their non-zero values, made dense only where they are used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array


@dataclass(frozen=True)
class SparseRows:
    """A matrix in compressed rows: row i has `data[a:b]` in the columns `indices[a:b]`, a, b = indptr[i:i+2].

    Attributes:
        data: values, as many as `indices`.
        indices: column numbers.
        indptr: rows + 1 positions, ascending from 0.
        shape: rows, columns.
    """

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        rows, columns = self.shape
        whole = all(a.ndim == 1 for a in (self.data, self.indices, self.indptr))
        if not whole or len(self.indptr) != rows + 1 or len(self.data) != len(self.indices):
            raise TrainerError(
                f"sparse rows of shape {rows} x {columns} have values, columns and positions of shapes "
                f"{self.data.shape}, {self.indices.shape}, {self.indptr.shape}; expected n, n and {rows + 1}"
            )
        ends = self.indptr[[0, -1]].tolist()
        if ends != [0, len(self.data)] or (np.diff(self.indptr) < 0).any():
            raise TrainerError(f"positions of sparse rows must ascend from 0 to {len(self.data)}")
        if self.indices.size and not (self.indices.min() >= 0 and self.indices.max() < columns):
            raise TrainerError(f"sparse rows name columns outside 0 to {columns - 1}")

    def dense(self, rows: Array) -> Array:
        """These rows, by number, as float32 (n, columns)."""
        starts, counts = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        out = np.zeros((len(rows), self.shape[1]), np.float32)
        into = np.repeat(np.arange(len(rows)), counts)
        at = np.arange(len(into)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        out[into, self.indices[at]] = self.data[at]
        return out

    def columns(self, numbers: Array) -> SparseRows:
        """These columns only, in this order; each number at most once."""
        new = np.full(self.shape[1], -1, np.int64)
        new[numbers] = np.arange(len(numbers))
        renamed = new[self.indices]
        kept = renamed >= 0
        indptr = np.r_[0, np.cumsum(kept)][self.indptr]
        return SparseRows(self.data[kept], renamed[kept], indptr, (self.shape[0], len(numbers)))


Matrix = Array | SparseRows


def dense_rows(matrix: Matrix, rows: Array) -> Array:
    """These rows, by number, as float32 (n, columns)."""
    if isinstance(matrix, SparseRows):
        return matrix.dense(rows)
    return np.ascontiguousarray(matrix[rows], dtype=np.float32)


def pick_columns(matrix: Matrix, numbers: Array) -> Matrix:
    """These columns, in this order."""
    return matrix.columns(numbers) if isinstance(matrix, SparseRows) else matrix[:, numbers]
