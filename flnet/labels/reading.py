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

and how a node learns from it, with the names of the fields of `Labelling`: schedule, steps, estimate and so on.

In CSV a line for each pair, below the header `coarse,desired,weight`; without weights each pair weighs 1.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flnet.explaining import explain
from flnet.labels.correspondence import Correspondence, from_weights
from flnet.labels.scheduling import Schedule
from flnet.labels.space import LabelSpace
from flnet.refusals import LabelsRefused

MAX_BYTES = 1_000_000  # of one file
HEADER = ("coarse", "desired", "weight")
LEARNING = (
    *("schedule", "steps", "estimate", "rows", "threshold", "fixed", "mixed", "turning", "heads"),
    "pool_counts",
)

Names = list[str]
Weight = Annotated[float, Field(ge=0, le=1)]


class _Space(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    id: str
    classes: Names


class _File(_Space):
    desired: _Space | None = None
    mapping: dict[str, Names | dict[str, Weight]] | None = None
    schedule: Literal["two-phase", "parallel", "coarse-first"] = "two-phase"
    steps: int = Field(default=20, ge=1, le=100_000)
    estimate: bool = False
    rows: int | None = Field(default=None, ge=1)
    threshold: float = Field(default=0.95, ge=0, lt=1)
    fixed: float = Field(default=0, ge=0, le=100)
    mixed: float = Field(default=0, ge=0, le=100)
    turning: int = Field(default=0, ge=0)
    heads: Literal["common", "private"] = "common"
    pool_counts: bool = False
    pooled: _Space | None = None


@dataclass(frozen=True)
class Labelling:
    """How a data set is labelled, and how its node learns from it.

    Attributes:
        space: of the labels of its rows.
        desired: the space in which the model is to answer; None where the file does not say.
        correspondence: of the first with the second; None if it is not known.
        schedule: who trains when; the same on all nodes. "pipelined" is not offered: it is two runs of "two-phase"
            that never meet.
        steps: of each local training; the same on all nodes.
        estimate: whether the node finds the correspondence out from the model's guesses. One that is given is not
            looked at then, but for saying which label a row of a published data set would carry.
        rows: how many training rows carry a label of the desired space, for experiments on a published data set;
            None: all of a node with that space, none of another one.
        threshold: from which probability on a guess is confident.
        fixed: weight of the loss on changed rows by the confident guesses for the unchanged ones.
        mixed: weight of the loss on rows between two others, by the confident guesses for both.
        turning: of the schedule "coarse-first" the round from which nodes with labels of the desired space train.
        pool_counts: whether the nodes share what they count for an estimate, which tells them how often each label
            occurs; the same on all nodes.
        pooled: the label space whose counts these are, where it is not the own one; the same on all nodes.
        heads: "private": the last layer, named "output.", is each node's own and no part of an average.
    """

    space: LabelSpace
    desired: LabelSpace | None = None
    correspondence: Correspondence | None = None
    schedule: Schedule = "two-phase"
    steps: int = 20
    estimate: bool = False
    rows: int | None = None
    threshold: float = 0.95
    fixed: float = 0.0
    mixed: float = 0.0
    turning: int = 0
    heads: Literal["common", "private"] = "common"
    pool_counts: bool = False
    pooled: LabelSpace | None = None

    @property
    def target(self) -> LabelSpace:
        """The space in which the model is to answer; the own one where nothing else is said."""
        return self.desired or self.space

    @property
    def is_desired(self) -> bool:
        """Whether the rows are labelled in that space."""
        return self.space.classes == self.target.classes

    def fields(self) -> dict[str, Any]:
        """As JSON-ready data with the names that TOML has; `read_fields` reads it."""
        said: dict[str, Any] = {**self.space.view(), **{name: getattr(self, name) for name in LEARNING}}
        if self.pooled is not None:
            said["pooled"] = self.pooled.view()
        if self.desired is not None:
            said["desired"] = self.desired.view()
        if self.correspondence is not None:
            said["mapping"] = _mapping(self.correspondence)
        return said


def read_toml(data: bytes) -> Labelling:
    """What a TOML file says of the labels of a data set.

    Raises:
        LabelsRefused: it is too large, no TOML, or breaks a rule; says which one.
    """
    _must_be_short(data)
    try:
        lines = tomllib.loads(data.decode("utf-8-sig"))
    except (RecursionError, ValueError) as exc:
        raise LabelsRefused(f"this is no TOML text in UTF-8: {str(exc)[:100]}") from exc
    return read_fields(lines)


def read_fields(lines: Any) -> Labelling:
    """The same from data that are read already.

    Raises:
        LabelsRefused: they break a rule.
    """
    try:
        found = _File.model_validate(lines)
    except ValidationError as exc:
        raise LabelsRefused(explain(exc)) from exc
    space = LabelSpace(found.id, tuple(found.classes))
    learning: dict[str, Any] = {name: getattr(found, name) for name in LEARNING}
    learning["pooled"] = _pooled(found, space)
    if found.desired is None:
        if found.mapping is not None:
            raise LabelsRefused("a [mapping] needs the [desired] label space beside it")
        return Labelling(space, **learning)
    desired = LabelSpace(found.desired.id, tuple(found.desired.classes))
    if found.mapping is None:
        return Labelling(space, desired, **learning)
    return Labelling(space, desired, from_weights(desired, space, _pairs(found.mapping)), **learning)


def _pooled(found: _File, space: LabelSpace) -> LabelSpace | None:
    """The label space whose counts are pooled, where it is not the own one.

    Raises:
        LabelsRefused: nobody could say which counts are meant.
    """
    named = None if found.pooled is None else LabelSpace(found.pooled.id, tuple(found.pooled.classes))
    is_desired = found.desired is None or found.desired.classes == found.classes
    if named is not None and not found.pool_counts:
        raise LabelsRefused("[pooled] needs the line pool_counts = true")
    if found.pool_counts and named is None and is_desired:
        raise LabelsRefused(
            "pool_counts = true needs [pooled], the label space whose counts they are, at nodes with desired "
            "labels"
        )
    if found.pool_counts and named not in (None, space) and not is_desired:
        raise LabelsRefused(f"[pooled] is {named.id!r}; expected the label space of this file, {space.id!r}")
    return named if is_desired else None


def must_be_learnable(labelling: Labelling) -> None:
    """Refuse a labelling from which nobody could learn.

    Raises:
        LabelsRefused: it does not say how its classes correspond to those of the desired space; says what to add.
    """
    if labelling.is_desired or labelling.estimate or labelling.correspondence is not None:
        return
    here, there = labelling.space.id, labelling.target.id
    raise LabelsRefused(
        f"nobody says how the classes of {here!r} correspond to those of {there!r}: add a [mapping], or set "
        "estimate = true"
    )


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


def _mapping(known: Correspondence) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {name: {} for name in known.coarse.classes}
    for row, column in zip(*known.matrix.nonzero(), strict=True):
        upper, lower = known.coarse.classes[row], known.desired.classes[column]
        found[upper][lower] = float(known.matrix[row, column])
    return found


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
