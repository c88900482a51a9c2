"""Label spaces and correspondences out of what people write: TOML, or a CSV table of classes and weights.

In TOML the space of the data, the desired one, and which desired classes lie in each class:

    id = "x-rays: two classes"
    classes = ["normal", "pneumonia"]     # in the order of their numbers
    [desired]
    id = "x-rays: three classes"
    classes = ["normal", "bacterial", "viral"]
    [mapping]
    normal = ["normal"]
    pneumonia = ["bacterial", "viral"]    # or with weights: { bacterial = 1, viral = 0.9 }

In CSV a line for each pair, below the header `coarse,desired,weight`; without weights each pair weighs 1.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flnet.explaining import explain
from flnet.labels.correspondence import Correspondence, from_weights
from flnet.labels.space import LabelSpace
from flnet.refusals import LabelsRefused

MAX_BYTES = 1_000_000  # of one file
HEADER = ("coarse", "desired", "weight")

Names = list[str]
Weight = Annotated[float, Field(ge=0, le=1)]


class _Space(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    id: str
    classes: Names


class _File(_Space):
    desired: _Space | None = None
    mapping: dict[str, Names | dict[str, Weight]] | None = None


@dataclass(frozen=True)
class Labelling:
    """How a data set is labelled.

    Attributes:
        space: of the labels of its rows.
        desired: the space in which the model is to answer; None where the file does not say.
        correspondence: of the first with the second; None if it is not known and has to be estimated.
    """

    space: LabelSpace
    desired: LabelSpace | None = None
    correspondence: Correspondence | None = None


def read_toml(data: bytes) -> Labelling:
    """What a TOML file says of the labels of a data set.

    Raises:
        LabelsRefused: it is too large, no TOML, or breaks a rule; says which one.
    """
    _must_be_short(data)
    try:
        found = _File.model_validate(tomllib.loads(data.decode("utf-8-sig")))
    except ValidationError as exc:
        raise LabelsRefused(explain(exc)) from exc
    except (RecursionError, ValueError) as exc:
        raise LabelsRefused(f"this is no TOML text in UTF-8: {str(exc)[:100]}") from exc
    space = LabelSpace(found.id, tuple(found.classes))
    if found.desired is None:
        if found.mapping is not None:
            raise LabelsRefused("a [mapping] needs the [desired] label space beside it")
        return Labelling(space)
    desired = LabelSpace(found.desired.id, tuple(found.desired.classes))
    if found.mapping is None:
        return Labelling(space, desired)
    return Labelling(space, desired, from_weights(desired, space, _pairs(found.mapping)))


def read_csv(data: bytes, desired: LabelSpace, coarse: LabelSpace) -> Correspondence:
    """A correspondence from a table of pairs; the separator is a comma, a semicolon or a tabulator.

    Args:
        data: the file, UTF-8; the columns stand in any order, and `weight` may be absent.
        desired: the classes of the column `desired`.
        coarse: the classes of the column `coarse`.

    Raises:
        LabelsRefused: it is too large, no such table, or breaks a rule; says which line and why.
    """
    _must_be_short(data)
    try:
        text = data.decode("utf-8-sig")
        separator = next((mark for mark in ";\t" if mark in text.partition("\n")[0]), ",")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator))
    except (UnicodeDecodeError, csv.Error) as exc:
        raise LabelsRefused(f"this is no CSV text in UTF-8: {str(exc)[:100]}") from exc
    return from_weights(desired, coarse, _rows(rows))


def _must_be_short(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise LabelsRefused(f"{len(data)} bytes are too many for a table of classes; expected at most {MAX_BYTES}")


def _pairs(mapping: dict[str, Names | dict[str, Weight]]) -> Iterator[tuple[str, str, float]]:
    for upper, lower in mapping.items():
        weights = lower.items() if isinstance(lower, dict) else [(name, 1.0) for name in lower]
        yield from ((upper, name, weight) for name, weight in weights)


def _rows(rows: list[list[str]]) -> Iterator[tuple[str, str, float]]:
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if sorted(header) not in (sorted(HEADER), sorted(HEADER[:2])):
        found = ", ".join(header)[:80] or "nothing"
        raise LabelsRefused(f"the first line of the table is {found}; expected {', '.join(HEADER)}")
    for number, cells in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise LabelsRefused(f"line {number} has {len(cells)} cells; expected {len(header)}")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        yield row["coarse"], row["desired"], _weight(row.get("weight", "1"), number)


def _weight(text: str, line: int) -> float:
    try:
        weight = math.nan if "_" in text else float(text)  # Python alone reads 1_000
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= 1:
        raise LabelsRefused(f"line {line}: the weight is {text[:40]!r}; expected a number from 0 to 1")
    return weight
