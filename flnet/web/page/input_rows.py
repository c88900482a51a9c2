"""Rows that a person hands in for predictions, read as they stand in the training file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flnet.compute.prediction import MAX_INPUTS, columns_of, is_absent, words_of
from flnet.datasets.arff import arff_cells
from flnet.errors import InputRefused, TrainerError
from flnet.text import composed, text

MOST_CELLS = 1_000_000  # of all rows together: more would hold up everybody else while they are read
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Table:
    """Rows of cells as a person handed them in.

    Attributes:
        head: names of the columns, if the first row has them.
        between: the sign between cells.
    """

    head: Sequence[str] | None
    cells: Sequence[Sequence[str]]
    between: str = ","


def rows_of(pasted: str, inputs: Mapping[str, Any]) -> list[Any]:
    """Rows with tabs, semicolons or commas between numbers; a first row of names says which column is which.

    Rows may be as in the data set: with a header or as ARFF, and with columns that are no inputs.

    Args:
        inputs: what the trainer takes, as in a job's view.

    Raises:
        InputRefused: they are none, or too many; says which row and column.
    """
    pasted = _composed(pasted)
    if inputs.get("names") and pasted.lstrip()[:1] in ("@", "%"):
        return _arff_rows(pasted, inputs)
    return inputs_of(table_of(pasted, inputs), inputs)


def _composed(pasted: str) -> str:
    """The same text as names and words are read from data."""
    try:
        return composed(pasted)
    except ValueError as exc:
        raise InputRefused(text("the rows cannot be read: {reason}", exc)) from exc


def table_of(pasted: str, inputs: Mapping[str, Any], most: int = MAX_INPUTS) -> Table:
    """The cells of rows as text.

    Raises:
        InputRefused: there are none, or more than `most`, or they are no CSV.
    """
    pasted = _composed(pasted)
    names: Sequence[str] = inputs.get("names") or ()
    lines = [line for line in pasted.splitlines() if line.strip()]
    if not lines:
        raise InputRefused(text("the file has no rows"))
    between = next((sign for sign in "\t;" if sign in lines[0]), ",")
    if len(lines) > most + 1 or pasted.count(between) > MOST_CELLS:
        raise InputRefused(text("there are {count} rows; at most {most} are predicted at once", len(lines), most))
    try:
        cells = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=between, strict=True)]
    except csv.Error as exc:
        raise InputRefused(text("the rows cannot be read: {reason}", exc)) from exc
    head = cells.pop(0) if not all(_NUMBER.fullmatch(cell) for cell in cells[0]) else None
    if head is not None and not set(head) & {*names, *words_of(names)}:
        shown = ", ".join(cell[:40] for cell in head[:5])
        raise InputRefused(text("the first row is neither numbers nor the names of columns: {row}", shown))
    if head is not None and len(set(head)) != len(head):
        raise InputRefused(text("the first row names a column twice"))
    return Table(head, cells, between)


def inputs_of(table: Table, inputs: Mapping[str, Any], start: int = 0) -> list[Any]:
    """The inputs in the rows of a table.

    Args:
        start: number of rows before these, for the words of a refusal.

    Raises:
        InputRefused: says which row and column.
    """
    names: Sequence[str] = inputs.get("names") or ()
    if table.head is None:
        return [
            [number_of(cell, _where(row, place, names)) for place, cell in enumerate(line)]
            for row, line in enumerate(table.cells, start)
        ]
    head = table.head
    return [by_name(_named(line, head, row), inputs, row) for row, line in enumerate(table.cells, start + 1)]


def _arff_rows(pasted: str, inputs: Mapping[str, Any]) -> list[Any]:
    rows: list[dict[str, float | None]] = []
    try:
        for _, cells in arff_cells(Path("ARFF"), io.StringIO(pasted)):
            rows.append(by_name(cells, inputs, len(rows) + 1))
            if len(rows) > MAX_INPUTS or len(rows) * len(cells) > MOST_CELLS:
                raise InputRefused(
                    text("there are {count} rows; at most {most} are predicted at once", len(rows), MAX_INPUTS)
                )
    except TrainerError as exc:
        raise InputRefused(text("the rows cannot be read: {reason}", exc)) from exc
    return rows


def _named(line: Sequence[str], head: Sequence[str], row: int) -> dict[str, str]:
    if len(line) != len(head):
        raise InputRefused(
            text("row {row} has {cells} cells; the first row names {columns} columns", row, len(line), len(head))
        )
    return dict(zip(head, line, strict=True))


def by_name(cells: Mapping[str, str], inputs: Mapping[str, Any], row: int = 0) -> dict[str, float | None]:
    """A row by the names of its columns; a column of words becomes one column for each word.

    Args:
        row: its number, from 1, for the words of a refusal; 0 if there is one row only.
    """
    names: Sequence[str] = inputs.get("names") or ()
    no_value: Sequence[str] = inputs.get("no_value") or ()

    def lacks(cell: str) -> bool:
        return inputs.get("gaps") is True and is_absent(cell, no_value)

    def pointed(cell: str) -> str:
        return cell.replace(",", ".") if inputs.get("decimal") == "," else cell

    values: dict[str, float | None] = {
        name: None if lacks(cells[name]) else number_of(pointed(cells[name]), _of_column(name, row))
        for name in names
        if name in cells
    }
    for column, words in words_of(names).items():
        if column in cells and not values.keys() & {f"{column}={word}" for word in words}:
            if cells[column] not in words and not lacks(cells[column]):
                raise InputRefused(_no_word(cells[column], words, _of_column(column, row)))
            values |= {f"{column}={word}": float(word == cells[column]) for word in words}
    return values


def _no_word(cell: str, words: Sequence[str], where: str) -> str:
    expected = ", ".join(word[:40] for word in words[:8])
    if not cell:
        return text("{where} is empty; expected one of {expected}", where, expected)
    return text("{where} is {value}; expected one of {expected}", where, repr(cell[:40]), expected)


def _of_column(name: str, row: int) -> str:
    column = repr(name[:60])
    return text("row {row}, column {column}", row, column) if row else text("column {column}", column)


def _where(row: int, place: int, names: Sequence[str]) -> str:
    return (
        text("row {row}, column {column}", row + 1, repr(names[place][:60]))
        if place < len(names)
        else text("row {row}, cell {cell}", row + 1, place + 1)
    )


def number_of(cell: str, where: str) -> float:
    """A number in a cell.

    Raises:
        InputRefused: it is none.
    """
    cell = cell.strip()
    if not cell:
        raise InputRefused(text("{where} is empty; expected a number", where))
    if not _NUMBER.fullmatch(cell) or len(cell) > 60:
        raise InputRefused(text("{where} is {value}; expected a number such as 3.5", where, repr(cell[:40])))
    return float(cell)


def answered_rows(table: Table, names: Sequence[str], answers: Sequence[Mapping[str, Any]]) -> str:
    """The same rows as CSV, each with its prediction and the number of each class; or with the number that is predicted.

    Args:
        names: of the columns, for rows without a header.
        answers: predictions of the node, of all rows in order.
    """
    classes = [str(name) for name in answers[0]["classes"]]
    kind = "scores" if "scores" in answers[0] else "probabilities"
    is_number = kind == "scores" and len(classes) == 1
    numbers = ["prediction"] if is_number else ["prediction", *(f"{kind} {name}" for name in classes)]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=table.between, lineterminator="\n")
    writer.writerow([*(table.head or list(columns_of(names))), *map(_plain, numbers)])
    told = (pair for answer in answers for pair in zip(answer["predicted"], answer[kind], strict=True))
    for cells, (predicted, values) in zip(table.cells, told, strict=True):
        words = ";".join(map(str, predicted)) if isinstance(predicted, list) else str(predicted)
        figures = [f"{value:.6g}" for value in values]
        writer.writerow([*cells, *(figures if is_number else [_plain(words), *figures])])
    return out.getvalue()


def _plain(words: str) -> str:
    """Words that no spreadsheet takes for a formula: classes may come from a description of another node."""
    return f"'{words}" if words.startswith(("=", "+", "-", "@", "\t", "\r")) else words
