"""Rows of text from CSV, Parquet or ARFF files, whatever the cells are.

CSV is read with the standard library, as UTF-8. Parquet needs pyarrow, an optional extra; its cells are turned into text,
so that all kinds of files pass the same checks. All text is made Unicode NFC, so that "größe" is one name, whether a Mac
or another machine wrote it.
"""

from __future__ import annotations

import csv
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flnet.datasets.arff import arff_rows
from flnet.datasets.tables import check_width, csv_rows, shown
from flnet.errors import DataMissing, TrainerError
from flnet.installing import install
from flnet.text import text

_LONGEST = 200  # characters of a column's name


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
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as exc:
        how = text("install it ({command}), or save the table as CSV", install("table"))
        raise DataMissing(
            text("{path} is a Parquet file, and pyarrow, which reads those, is not installed", path), how
        ) from exc
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            header = _checked(path, str(path), [_text(name).strip() for name in file.schema_arrow.names])
            yield TextRows(header, _parquet_rows(path, file))
    except (pyarrow.ArrowException, OSError) as exc:
        raise TrainerError(text("{path} cannot be read as a Parquet file: {reason}", path, exc)) from exc


def _parquet_rows(path: Path, file: Any) -> Iterator[tuple[str, list[str]]]:
    number = 0
    for batch in file.iter_batches(batch_size=4096):
        columns = [column.to_pylist() for column in batch.columns]
        for cells in zip(*columns, strict=True):
            number += 1
            yield f"{path}, row {number}", [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    return "" if cell is None else unicodedata.normalize("NFC", str(cell))


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
