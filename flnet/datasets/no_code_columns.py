"""Data of a no-code trainer of kind "vertical": this node's columns of people whom other nodes know, too.

Nothing is agreed with other nodes but the ids. Numbers are standardised by this node's own rows. A column with a cell
that is no number is one of categories, with an input for each of its values. What a spreadsheet may have done to the
file is refused in words: ids with an exponent, numbers with a decimal comma, another separator, words for a missing value.
For encrypted regression the inputs of categories are standardised, too, and values far from the mean are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.algorithms.vertical.identifiers import EXACT_BITS
from flnet.algorithms.vertical.taylor_regression import standardise
from flnet.datasets.no_code import OwnColumns
from flnet.datasets.tables import ABSENT, BadRow, check_values, near, shown
from flnet.datasets.text_rows import TextRows, text_rows
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.text import joined, text

MOST_VALUES = 100  # of a column of categories
MOST_CLASSES = 1000
_EXPONENT = re.compile(r"[+-]?\d+([.,]\d+)?[eE]\+\d+")
_FLOAT = re.compile(r"-?(\d+)\.0+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
MOST_DEVIATIONS = 5.0  # from the mean, of inputs of an encrypted regression


@dataclass(frozen=True)
class Columns:
    """The rows of a file.

    Attributes:
        ids: as they stand in the file.
        names: of the feature columns.
        x: (n, inputs) float32, standardised; no inputs without features.
        y: (n,) class numbers; None without a label column.
        classes: names of the classes, sorted.
    """

    ids: Sequence[str]
    names: tuple[str, ...]
    x: Array
    y: Array | None
    classes: tuple[str, ...]


def read_columns(path: Path, own: OwnColumns) -> Columns:
    """Read a file, and check every cell.

    Raises:
        DataMissing: pyarrow is needed and not installed.
        TrainerError: a column is not there, a cell is empty, or a column cannot be used; never shows an id.
    """
    with text_rows(path, "\t" if own.separator == "tab" else own.separator) as table:
        header, rows = table.header, list(_bounded(path, table))
    spoken_for = {own.id, own.target, *(own.ignore or [])}
    names = tuple(own.features if own.features is not None else (n for n in header if n not in spoken_for))
    wanted = [own.id, *names, *([own.target] if own.target else [])]
    _check_header(path, own, header, wanted)
    if not rows:
        raise TrainerError(text("{path} has no rows below its header", path))
    at = {name: place for place, name in enumerate(header)}
    columns = {name: [cells[at[name]] for cells in rows] for name in wanted}
    for name in wanted[1:]:
        if absent := sum(cell in ABSENT for cell in columns[name]):
            raise TrainerError(
                text(
                    "{path}: column {name} has no value in {count} of {total} rows", path, name, absent, len(rows)
                )
            )
    x = [_inputs(path, name, columns[name]) for name in names]
    y, classes = _labels(path, own.target, columns) if own.target else (None, ())
    inputs = np.hstack(x) if x else np.zeros((len(rows), 0), np.float32)
    if own.is_encrypted:
        inputs = standardise(inputs.astype(np.float64), MOST_DEVIATIONS)[0].astype(np.float32)
        _check_two_classes(path, own, classes)
    return Columns(_ids(path, columns[own.id]), names, inputs, y, classes)


def _check_header(path: Path, own: OwnColumns, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises:
    TrainerError: a column is not there.
    """
    absent = sorted({*wanted, *(own.ignore or [])} - set(header))
    if not absent:
        return
    problem = text("{path} has no column {names}; {words}", path, shown(absent), near(absent, header))
    other = next((sign for sign in ";," if sign in header[0]), None) if len(header) == 1 else None
    if other is None:
        raise TrainerError(problem)
    key = "tab" if other == "\t" else other
    raise TrainerError(
        joined([problem, text("if its columns are separated so, set separator = {value}", f'"{key}"')])
    )


def _ids(path: Path, cells: Sequence[str]) -> list[str]:
    """The ids, of which a missing one is empty.

    Raises:
        TrainerError: some are numbers that were rounded.
    """
    if rounded := sum(map(_is_rounded, cells)):
        raise TrainerError(
            text(
                "{path}: {count} of {total} ids are written as rounded numbers, such as 1.2E+15, which spreadsheets "
                "make of long ones; save them as text",
                path,
                rounded,
                len(cells),
            )
        )
    return ["" if cell in ABSENT else cell for cell in cells]


def _bounded(path: Path, table: TextRows) -> Iterator[list[str]]:
    size, width = path.stat().st_size, len(table.header)
    for number, (where, cells) in enumerate(table.rows, start=1):
        check_values(number * width, where, size)
        yield _cells(where, cells, width)


def _cells(where: str, cells: list[str], count: int) -> list[str]:
    if len(cells) != count:
        raise BadRow(text("{where}: {count} values for {number} columns", where, len(cells), count))
    return [cell.strip() for cell in cells]


def _is_rounded(cell: str) -> bool:
    number = _FLOAT.fullmatch(cell)
    return _EXPONENT.fullmatch(cell) is not None or (number is not None and int(number[1]) >= 2**EXACT_BITS)


def _inputs(path: Path, name: str, cells: Sequence[str]) -> Array:
    """(n, inputs) of one column."""
    if len(set(cells)) < 2:
        raise TrainerError(text("feature column {name} has the same value in all rows; leave it out", name))
    try:
        numbers = np.array(cells, np.float64)
    except ValueError:
        return _categories(path, name, cells)
    if not np.isfinite(numbers).all():
        raise TrainerError(text("{path}: column {name} has numbers that are not finite", path, name))
    spread = numbers.std()
    if not spread > 0:
        raise TrainerError(text("feature column {name} has the same value in all rows; leave it out", name))
    return np.asarray(((numbers - numbers.mean()) / spread)[:, None], np.float32)


def _categories(path: Path, name: str, cells: Sequence[str]) -> Array:
    values = sorted(set(cells))
    words = sum(not _is_number(cell) for cell in cells)
    if any(map(_DECIMAL_COMMA.fullmatch, values)) and all(
        _is_number(value) or _DECIMAL_COMMA.fullmatch(value) for value in values
    ):
        raise TrainerError(
            text("{path}: column {name} has numbers with a decimal comma; expected a decimal point", path, name)
        )
    if len(values) > MOST_VALUES:
        raise TrainerError(
            text(
                "{path}: column {name} has words in {words} of {total} rows, and {count} different values; at most "
                "{most} can be categories",
                path,
                name,
                words,
                len(cells),
                len(values),
                MOST_VALUES,
            )
        )
    places = {value: place for place, value in enumerate(values)}
    one_hot: Array = np.eye(len(values), dtype=np.float32)
    return np.asarray(one_hot[[places[cell] for cell in cells]])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_two_classes(path: Path, own: OwnColumns, classes: Sequence[str]) -> None:
    """Raises:
    TrainerError: the label of an encrypted regression has more classes.
    """
    if own.target and len(classes) != 2:
        raise TrainerError(
            text(
                "{path}: the label column {name} has {count} different values; encrypted regression needs two",
                path,
                own.target,
                len(classes),
            )
        )


def _labels(path: Path, target: str, columns: dict[str, list[str]]) -> tuple[Array, tuple[str, ...]]:
    classes = tuple(sorted(set(columns[target])))
    if len(classes) > MOST_CLASSES:
        raise TrainerError(
            text(
                "{path}: the label column {name} has {count} different values; at most {most} can be classes",
                path,
                target,
                len(classes),
                MOST_CLASSES,
            )
        )
    places = {value: place for place, value in enumerate(classes)}
    return np.array([places[cell] for cell in columns[target]], np.int64), classes
