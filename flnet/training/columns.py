"""Rows of text with a header, from CSV or Parquet: one way in, so that every fault has a file and a line.

CSV is read with the standard library, as UTF-8. Parquet needs pyarrow, an optional extra; what it holds is
turned into text again, so that both kinds of file pass the same checks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flnet.errors import DataMissing, TrainerError

_LONGEST = 200  # characters of a column's name
_SHOWN = 12  # columns that an error names


@dataclass(frozen=True)
class TextRows:
    """A header, and rows that are read as they are asked for.

    Attributes:
        header: names of the columns, each once.
        rows: where the row stands ("file, line 2") and its cells; of any number, which the reader checks.
    """

    header: tuple[str, ...]
    rows: Iterator[tuple[str, list[str]]]


@contextmanager
def text_rows(path: Path, separator: str = ",") -> Iterator[TextRows]:
    """Open a table; its rows can be read until the block ends.

    Raises:
        TrainerError: the file is empty, damaged, no UTF-8, or its header has a name twice or none.
        DataMissing: it is Parquet, and pyarrow is not installed.
    """
    if path.is_dir():
        raise TrainerError(f"{path} is a folder; expected a .csv or .parquet file")
    with _parquet(path) if path.suffix in (".parquet", ".pq") else _csv(path, separator) as rows:
        yield rows


@contextmanager
def _csv(path: Path, separator: str) -> Iterator[TextRows]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True, delimiter=separator)
            header = _checked(path, f"{path}, line 1", [cell.strip() for cell in next(lines, [])])
            yield TextRows(header, ((f"{path}, line {lines.line_num}", cells) for cells in lines if cells))
    except (csv.Error, UnicodeDecodeError) as exc:
        raise TrainerError(f"{path} is not CSV text in UTF-8: {exc}") from exc
    except OSError as exc:
        raise TrainerError(f"{path} cannot be read: {exc}") from exc


@contextmanager
def _parquet(path: Path) -> Iterator[TextRows]:
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as exc:
        how = 'install it (pip install "flnet[table]"), or save the table as CSV'
        raise DataMissing(
            f"{path} is a Parquet file, and pyarrow, which reads those, is not installed", how
        ) from exc
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            header = _checked(path, str(path), [str(name).strip() for name in file.schema_arrow.names])
            yield TextRows(header, _parquet_rows(path, file))
    except (pyarrow.ArrowException, OSError) as exc:
        raise TrainerError(f"{path} cannot be read as a Parquet file: {exc}") from exc


def _parquet_rows(path: Path, file: Any) -> Iterator[tuple[str, list[str]]]:
    number = 0
    for batch in file.iter_batches(batch_size=4096):
        columns = [column.to_pylist() for column in batch.columns]
        for cells in zip(*columns, strict=True):
            number += 1
            yield f"{path}, row {number}", [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _checked(path: Path, place: str, header: Sequence[str]) -> tuple[str, ...]:
    if not any(header):
        raise TrainerError(f"{path} is empty: expected a first line with the names of the columns")
    if not all(header):
        raise TrainerError(f"{place}: column {header.index('') + 1} has no name")
    if odd := [name for name in header if not name.isprintable() or len(name) > _LONGEST]:
        raise TrainerError(f"{place}: {odd[0][:40]!r} is no name for a column: expected a short printable text")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise TrainerError(f"{place}: {shown(twice)} stands there twice; every column needs a name of its own")
    return tuple(header)


def shown(names: Sequence[str]) -> str:
    """Names in a sentence: the first ones, and how many there are besides."""
    words = ", ".join(name[:60] for name in names[:_SHOWN])
    return f"{words} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else words or "none"
