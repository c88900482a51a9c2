"""Rows of text from CSV, Parquet or ARFF files, whatever the cells are.

CSV is read with the standard library, as UTF-8. Parquet needs pyarrow, an optional extra; its cells are turned into text,
so that all kinds of files pass the same checks. All text is made Unicode NFC, so that "größe" is one name, whether a Mac
or another machine wrote it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from flnet.datasets.arff import arff_rows
from flnet.datasets.labelled import MOST_TIMES_LARGER, SMALL
from flnet.datasets.tables import LONGEST_ROW, check_width, composed, csv_rows, shown
from flnet.errors import DataMissing, TrainerError
from flnet.installing import install
from flnet.text import text

SEPARATORS = (",", ";", "\t")
LONGEST_CELL = csv.field_size_limit()  # characters, in a Parquet file as in CSV
_LONGEST = 200  # characters of a column's name
_BATCH = 128 * 1024 * 1024  # bytes of the rows of a Parquet file that are read at once
_CELL, _SIGNS = 64, 5  # bytes of a short cell, and of what a byte of data takes as data and as text


@dataclass(frozen=True)
class TextRows:
    """A header, and rows that are read on demand.

    Attributes:
        header: names of the columns, each once.
        rows: where the row stands ("file, line 2") and its cells; of any number, which the reader checks.
        words: the values of each nominal attribute of an ARFF file.
    """

    header: tuple[str, ...]
    rows: Iterator[tuple[str, list[str]]]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@contextmanager
def text_rows(path: Path, separator: str = ",") -> Iterator[TextRows]:
    """Open a table; its rows can be read until the block ends.

    Raises:
        TrainerError: the file is empty, damaged, no UTF-8, or its header has a name twice or none.
        DataMissing: it is Parquet, and pyarrow is not installed.
    """
    if path.is_dir():
        raise TrainerError(text("{path} is a folder; expected a .csv, .parquet or .arff file", path))
    kind = path.suffix.lower()
    with (
        _parquet(path)
        if kind in (".parquet", ".pq")
        else _arff(path)
        if kind == ".arff"
        else _csv(path, separator)
    ) as rows:
        yield rows


@contextmanager
def _csv(path: Path, separator: str) -> Iterator[TextRows]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv_rows(path, file, separator)
            _, names = next(rows, (1, []))
            header = _checked(path, text("{path}, line {line}", path, 1), [cell.strip() for cell in names])
            yield TextRows(
                header, ((text("{path}, line {line}", path, number), cells) for number, cells in rows if cells)
            )
    except (csv.Error, UnicodeDecodeError) as exc:
        raise TrainerError(text("{path} is not CSV text in UTF-8: {reason}", path, exc)) from exc
    except OSError as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc


@contextmanager
def _arff(path: Path) -> Iterator[TextRows]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            columns, rows = arff_rows(path, file)
            header = _checked(path, str(path), [column.name.strip() for column in columns])
            words = {name: column.words for name, column in zip(header, columns, strict=True) if column.words}
            yield TextRows(
                header, ((text("{path}, line {line}", path, number), cells) for number, cells in rows), words
            )
    except UnicodeDecodeError as exc:
        raise TrainerError(text("{path} is not UTF-8 text: {reason}", path, exc)) from exc
    except OSError as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc


@contextmanager
def _parquet(path: Path) -> Iterator[TextRows]:
    try:
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401, PLC0415
    except ImportError as exc:
        how = text("install it ({command}), or save the table as CSV", install("table"))
        raise DataMissing(
            text("{path} is a Parquet file, and pyarrow, which reads those, is not installed", path), how
        ) from exc
    with ExitStack() as opened:
        with _arrow_in_words(path):
            file = opened.enter_context(_opened_parquet(path))
            header = _checked(path, str(path), [_text(path, name).strip() for name in file.schema_arrow.names])
        yield TextRows(header, _parquet_rows(path, file))


@contextmanager
def _arrow_in_words(path: Path) -> Iterator[None]:
    """Turn what reading a Parquet file raises into TrainerError."""
    try:
        yield
    except TrainerError:
        raise
    except Exception as exc:  # Arrow raises whatever its kinds of columns bring about
        reason = str(exc) or type(exc).__name__
        raise TrainerError(text("{path} cannot be read as a Parquet file: {reason}", path, reason)) from exc


def _opened_parquet(path: Path) -> Any:
    """The file, opened so that a text that is written once and stands in many rows is in memory once.

    Raises:
        TrainerError: it states that it unpacks to much more than it has bytes.
    """
    from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415

    about = parquet.read_metadata(path)
    sizes = (about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if max(sizes, default=0) > max(SMALL, MOST_TIMES_LARGER * path.stat().st_size):  # they unpack one by one
        raise TrainerError(text("{path} would unpack to more than {most} times its size", path, MOST_TIMES_LARGER))
    kinds = ("string", "large_string", "string_view", "binary", "large_binary")
    texts = [column.name for column in about.schema.to_arrow_schema() if str(column.type) in kinds]
    return parquet.ParquetFile(path, metadata=about, read_dictionary=texts)


def _parquet_rows(path: Path, file: Any) -> Iterator[tuple[str, list[str]]]:
    """The rows, read so that no batch of them costs more memory than about _BATCH bytes and the longest row."""
    names, kinds = file.schema_arrow.names, file.schema_arrow.types
    nested = {name for name, kind in zip(names, kinds, strict=True) if _width(kind) is None}
    flat = {name: None for name in names if not any(part in nested for part in _paths(name))}
    widths = [_width(kind) or 0 for kind in kinds]
    if max(widths) > LONGEST_CELL:
        raise TrainerError(_too_long(path, names[widths.index(max(widths))]))
    number, most = 0, max(1, min(4096, _BATCH // sum(_CELL + _SIGNS * width for width in widths)))
    with _arrow_in_words(path):
        for batch in file.iter_batches(batch_size=most, columns=list(flat)):
            columns = [
                _cells_of(path, name, batch.column(name)) if name in flat else [str(kind)] * batch.num_rows
                for name, kind in zip(names, kinds, strict=True)
            ]
            for cells in zip(*columns, strict=True):
                number += 1
                if sum(map(len, cells)) > LONGEST_ROW:
                    raise TrainerError(
                        text("{path} has a line or a row of more than {most} characters", path, f"{LONGEST_ROW:,}")
                    )
                yield f"{path}, row {number}", list(cells)


def _paths(name: str) -> Iterator[str]:
    """What pyarrow would read with this column: a name with dots may also be one inside of others."""
    return accumulate(name.split("."), "{}.{}".format)


def _width(kind: Any) -> int | None:
    """The bytes of a cell where the kind of the column says so, else 0; None if it holds lists or the like.

    Those may be of any length, and no trainer has a use for them: they are not read, and stand there as their kind.
    """
    kind = getattr(kind, "storage_type", kind)
    if kind.num_fields:
        return None
    kind = getattr(kind, "value_type", kind)  # of a dictionary
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 0


_WHOLE_SECOND = re.compile(r"\.0+$")


def _cells_of(path: Path, name: str, column: Any) -> list[str]:
    """The cells of a column as text.

    Raises:
        TrainerError: one is too long.
    """
    if hasattr(column, "dictionary"):  # each text becomes a word of Python once, and only if it is used
        places = column.indices.to_pylist()
        words = {
            place: "" if place is None else _word(path, name, column.dictionary[place]) for place in set(places)
        }
        return [words[place] for place in places]
    try:
        cells = column.to_pylist()
    except (ValueError, ArithmeticError):
        times = column.cast("string").to_pylist()  # Python has no nanoseconds and no year after 9999
        cells = [time and _WHOLE_SECOND.sub("", time) for time in times]  # as Python writes the others
    return [_text(path, cell) for cell in cells]


def _word(path: Path, name: str, scalar: Any) -> str:
    word = scalar.as_py()
    if isinstance(word, str | bytes) and len(word) > LONGEST_CELL:
        raise TrainerError(_too_long(path, name))
    return _text(path, word)


def _too_long(path: Path, name: str) -> str:
    return text("{path}: column {name} has a cell of more than {most} characters", path, name, f"{LONGEST_CELL:,}")


def _text(path: Path, cell: Any) -> str:
    return "" if cell is None else composed(str(cell), str(path))


_IN_QUOTES = re.compile(r'(^|[,;\t])"[^"]*+(?:""[^"]*+)*+(?:"|$)')


def separator_of(path: Path, expected: str = ",") -> str:
    """The sign between the columns of a text file, by its first line: the most frequent one outside of quotes.

    Args:
        expected: that is taken if others are as frequent.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        line = file.readline(1024 * 1024).decode("utf-8-sig", errors="replace")
    return max((expected, *SEPARATORS), key=_IN_QUOTES.sub(r"\1", line).count)


def _checked(path: Path, place: str, header: Sequence[str]) -> tuple[str, ...]:
    check_width(len(header), place)
    if not any(header):
        raise TrainerError(text("{path} is empty: expected a first line with the names of the columns", path))
    if not all(header):
        raise TrainerError(text("{where}: column {column} has no name", place, header.index("") + 1))
    if odd := [name for name in header if not name.isprintable() or len(name) > _LONGEST]:
        raise TrainerError(
            text(
                "{where}: {name} is no name for a column: expected a short printable text",
                place,
                repr(odd[0][:40]),
            )
        )
    if twice := sorted(name for name, count in Counter(header).items() if count > 1):
        raise TrainerError(
            text("{where}: {name} stands there twice; every column needs a name of its own", place, shown(twice))
        )
    return tuple(header)
