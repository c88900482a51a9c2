"""Rows with labels in memory, dense or sparse, and the two formats they are read from: .npz and IDX.

IDX is the format of MNIST and its relatives, plain or compressed with gzip: two zero bytes, one byte for the type of
the numbers, one for the number of dimensions, each dimension as a big-endian uint32, then the numbers in C order
(LeCun, Cortes, Burges: "The MNIST database").
"""

from __future__ import annotations

import gzip
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.datasets.zip_source import ZipSource
from flnet.errors import TrainerError
from flnet.params.params import Array, Params
from flnet.text import text

Rows = NDArray[np.int64]  # row numbers


@dataclass(frozen=True)
class Labelled:
    """Rows `x` (the first axis counts them) and their labels `y`, one each."""

    x: Array
    y: Array

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise TrainerError(
                text("{count} rows came with {labels} labels; expected one each", len(self.x), len(self.y))
            )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Labelled:
        """These rows, by number or by mask, copied out of a mapped file."""
        return Labelled(np.ascontiguousarray(self.x[rows]), np.ascontiguousarray(self.y[rows]))


class HasRows(Protocol):
    """Rows and labels, in any form."""

    @property
    def x(self) -> Array:
        """The rows."""
        ...

    @property
    def y(self) -> Array:
        """Their labels."""
        ...


def fingerprint(sides: Mapping[str, HasRows]) -> str:
    """SHA-256 over the rows and labels of each side of a split, as 64 hex digits: equal for equal data."""
    arrays = {f"{side}.x": data.x for side, data in sides.items()}
    return Params({**arrays, **{f"{side}.y": data.y for side, data in sides.items()}}).digest


def shard(labels: Array, part: tuple[int, int], seed: int) -> Rows:
    """Row numbers of part i of n (from 1), in a seeded order, with the same share of every label.

    The n parts are disjoint and hold all rows; each label is spread evenly over them (counts differ by one
    at most). All nodes that call it with the same labels and seed agree on the parts.
    """
    index, count = part
    return np.sort(_by_label(labels, seed)[index - 1 :: count])


def _by_label(labels: Array, seed: int) -> Rows:
    """All row numbers, label after label, shuffled within each label."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


MOST_TIMES_LARGER = 200  # than a packed file; arrays of one number get there, data do not
SMALL = 100_000_000  # bytes, of which that does not matter
MOST_DENSE_BYTES = 4 * 1024**3  # of sparse rows that are written out
UNREADABLE = (  # what numpy and zipfile raise for a damaged .npz file, or for one whose arrays claim any size
    *(OSError, ValueError, EOFError, TypeError, AttributeError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an .npz file that may come from anybody: its arrays are read as they are asked for, and none is pickled.

    Raises:
        TrainerError: its arrays have more bytes than data of this size can have.
        UNREADABLE: it is damaged, now or when an array is read.
    """
    with ZipSource(path) as raw:  # opened here: numpy leaves a file open whose zip is broken
        size, packed = unpacked_size(raw), path.stat().st_size
        if size > max(SMALL, MOST_TIMES_LARGER * packed):
            raise TrainerError(
                text(
                    "{path} has {packed} bytes, and {size} unpacked; expected at most {times} times as many",
                    path,
                    f"{packed:,}",
                    f"{size:,}",
                    MOST_TIMES_LARGER,
                )
            )
        with np.load(raw, allow_pickle=False) as file:
            yield file


def unpacked_size(raw: IO[bytes]) -> int:
    """The bytes of all files in a zip archive, such as an .npz file; reading never gives more than that.

    Raises:
        zipfile.BadZipFile: it is none.
    """
    with zipfile.ZipFile(raw) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    raw.seek(0)
    return size


def read_npz(path: Path, names: Sequence[str] = ("x_train", "y_train", "x_test", "y_test")) -> tuple[Array, ...]:
    """Arrays of an .npz file by name; pickled objects are refused.

    Raises:
        TrainerError: the file cannot be read, unpacks to far more than data do, or a name is missing.
    """
    try:
        with open_npz(path) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise TrainerError(
                    text("{path} lacks {names}; it has {known}", path, ", ".join(missing), ", ".join(file.files))
                )
            return tuple(_array(file[name]) for name in names)
    except UNREADABLE as exc:
        raise TrainerError(text("{path} cannot be read as an .npz file: {reason}", path, exc)) from exc


def _array(value: Any) -> Array:
    return np.asarray(value)


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
                text(
                    "sparse rows of shape {rows} x {columns} have values, columns and positions of "
                    "shapes {one}, {two}, {three}; expected n, n and {expected}",
                    rows,
                    columns,
                    self.data.shape,
                    self.indices.shape,
                    self.indptr.shape,
                    rows + 1,
                )
            )
        ends = self.indptr[[0, -1]].tolist()
        if ends != [0, len(self.data)] or (np.diff(self.indptr) < 0).any():
            raise TrainerError(text("positions of sparse rows must ascend from 0 to {most}", len(self.data)))
        if self.indices.size and not (self.indices.min() >= 0 and self.indices.max() < columns):
            raise TrainerError(text("sparse rows name columns outside 0 to {most}", columns - 1))

    def dense(self, rows: Array) -> Array:
        """These rows, by number, as float32 (n, columns).

        Raises:
            TrainerError: they would fill memory: a few bytes can state any number of columns.
        """
        if (size := 4 * len(rows) * self.shape[1]) > MOST_DENSE_BYTES:
            raise TrainerError(
                text(
                    "{rows} sparse rows with {columns} columns take {size} bytes; expected at most {most}",
                    f"{len(rows):,}",
                    f"{self.shape[1]:,}",
                    f"{size:,}",
                    f"{MOST_DENSE_BYTES:,}",
                )
            )
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


_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 8
MOST_BYTES = 1024 * 1024 * 1024  # of an unpacked file; the largest of the relatives has about half of that


def read_idx(path: Path) -> Array:
    """The array in an idx file; a plain file is mapped and not read, so that only used rows cost memory.

    Raises:
        TrainerError: the file cannot be read, is no idx file, or is shorter or longer than it says.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            return _parsed(path, np.frombuffer(_unpacked(path), np.uint8))
        return _parsed(path, np.memmap(path, np.uint8, mode="r"))
    except (OSError, EOFError, zlib.error, ValueError) as exc:  # ValueError: an empty file cannot be mapped
        raise TrainerError(text("{path} cannot be read as an idx file: {reason}", path, exc)) from exc


def _unpacked(path: Path) -> bytes:
    """The uncompressed content, up to a limit: a few megabytes can expand to gigabytes."""
    with gzip.open(path) as file:
        data: bytes = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TrainerError(
            text(
                "{path} holds more than {count} bytes; unpack such a file first, so that it is mapped",
                path,
                MOST_BYTES,
            )
        )
    return data


def _parsed(path: Path, data: Array) -> Array:
    head = bytes(data[:4])
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES or not 1 <= head[3] <= _MAX_DIMENSIONS:
        raise TrainerError(
            text("{path} is no idx file: it begins with {found}", path, head.hex(" ") or text("nothing"))
        )
    start = 4 + 4 * head[3]
    shape = tuple(int(n) for n in np.frombuffer(bytes(data[4:start]).ljust(start - 4, b"\0"), ">u4"))
    dtype = np.dtype(_DTYPES[head[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if data.size != expected:
        raise TrainerError(
            text("{path} is damaged: expected {expected} bytes, but it has {size}", path, expected, data.size)
        )
    return data[start:].view(dtype).reshape(shape)
