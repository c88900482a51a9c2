"""Tables of numbers, made from rows of text; and reading such rows within bounds.

A cell that is no number is an error with file and line, never a guess.
"""

from __future__ import annotations

import csv
import difflib
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Literal, TextIO, TypeVar

import numpy as np

from flnet.datasets.labelled import Matrix, SparseRows
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.text import composed as in_nfc
from flnet.text import text

OnBadRows = Literal["stop", "skip"]
T = TypeVar("T")

MOST_COLUMNS = 100_000  # of a table
MOST_VALUES = 100_000_000  # of all rows, where the file has fewer bytes: nominal columns, sparse rows
LONGEST_ROW = 4 * 1024 * 1024  # characters of a row, and of the header
_LARGEST = float(np.finfo(np.float32).max)
_ABSENT = frozenset({"", "?"})
ABSENT = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})  # in tables of people


class BadRow(TrainerError):
    """A row that cannot be used; the text says where and why."""


@dataclass(frozen=True)
class ColumnSpec:
    """A column and its allowed values: any number, those in `allowed`, or one of `words`.

    Attributes:
        words: of a nominal column; each of them becomes a column of its own, 1 where the row has this word.
        is_ignored: whether its cells may be anything and are left out.
    """

    name: str
    allowed: frozenset[float] | None = None
    words: tuple[str, ...] = ()
    is_ignored: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns of numbers that this one becomes."""
        if self.is_ignored:
            return ()
        return tuple(f"{self.name}={word}" for word in self.words) or (self.name,)

    def numbers(self, cell: str, where: str) -> list[float]:
        """A number for each of `inputs`.

        Raises:
            BadRow: the cell is not allowed.
        """
        if self.is_ignored:
            return []
        if not self.words:
            return [self.number(cell, where)]
        place = self.place_of(cell, where)
        return [float(place == other) for other in range(len(self.words))]

    def place_of(self, cell: str, where: str) -> int:
        """The position of a nominal column's cell among its words.

        Raises:
            BadRow: it is none of them.
        """
        cell = cell.strip()
        place = self._places.get(cell)
        if place is not None:
            return place
        if cell in _ABSENT:
            raise BadRow(
                text(
                    "{where}: {name} has no value ({value})", where, repr(self.name), cell or text("an empty cell")
                )
            )
        raise BadRow(
            text(
                "{where}: {name} is {value}; expected one of {expected}",
                where,
                repr(self.name),
                repr(cell[:40]),
                shown(self.words),
            )
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def number(self, cell: str, where: str) -> float:
        """The value of one cell.

        Raises:
            BadRow: it is missing, no number, not finite, beyond float32, or not allowed.
        """
        cell = cell.strip()
        if cell in _ABSENT:
            raise BadRow(
                text(
                    "{where}: {name} has no value ({value})", where, repr(self.name), cell or text("an empty cell")
                )
            )
        try:
            value = math.nan if "_" in cell else float(cell)  # Python alone reads 1_000
        except ValueError:
            value = math.nan
        if self.fits(value):
            return value
        expected = "a number" if self.allowed is None else " or ".join(f"{a:g}" for a in sorted(self.allowed))
        raise BadRow(
            text(
                "{where}: {name} is {value}; expected {expected}",
                where,
                repr(self.name),
                repr(cell[:40]),
                expected,
            )
        )

    def fits(self, value: float) -> bool:
        """Whether the column allows this number."""
        return -_LARGEST <= value <= _LARGEST and (self.allowed is None or value in self.allowed)


@dataclass(frozen=True)
class Table:
    """A table of numbers.

    Attributes:
        names: of the columns.
        values: float32, rows x columns.
        skipped: rows left out because they were bad.
        first_skipped: why the first of them was.
    """

    names: tuple[str, ...]
    values: Matrix
    skipped: int = 0
    first_skipped: str = ""

    def numbers_of(self, names: Sequence[str], what: str) -> Array:
        """Positions of these columns.

        Raises:
            TrainerError: one is not there.
        """
        places = {name: place for place, name in enumerate(self.names)}
        absent = [name for name in names if name not in places]
        if absent:
            raise TrainerError(
                text("{path} has no column {names}; {words}", what, shown(absent), near(absent, self.names))
            )
        return np.array([places[name] for name in names], np.int64)


class RowBuilder:
    """Collects rows, all dense or all sparse like the first one.

    Attributes:
        columns: of the file.
        names: of the columns of numbers that they become.
    """

    def __init__(self, columns: Sequence[ColumnSpec]) -> None:
        self.columns = columns
        self.names = tuple(name for column in columns for name in column.inputs)
        self._sparse: bool | None = None
        self._values, self._indices, self._ends = array("f"), array("q"), array("q", [0])
        self._used = [j for j, column in enumerate(columns) if not column.is_ignored]
        self._choosy = [at for at, j in enumerate(self._used) if columns[j].allowed is not None]
        widths = [len(column.inputs) for column in columns]
        self._starts = list(accumulate(widths, initial=0))
        self._nominal = [j for j, column in enumerate(columns) if column.words and not column.is_ignored]

    def add_dense(self, cells: Sequence[str], where: str) -> None:
        """Add a row with a cell for each column.

        Raises:
            BadRow: the row cannot be used; nothing was added.
        """
        self._is_to_be(False, where)
        if len(cells) != len(self.columns):
            raise BadRow(
                text("{where}: {count} values for {number} columns", where, len(cells), len(self.columns))
            )
        fast = None if self._nominal else self._fast([cells[j] for j in self._used])
        self._values.extend(
            fast or [n for c, x in zip(self.columns, cells, strict=True) for n in c.numbers(x, where)]
        )
        self._end_row(where)

    def add_sparse(self, cells: Iterable[tuple[str, str]], where: str) -> None:
        """Add a row of (column number, value); what is not named is 0, or the first word of a nominal column.

        Raises:
            BadRow: the row cannot be used; nothing was added.
        """
        self._is_to_be(True, where)
        named: set[int] = set()
        values: dict[int, float] = {}
        for place, value in cells:
            if not (place.isascii() and place.isdigit() and int(place) < len(self.columns)):
                raise BadRow(
                    text(
                        "{where}: {column} is no column; expected 0 to {most}",
                        where,
                        repr(place[:40]),
                        len(self.columns) - 1,
                    )
                )
            number = int(place)
            if number in named:
                raise BadRow(text("{where}: column {column} is named twice", where, place))
            named.add(number)
            column, start = self.columns[number], self._starts[number]
            if column.words and not column.is_ignored:
                values[start + column.place_of(value, where)] = 1.0
            elif not column.is_ignored:
                values[start] = column.number(value, where)
        values |= {self._starts[number]: 1.0 for number in self._nominal if number not in named}
        self._indices.extend(values.keys())
        self._values.extend(values.values())
        self._end_row(where)

    def matrix(self) -> Matrix:
        """All rows."""
        data = np.array(self._values, np.float32)
        if not self._sparse:
            return data.reshape(len(self._ends) - 1, len(self.names))
        shape = (len(self._ends) - 1, len(self.names))
        return SparseRows(data, np.array(self._indices, np.int64), np.array(self._ends, np.int64), shape)

    def _end_row(self, where: str) -> None:
        if self._nominal:
            check_values(len(self._values), where)
        self._ends.append(len(self._values))

    def _is_to_be(self, sparse: bool, where: str) -> None:
        if self._sparse is None:
            self._sparse = sparse
        if sparse != self._sparse:
            raise BadRow(text("{where}: dense and sparse rows are mixed", where))

    def _fast(self, cells: Sequence[str]) -> list[float] | None:
        """Convert all cells at once; None if one is bad, which the slow path then finds."""
        try:
            numbers = list(map(float, cells))
        except ValueError:
            return None
        good = all(-_LARGEST <= n <= _LARGEST for n in numbers) and not any("_" in cell for cell in cells)
        return (
            numbers
            if good and all(self.columns[self._used[at]].fits(numbers[at]) for at in self._choosy)
            else None
        )


def gather(
    path: Path,
    builder: RowBuilder,
    rows: Iterable[tuple[int, T]],
    add: Callable[[T, str], None],
    on_bad_rows: OnBadRows,
) -> Table:
    """Add all numbered rows of a file to a builder.

    Args:
        path: for the words of errors.
        builder: gathers the rows.
        rows: line number and row.
        add: adds one row to the builder; is told where the row stands.
        on_bad_rows: "stop" raises at the first bad row, "skip" leaves out and counts them.

    Raises:
        BadRow: the first one, under "stop".
        TrainerError: there are no rows.
    """
    skipped, first, used = 0, "", 0
    for number, row in rows:
        try:
            add(row, text("{path}, line {line}", path, number))
            used += 1
        except BadRow as exc:
            if on_bad_rows == "stop":
                raise
            skipped, first = skipped + 1, first or str(exc)
    if not used:
        why = text(" that can be used: {reason}", first) if skipped else ""
        raise TrainerError(text("{path} has no rows{why}", path, why))
    return Table(builder.names, builder.matrix(), skipped, first)


class BoundedLines:
    """The lines of a text file, read so that no row costs more memory than LONGEST_ROW characters.

    A row may have several lines, where quotes hold them together: who reads rows says where each begins.
    """

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file, self._in_row = path, file, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(LONGEST_ROW + 1 - self._in_row)
        self._in_row += len(line)
        if self._in_row > LONGEST_ROW:
            raise TrainerError(
                text("{path} has a line or a row of more than {most} characters", self._path, f"{LONGEST_ROW:,}")
            )
        if not line:
            raise StopIteration
        return line

    def begin_row(self) -> None:
        """The next line begins a row."""
        self._in_row = 0


def csv_rows(path: Path, file: TextIO, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file in Unicode NFC, the header first, each with the number of its last line.

    Raises:
        TrainerError: a row is too long, or a cell has a long run of combining marks.
        csv.Error: it is no CSV.
    """
    lines = BoundedLines(path, file)
    reader = csv.reader(lines, strict=True, delimiter=separator)
    for cells in reader:
        lines.begin_row()
        if all(map(str.isascii, cells)):
            yield reader.line_num, cells
        else:
            where = text("{path}, line {line}", path, reader.line_num)
            yield reader.line_num, [composed(cell, where) for cell in cells]


def composed(words: str, where: str) -> str:
    """The same text in Unicode NFC.

    Raises:
        TrainerError: it has a long run of combining marks; see `flnet.text.composed`.
    """
    try:
        return in_nfc(words)
    except ValueError as exc:
        raise TrainerError(text("{where}: {reason}", where, exc)) from exc


def check_values(values: int, where: str, size: int = 0) -> None:
    """Refuse rows that stand for more values than MOST_VALUES and than their file has bytes.

    Args:
        values: of all rows up to here.
        size: of the file, in bytes.

    Raises:
        TrainerError: there are more.
    """
    if values > max(MOST_VALUES, size):
        raise TrainerError(
            text(
                "{where}: more than {most} values; ignore columns, or bring fewer rows", where, f"{MOST_VALUES:,}"
            )
        )


def check_width(columns: int, where: str) -> None:
    """Refuse a table that is too wide.

    Raises:
        TrainerError: it has more than MOST_COLUMNS columns.
    """
    if columns > MOST_COLUMNS:
        raise TrainerError(
            text("{where}: {count} columns; expected at most {most}", where, f"{columns:,}", f"{MOST_COLUMNS:,}")
        )


_SHOWN = 12  # columns that an error names
_LONGEST_SHOWN = 100  # characters of what an error names
_COMPARED = 2000  # columns with which a misspelt name is compared


def near(absent: Sequence[str], known: Sequence[str]) -> str:
    """What names that are not there may have been meant to be, for a message; else the first ones that there are."""
    found = [name for each in absent[:_SHOWN] for name in difflib.get_close_matches(each, known[:_COMPARED], n=1)]
    if found:
        return text("did you mean {names}", shown(list(dict.fromkeys(found))))
    return text("it has {names}", shown(known))


def _cut(words: str) -> str:
    """Words of at most _LONGEST_SHOWN characters, cut between two of them where possible."""
    if len(words) <= _LONGEST_SHOWN:
        return words
    kept = words[: _LONGEST_SHOWN - 3]
    return f"{kept.rpartition(' ')[0] or kept} ..."


def shown(names: Sequence[str]) -> str:
    """Names or short sentences for a message: the first ones, long ones cut, and the number of the others."""
    words = ", ".join(_cut(name) for name in names[:_SHOWN])
    return (
        text("{names} and {count} more", words, len(names) - _SHOWN)
        if len(names) > _SHOWN
        else words or text("none")
    )
