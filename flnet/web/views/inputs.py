"""What a person hands in on the prediction view, as a question for the node: form fields, pasted rows, files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from werkzeug.exceptions import HTTPException, UnsupportedMediaType
from werkzeug.formparser import FormDataParser

from flnet.errors import InputRefused, UnreadableBody
from flnet.node.base import Question
from flnet.training.inputs import MAX_INPUTS

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
MOST_PARTS = 2000  # a field for each column, and a few more
MOST_CELLS = 1_000_000  # of all rows together: more would hold up everybody else while they are read
MOST_FIELDS = 60  # columns with a field each; more are pasted as rows
_UPLOAD = re.compile(r"/view/predict/[^/]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PLACE = "column-"
_TOO_MANY = f"the form cannot be read, or has more than {MOST_PARTS} parts"


@dataclass(frozen=True)
class Handed:
    """The fields of a form, and the contents of its file (empty if none was chosen)."""

    fields: Mapping[str, str] = field(default_factory=dict)
    file: bytes = b""

    def get(self, name: str) -> str:
        """A field's text; empty if it is not there."""
        return self.fields.get(name, "")


def is_upload(path: str) -> bool:
    """Whether a request to this path may bring inputs."""
    return _UPLOAD.fullmatch(path) is not None


def read_form(body: bytes, kind: str, options: Mapping[str, str]) -> Handed:
    """What a browser sends of a form, with a file or without.

    Args:
        body: the whole request body.
        kind: its content type.
        options: of the content type: the boundary.

    Raises:
        UnsupportedMediaType: another content type.
        UnreadableBody: broken, or of too many parts.
    """
    if kind not in FORMS:
        raise UnsupportedMediaType(f"expected a form ({' or '.join(FORMS)}), got {kind[:100]!r}")
    if kind == FORMS[1] and body.count(b"&") >= MOST_PARTS:
        raise UnreadableBody(_TOO_MANY)
    parser = FormDataParser(
        max_form_memory_size=len(body) + 1, max_form_parts=MOST_PARTS, silent=False, stream_factory=_in_memory
    )
    try:
        _, fields, files = parser.parse(io.BytesIO(body), kind, len(body), dict(options))
    except (ValueError, HTTPException) as exc:
        raise UnreadableBody(_TOO_MANY) from exc
    chosen = files.get("file")
    return Handed({str(name): str(value) for name, value in fields.items()}, chosen.read() if chosen else b"")


def question_of(handed: Handed, inputs: Mapping[str, Any]) -> Question:
    """The question behind a form.

    Args:
        handed: what came.
        inputs: what the trainer takes, as in a job's view: kind, shape, low, high, names.

    Raises:
        InputRefused: nothing came, or it is not what was asked for; says which row and column.
    """
    digest = handed.get("digest") or None
    names: Sequence[str] = inputs.get("names") or ()
    if inputs["kind"] == "image":
        if handed.file:
            return Question(picture=handed.file, digest=digest)
        return Question(inputs=[_drawn(handed.get("pixels"), inputs)], digest=digest)
    if handed.file:
        return Question(inputs=_rows(handed.file.decode("utf-8-sig", errors="replace"), names), digest=digest)
    if handed.get("rows").strip():
        return Question(inputs=_rows(handed.get("rows"), names), digest=digest)
    return Question(inputs=[_fields(handed, names)], digest=digest)


def field_name(place: int) -> str:
    """The form field of a column."""
    return f"{_PLACE}{place}"


def _in_memory(*_: object, **__: object) -> io.BytesIO:
    """Where a file goes that comes in a form: the body is in memory already, and its size is limited."""
    return io.BytesIO()


def _drawn(pixels: str, inputs: Mapping[str, Any]) -> Any:
    """A drawing of grey values from 0 to 255, in the range and shape that the trainer takes."""
    if not pixels.strip():
        raise InputRefused("there is nothing to judge yet: draw something, or choose a PNG or JPEG file")
    shape: Sequence[int] = inputs["shape"]
    low = 0.0 if inputs.get("low") is None else float(inputs["low"])
    high = 255.0 if inputs.get("high") is None else float(inputs["high"])
    height, width, count = shape[0], shape[1], pixels.count(",") + 1
    if count != height * width or shape[2:] not in ([], [1], (), (1,)):
        raise InputRefused(f"the drawing has {count} numbers; expected shape {list(shape)}")
    scaled = [low + (high - low) * _number(word, "the drawing") / 255 for word in pixels.split(",")]
    lines = [scaled[start : start + width] for start in range(0, len(scaled), width)]
    return [[[value] for value in line] for line in lines] if len(shape) == 3 else lines


def _fields(handed: Handed, names: Sequence[str]) -> list[float]:
    if not names or not any(handed.get(field_name(place)).strip() for place in range(len(names))):
        raise InputRefused("there is nothing to judge yet: fill in the fields, paste rows, or choose a file")
    return [_number(handed.get(field_name(place)), f"column {name[:60]!r}") for place, name in enumerate(names)]


def _rows(pasted: str, names: Sequence[str]) -> list[Any]:
    """Rows with tabs, semicolons or commas between numbers; a first row of names says which column is which."""
    lines = [line for line in pasted.splitlines() if line.strip()]
    if not lines:
        raise InputRefused("the file has no rows")
    between = next((sign for sign in "\t;" if sign in lines[0]), ",")
    if len(lines) > MAX_INPUTS + 1 or pasted.count(between) > MOST_CELLS:
        raise InputRefused(f"there are {len(lines)} rows; at most {MAX_INPUTS} are judged at once")
    try:
        cells = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=between, strict=True)]
    except csv.Error as exc:
        raise InputRefused(f"the rows cannot be read: {exc}") from exc
    head = cells.pop(0) if not all(_NUMBER.fullmatch(cell) for cell in cells[0]) else None
    if head is None:
        return [
            [_number(cell, _where(row, place, names)) for place, cell in enumerate(line)]
            for row, line in enumerate(cells)
        ]
    if not set(head) & {*names, *_words_of(names)}:
        shown = ", ".join(cell[:40] for cell in head[:5])
        raise InputRefused(f"the first row is neither numbers nor the names of columns: {shown}")
    if len(set(head)) != len(head):
        raise InputRefused("the first row names a column twice")
    return [_by_name(line, head, names, row + 1) for row, line in enumerate(cells)]


def _by_name(line: Sequence[str], head: Sequence[str], names: Sequence[str], row: int) -> dict[str, float]:
    """A row under the names of its columns; a column of words becomes the columns that stand for its words."""
    if len(line) != len(head):
        raise InputRefused(f"row {row} has {len(line)} cells; the first row names {len(head)} columns")
    cells = dict(zip(head, line, strict=True))
    found = {name: _number(cells[name], f"row {row}, column {name[:60]!r}") for name in names if name in cells}
    for column, words in _words_of(names).items():
        if column in cells and not found.keys() & {f"{column}={word}" for word in words}:
            if cells[column] not in words:
                expected = ", ".join(word[:40] for word in words[:8])
                raise InputRefused(
                    f"row {row}, column {column[:60]!r} is {cells[column][:40]!r}; expected {expected}"
                )
            found |= {f"{column}={word}": float(word == cells[column]) for word in words}
    return found


def _words_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Columns of words, which stand among the names as "sex=f", "sex=m", and their words."""
    found: dict[str, list[str]] = {}
    for name in names:
        column, equals, word = name.partition("=")
        if equals and column and column not in names:
            found.setdefault(column, []).append(word)
    return found


def _where(row: int, place: int, names: Sequence[str]) -> str:
    return (
        f"row {row + 1}, column {names[place][:60]!r}"
        if place < len(names)
        else f"row {row + 1}, cell {place + 1}"
    )


def _number(cell: str, where: str) -> float:
    cell = cell.strip()
    if not cell:
        raise InputRefused(f"{where} is empty; expected a number")
    if not _NUMBER.fullmatch(cell) or len(cell) > 60:
        raise InputRefused(f"{where} is {cell[:40]!r}; expected a number such as 3.5")
    return float(cell)
