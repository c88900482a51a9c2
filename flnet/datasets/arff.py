"""ARFF files: attributes with their kinds, and one row a line.

The reader is small and strict. A header of `@relation`, `@attribute` lines and `@data` is followed by one row a
line: dense (`1,0,2.5`) or sparse (`{0 1, 7 2.5}`: column and value, all others are 0). `%` begins a comment; names may
be quoted. Attributes are numeric (`numeric`, `real`, `integer`) or nominal (`{a,b,c}`). One with the values 0 and 1 is a
column of numbers; any other becomes a column for each of its values, named `attribute=value`, with 1 where the row has
it. What a sparse row does not name is 0, and of a nominal attribute the first value, as the format has it. Anything
else is an error that names file, line and attribute, unless the attribute is ignored; only rows may be skipped instead,
and are counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from flnet.datasets.tables import (
    BadRow,
    BoundedLines,
    ColumnSpec,
    OnBadRows,
    RowBuilder,
    Table,
    check_width,
    composed,
    gather,
)
from flnet.errors import TrainerError
from flnet.text import text

_NUMERIC = frozenset({"numeric", "real", "integer"})
_QUOTES = ("'", '"')
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_COMMENT = re.compile(r"""((?:[^%'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)%.*""")
_MEKA = re.compile(r"(?:^|\s)-C\s+(-?\d{1,9})\b")


@dataclass
class _Header:
    relation: str = ""
    columns: list[ColumnSpec] = field(default_factory=list)
    words: int = 0  # of all nominal attributes
    one_first: list[str] = field(default_factory=list)  # what a sparse row does not name would be 1 in these


@dataclass(frozen=True)
class Arff:
    """An ARFF file.

    Attributes:
        table: its rows; a nominal attribute has a column for each of its values.
        relation: its name.
        columns: its attributes, in order.
    """

    table: Table
    relation: str
    columns: tuple[ColumnSpec, ...] = ()

    @property
    def meka_labels(self) -> int | None:
        """The label columns by MEKA's `-C n` in the relation: the first n columns, or the last ones if n < 0."""
        match = _MEKA.search(self.relation)
        return int(match[1]) if match else None


def read_arff(path: Path, on_bad_rows: OnBadRows = "stop", ignore: Collection[str] = ()) -> Arff:
    """Read an ARFF file.

    Args:
        ignore: attributes that are left out; they may be of any kind.

    Raises:
        TrainerError: the file cannot be read, its header is not understood, or it has no rows.
        BadRow: the first bad row, under "stop": a missing value `?`, text, too few or too many values, ...
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = _significant(path, BoundedLines(path, file))
            header = _read_header(path, lines, ignore)
            builder = RowBuilder(header.columns)
            check_width(len(builder.names), str(path))

            def add(line: str, where: str) -> None:
                if line.startswith("{"):
                    _refuse_one_first(header, where)
                    builder.add_sparse(_sparse_cells(line, where), where)
                else:
                    builder.add_dense([_unquoted(cell) for cell in _split(line)], where)

            return Arff(gather(path, builder, lines, add, on_bad_rows), header.relation, tuple(header.columns))
    except UnicodeDecodeError as exc:
        raise TrainerError(text("{path} is not UTF-8 text: {reason}", path, exc)) from exc
    except OSError as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc


def arff_cells(path: Path, file: TextIO) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of an ARFF file as they are there: line number, and the cell of each attribute.

    Raises:
        TrainerError: as `arff_rows`.
    """
    columns, rows = arff_rows(path, file)
    names = [column.name for column in columns]
    for number, cells in rows:
        yield number, dict(zip(names, cells, strict=True))


def arff_rows(path: Path, file: TextIO) -> tuple[tuple[ColumnSpec, ...], Iterator[tuple[int, list[str]]]]:
    """The attributes of an ARFF file, and its rows: line number, and a cell for each attribute.

    Attributes may be of any kind: who asks for the rows knows which of them are needed.

    Args:
        path: for the words of errors.
        file: opened.

    Raises:
        TrainerError: its header is not understood, or a row has too few or too many values.
    """
    lines = _significant(path, BoundedLines(path, file))
    header = _read_header(path, lines, (), any_kind=True)
    return tuple(header.columns), _text_cells(path, lines, header)


def _text_cells(path: Path, lines: Iterator[tuple[int, str]], header: _Header) -> Iterator[tuple[int, list[str]]]:
    unnamed = ["" if column.is_ignored else (*column.words, "0")[0] for column in header.columns]
    for number, line in lines:
        where = text("{path}, line {line}", path, number)
        if line.startswith("{"):
            _refuse_one_first(header, where)
            cells = list(unnamed)
            for place, value in _sparse_cells(line, where):
                if not (place.isascii() and place.isdigit() and int(place) < len(cells)):
                    raise BadRow(
                        text(
                            "{where}: {column} is no column; expected 0 to {most}",
                            where,
                            repr(place[:40]),
                            len(cells) - 1,
                        )
                    )
                cells[int(place)] = value
        else:
            cells = [_unquoted(cell) for cell in _split(line)]
        if len(cells) != len(unnamed):
            raise BadRow(text("{where}: {count} values for {number} columns", where, len(cells), len(unnamed)))
        yield number, cells


def _significant(path: Path, lines: BoundedLines) -> Iterator[tuple[int, str]]:
    """Line numbers, from 1, and lines in Unicode NFC without comments and outer space; empty ones are left out."""
    for number, raw in enumerate(lines, start=1):
        lines.begin_row()
        line = raw.strip()
        if not line.isascii():
            line = composed(line, text("{path}, line {line}", path, number))
        if "%" in line and (comment := _COMMENT.fullmatch(line)):
            line = comment[1].strip()
        if line:
            yield number, line


def _read_header(
    path: Path, lines: Iterator[tuple[int, str]], ignore: Collection[str], any_kind: bool = False
) -> _Header:
    """`any_kind`: whether attributes that are neither numeric nor nominal are ignored, too."""
    header = _Header()
    known: set[str] = set()
    for number, line in lines:
        where = f"{path}, line {number}"
        keyword, _, rest = line.replace("\t", " ").partition(" ")
        rest = rest.strip()
        match keyword.lower():
            case "@relation":
                header.relation = _name(rest)[0] if rest.startswith(_QUOTES) else rest
            case "@attribute":
                name, kind = _name(rest)
                if not name or name in known:
                    raise TrainerError(
                        text("{where}: two attributes are named {name}", where, repr(name))
                        if name
                        else text("{where}: an attribute is named {name}", where, repr(name))
                    )
                known.add(name)
                check_width(len(known), where)
                if name in ignore or (any_kind and not _is_known(kind)):
                    header.columns.append(ColumnSpec(name, is_ignored=True))
                else:
                    _add_attribute(header, name, kind, where)
            case "@data":
                if not known:
                    raise TrainerError(text("{where}: @data before any @attribute", where))
                return header
            case _:
                raise TrainerError(
                    text("{where}: expected @relation, @attribute or @data, got {value}", where, repr(line[:40]))
                )
    raise TrainerError(text("{path} is no ARFF file: it has no line @data", path))


def _is_known(kind: str) -> bool:
    return kind.lower() in _NUMERIC or kind[:1] + kind[-1:] == "{}"


def _add_attribute(header: _Header, name: str, kind: str, where: str) -> None:
    if kind.lower() in _NUMERIC:
        header.columns.append(ColumnSpec(name))
        return
    values = [_unquoted(value) for value in _split(kind[1:-1])] if _is_known(kind) else []
    if not values or not all(values):
        raise TrainerError(
            text(
                "{where}: attribute {name} is {value}; expected numeric, or values such as {{a,b}}; ignore_columns "
                "leaves others out",
                where,
                repr(name),
                kind[:60] or text("nothing"),
            )
        )
    if not set(values) - {"0", "1"}:
        header.columns.append(ColumnSpec(name, frozenset(map(float, values))))
        if values[0] == "1":
            header.one_first.append(name)
        return
    if len(set(values)) != len(values):
        raise TrainerError(text("{where}: attribute {name} has a value twice", where, repr(name)))
    header.words += len(values)
    check_width(header.words, where)
    header.columns.append(ColumnSpec(name, words=tuple(values)))


def _split(line: str) -> list[str]:
    """The parts between commas; a comma in quotes separates nothing."""
    if "'" not in line and '"' not in line:
        return line.split(",")
    parts, start, quote, place = [], 0, "", 0
    while place < len(line):
        sign = line[place]
        if quote and sign == "\\":
            place += 1  # what follows stands for itself
        elif sign in _QUOTES and (not quote or sign == quote):
            quote = "" if quote else sign
        elif sign == "," and not quote:
            parts.append(line[start:place])
            start = place + 1
        place += 1
    return [*parts, line[start:]]


def _refuse_one_first(header: _Header, where: str) -> None:
    if header.one_first:
        raise TrainerError(
            text(
                "{where}: rows are sparse, but what they do not name would be 1 in {name}",
                where,
                repr(header.one_first[0]),
            )
        )


def _name(text: str) -> tuple[str, str]:
    """A name, in quotes or not, and what follows it."""
    if quoted := _QUOTED.match(text):
        inside = quoted[1] if quoted[1] is not None else quoted[2]
        return re.sub(r"\\(.)", r"\1", inside), text[quoted.end() :].strip()
    name, _, rest = text.partition(" ")
    return name, rest.strip()


def _unquoted(text: str) -> str:
    text = text.strip()
    return _name(text)[0] if text.startswith(_QUOTES) else text


def _sparse_cells(line: str, where: str) -> Iterator[tuple[str, str]]:
    if not line.endswith("}"):
        raise BadRow(text("{where}: a sparse row ends with }}, this one with {value}", where, repr(line[-20:])))
    inside = line[1:-1].strip()
    for cell in _split(inside) if inside else ():
        place, _, value = cell.strip().replace("\t", " ").partition(" ")
        yield place, _unquoted(value)
