"""Tables of numbers read from text, row by row: what is no number is found, named, and never guessed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.matrix import Matrix, SparseRows

OnBadRows = Literal["stop", "skip"]
T = TypeVar("T")

_LARGEST = float(np.finfo(np.float32).max)
_ABSENT = frozenset({"", "?"})


class BadRow(TrainerError):
    """A row that cannot be used; the text says where and why."""


@dataclass(frozen=True)
class Column:
    """What a column may hold: any number, or only those in `allowed`."""

    name: str
    allowed: frozenset[float] | None = None

    def number(self, text: str, where: str) -> float:
        """The value of one cell.

        Raises:
            BadRow: it is missing, no number, not finite, beyond float32, or not allowed.
        """
        text = text.strip()
        if text in _ABSENT:
            raise BadRow(f"{where}: {self.name!r} has no value ({text or 'an empty cell'})")
        try:
            value = math.nan if "_" in text else float(text)  # Python alone reads 1_000
        except ValueError:
            value = math.nan
        if self.fits(value):
            return value
        expected = "a number" if self.allowed is None else " or ".join(f"{a:g}" for a in sorted(self.allowed))
        raise BadRow(f"{where}: {self.name!r} is {text[:40]!r}; expected {expected}")

    def fits(self, value: float) -> bool:
        """Whether this number may stand in the column."""
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
        """Where these columns stand.

        Raises:
            TrainerError: one is not there.
        """
        places = {name: place for place, name in enumerate(self.names)}
        absent = [name for name in names if name not in places]
        if absent:
            known = ", ".join(self.names[:8]) + (" ..." if len(self.names) > 8 else "")
            raise TrainerError(f"{what} has no column {', '.join(absent[:5])}; it has {known}")
        return np.array([places[name] for name in names], np.int64)


class RowBuilder:
    """Gathers rows: all dense or all sparse, as the first one is."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self._sparse: bool | None = None
        self._values, self._indices, self._ends = array("f"), array("q"), array("q", [0])
        self._choosy = [j for j, column in enumerate(columns) if column.allowed is not None]

    def add_dense(self, cells: Sequence[str], where: str) -> None:
        """Add a row with a cell for each column.

        Raises:
            BadRow: the row cannot be used; nothing was added.
        """
        self._is_to_be(False, where)
        if len(cells) != len(self.columns):
            raise BadRow(f"{where}: {len(cells)} values for {len(self.columns)} columns")
        self._values.extend(
            self._fast(cells) or [c.number(x, where) for c, x in zip(self.columns, cells, strict=True)]
        )
        self._ends.append(len(self._values))

    def add_sparse(self, cells: Iterable[tuple[str, str]], where: str) -> None:
        """Add a row of (column number, value); what is not named is 0.

        Raises:
            BadRow: the row cannot be used; nothing was added.
        """
        self._is_to_be(True, where)
        found: dict[int, float] = {}
        for place, text in cells:
            if not (place.isascii() and place.isdigit() and int(place) < len(self.columns)):
                raise BadRow(f"{where}: {place[:40]!r} is no column; expected 0 to {len(self.columns) - 1}")
            if int(place) in found:
                raise BadRow(f"{where}: column {place} is named twice")
            found[int(place)] = self.columns[int(place)].number(text, where)
        self._indices.extend(found.keys())
        self._values.extend(found.values())
        self._ends.append(len(self._values))

    def matrix(self) -> Matrix:
        """All rows."""
        data = np.array(self._values, np.float32)
        if not self._sparse:
            return data.reshape(-1, len(self.columns))
        shape = (len(self._ends) - 1, len(self.columns))
        return SparseRows(data, np.array(self._indices, np.int64), np.array(self._ends, np.int64), shape)

    def _is_to_be(self, sparse: bool, where: str) -> None:
        if self._sparse is None:
            self._sparse = sparse
        if sparse != self._sparse:
            raise BadRow(f"{where}: dense and sparse rows are mixed")

    def _fast(self, cells: Sequence[str]) -> list[float] | None:
        """All cells at once, or None: then the slow way finds the one at fault."""
        try:
            numbers = list(map(float, cells))
        except ValueError:
            return None
        good = all(-_LARGEST <= n <= _LARGEST for n in numbers) and not any("_" in cell for cell in cells)
        return numbers if good and all(self.columns[j].fits(numbers[j]) for j in self._choosy) else None


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
            add(row, f"{path}, line {number}")
            used += 1
        except BadRow as exc:
            if on_bad_rows == "stop":
                raise
            skipped, first = skipped + 1, first or str(exc)
    if not used:
        raise TrainerError(f"{path} has no rows" + (f" that can be used: {first}" if skipped else ""))
    return Table(tuple(column.name for column in builder.columns), builder.matrix(), skipped, first)
