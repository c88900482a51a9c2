"""ARFF, the text format of Weka, Mulan and MEKA: a small strict reader for numbers and for yes-or-no.

A header of `@relation`, `@attribute` lines and `@data`, then a row a line: dense (`1,0,2.5`) or sparse
(`{0 1, 7 2.5}`: column and value, what is not named is 0). `%` begins a comment; names may stand in quotes.
Attributes are numeric (`numeric`, `real`, `integer`) or nominal with no other values than 0 and 1. What does
not fit is an error that names file, line and attribute; only rows may be skipped instead, and are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flnet.errors import TrainerError
from flnet.training.table import BadRow, Column, OnBadRows, RowBuilder, Table, gather

_NUMERIC = frozenset({"numeric", "real", "integer"})
_QUOTES = ("'", '"')
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_COMMENT = re.compile(r"""((?:[^%'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)%.*""")
_MEKA = re.compile(r"(?:^|\s)-C\s+(-?\d{1,9})\b")


@dataclass
class _Header:
    relation: str = ""
    columns: list[Column] = field(default_factory=list)
    one_first: list[str] = field(default_factory=list)  # what a sparse row does not name would be 1 in these


@dataclass(frozen=True)
class Arff:
    """An ARFF file: its table, and the name of its relation."""

    table: Table
    relation: str

    @property
    def meka_labels(self) -> int | None:
        """What MEKA's `-C n` in the relation says: the first n columns are labels; the last ones if n < 0."""
        found = _MEKA.search(self.relation)
        return int(found[1]) if found else None


def read_arff(path: Path, on_bad_rows: OnBadRows = "stop") -> Arff:
    """What is in an ARFF file.

    Raises:
        TrainerError: the file cannot be read, its header is not understood, or it has no rows.
        BadRow: the first bad row, under "stop": a missing value `?`, text, too few or too many values, ...
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = _significant(file)
            header = _read_header(path, lines)
            builder = RowBuilder(header.columns)

            def add(line: str, where: str) -> None:
                if line.startswith("{"):
                    _refuse_one_first(header, where)
                    builder.add_sparse(_sparse_cells(line, where), where)
                else:
                    builder.add_dense([_unquoted(cell) for cell in line.split(",")], where)

            return Arff(gather(path, builder, lines, add, on_bad_rows), header.relation)
    except UnicodeDecodeError as exc:
        raise TrainerError(f"{path} is not UTF-8 text: {exc}") from exc
    except OSError as exc:
        raise TrainerError(f"{path} cannot be read: {exc}") from exc


def _significant(file: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Line numbers, from 1, and lines without comments and outer space; empty ones are left out."""
    for number, raw in enumerate(file, start=1):
        line = raw.strip()
        if "%" in line and (comment := _COMMENT.fullmatch(line)):
            line = comment[1].strip()
        if line:
            yield number, line


def _read_header(path: Path, lines: Iterator[tuple[int, str]]) -> _Header:
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
                        f"{where}: {'two attributes are' if name else 'an attribute is'} named {name!r}"
                    )
                known.add(name)
                _add_attribute(header, name, kind, where)
            case "@data":
                if not known:
                    raise TrainerError(f"{where}: @data before any @attribute")
                return header
            case _:
                raise TrainerError(f"{where}: expected @relation, @attribute or @data, got {line[:40]!r}")
    raise TrainerError(f"{path} is no ARFF file: it has no line @data")


def _add_attribute(header: _Header, name: str, kind: str, where: str) -> None:
    if kind.lower() in _NUMERIC:
        header.columns.append(Column(name))
        return
    values = [_unquoted(value) for value in kind[1:-1].split(",")] if kind[:1] + kind[-1:] == "{}" else []
    if not values or set(values) - {"0", "1"}:
        raise TrainerError(f"{where}: attribute {name!r} is {kind[:60] or 'nothing'}; expected numeric or {{0,1}}")
    header.columns.append(Column(name, frozenset(map(float, values))))
    if values[0] == "1":
        header.one_first.append(name)


def _refuse_one_first(header: _Header, where: str) -> None:
    if header.one_first:
        raise TrainerError(
            f"{where}: rows are sparse, but what they do not name would be 1 in {header.one_first[0]!r}"
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
        raise BadRow(f"{where}: a sparse row ends with }}, this one with {line[-20:]!r}")
    inside = line[1:-1].strip()
    for cell in inside.split(",") if inside else ():
        place, _, text = cell.strip().replace("\t", " ").partition(" ")
        yield place, _unquoted(text)
