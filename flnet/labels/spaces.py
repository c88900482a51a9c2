"""Label spaces, the correspondence of two of them, and the files in which people write both.

A label space is the list of classes by which a node labels its rows. A correspondence is a matrix M whose columns are
distributions: M[j, k] is the probability that a row of class k of the desired space has class j of the other one
(Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3).

A TOML file gives the space of the data, the desired one, and which desired classes lie in each class:

    id = "x-rays: two classes"
    classes = ["normal", "pneumonia"]     # in the order of their numbers
    [desired]
    id = "x-rays: three classes"
    classes = ["normal", "bacterial", "viral"]
    [mapping]
    normal = ["normal"]
    pneumonia = ["bacterial", "viral"]    # or with weights: { bacterial = 1, viral = 0.9 }

and how a node learns from it, in the fields of `Labelling` (schedule, steps, estimate and so on).
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flnet.errors import LabelsRefused
from flnet.names import check_name
from flnet.protocol.events import Schedule
from flnet.protocol.messages import explain
from flnet.text import composed, text

MAX_CLASSES = 1000  # in one space; the largest data sets in common use have as many
MAX_CLASS_NAME = 200  # characters


@dataclass(frozen=True)
class LabelSpace:
    """A named list of classes, of which each row has one; nodes state the name of the space that they use.

    Attributes:
        id: its name, 1 to 64 printable characters.
        classes: their names, in the order of their numbers; label 0 is the first one.
    """

    id: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        try:
            check_name(self.id)
        except ValueError as exc:
            raise LabelsRefused(text("the id of a label space {words}", exc)) from exc
        if not 1 <= len(self.classes) <= MAX_CLASSES:
            raise LabelsRefused(
                text(
                    "the label space {name} has {count} classes; expected 1 to {most}",
                    repr(self.id),
                    len(self.classes),
                    MAX_CLASSES,
                )
            )
        for name in self.classes:
            if not is_class_name(name):
                raise LabelsRefused(
                    text(
                        "{name} is no name for a class: expected 1 to {most} printable characters, without "
                        "space around them",
                        repr(name[:40]),
                        MAX_CLASS_NAME,
                    )
                )
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise LabelsRefused(
                text("the label space {name} has the class {class_name} twice", repr(self.id), repr(twice))
            )

    def __len__(self) -> int:
        return len(self.classes)

    def number(self, name: str) -> int | None:
        """The label of the class of this name; None if there is none."""
        return self.classes.index(name) if name in self.classes else None

    @property
    def digest(self) -> str:
        """SHA-256 over the classes in their order, as 64 hex digits; two spaces of one id may still differ."""
        return hashlib.sha256("\n".join(self.classes).encode()).hexdigest()

    def view(self) -> dict[str, Any]:
        """The fields as JSON-ready data, with the names of the TOML file."""
        return {"id": self.id, "classes": list(self.classes)}


def is_class_name(name: str) -> bool:
    """Whether this is a valid name of a class."""
    return 1 <= len(name) <= MAX_CLASS_NAME and name.isprintable() and name == name.strip()


Matrix = NDArray[np.float64]

MAX_CELLS = 2**18  # of a matrix: 512 x 512, or 2 MiB
_TOLERANCE = 1e-6  # of the sum of a column: weights that people write are rounded
_NAMED = 5  # classes that an error names


class Correspondence:
    """The correspondence of a coarse space and the desired one; validated on construction."""

    def __init__(self, desired: LabelSpace, coarse: LabelSpace, matrix: object) -> None:
        """Take the probabilities of coarse classes for each desired one.

        Args:
            desired: the K classes that the model tells apart.
            coarse: the J classes that rows are labelled with.
            matrix: (J, K), finite, not negative; every column adds up to 1 (and is made to do so exactly).

        Raises:
            LabelsRefused: a rule is broken; says which class breaks it.
        """
        _must_fit(desired, coarse)
        try:
            numbers = np.array(matrix, np.float64)
        except (OverflowError, TypeError, ValueError) as exc:
            raise LabelsRefused(text("a correspondence is a table of numbers, with rows of one length")) from exc
        self.desired, self.coarse = desired, coarse
        self.matrix: Matrix = _checked(desired, coarse, numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Correspondence):
            return NotImplemented
        spaces = (self.desired, self.coarse) == (other.desired, other.coarse)
        return spaces and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.desired, self.coarse, self.matrix.tobytes()))


def from_weights(
    desired: LabelSpace, coarse: LabelSpace, weights: Iterable[tuple[str, str, float]]
) -> Correspondence:
    """A correspondence from a table of (coarse class, desired class, weight); pairs that are not named weigh 0.

    Args:
        desired: the classes that the model tells apart.
        coarse: the classes that rows are labelled with.
        weights: the share of the rows of the desired class that carry the coarse one.

    Raises:
        LabelsRefused: a class is not known, a pair stands there twice, or the matrix breaks a rule.
    """
    _must_fit(desired, coarse)
    rows, columns = _numbers(coarse), _numbers(desired)
    matrix, mentioned = np.zeros((len(coarse), len(desired))), set()
    for upper, lower, weight in weights:
        pair = _known(rows, upper, coarse), _known(columns, lower, desired)
        if pair in mentioned:
            raise LabelsRefused(text("{lower} in {upper} stands there twice", repr(lower), repr(upper)))
        mentioned.add(pair)
        matrix[pair] = weight
    return Correspondence(desired, coarse, matrix)


def _must_fit(desired: LabelSpace, coarse: LabelSpace) -> None:
    if len(coarse) * len(desired) > MAX_CELLS:
        raise LabelsRefused(
            text(
                "{rows} x {columns} classes are too many for a correspondence; expected at most {most} pairs",
                len(coarse),
                len(desired),
                MAX_CELLS,
            )
        )


def _numbers(space: LabelSpace) -> dict[str, int]:
    return {name: number for number, name in enumerate(space.classes)}


def _known(numbers: dict[str, int], name: str, space: LabelSpace) -> int:
    if name not in numbers:
        raise LabelsRefused(
            text(
                "{class_name} is no class of the label space {name}; it has {classes}",
                repr(name[:40]),
                repr(space.id),
                _shown(space.classes),
            )
        )
    return numbers[name]


def _checked(desired: LabelSpace, coarse: LabelSpace, matrix: Matrix) -> Matrix:
    if matrix.shape != (len(coarse), len(desired)):
        shape, expected = list(matrix.shape), [len(coarse), len(desired)]
        raise LabelsRefused(
            text(
                "the correspondence has shape {shape}; expected {expected}, a row for each class of "
                "{coarse} and a column for each of {desired}",
                shape,
                expected,
                repr(coarse.id),
                repr(desired.id),
            )
        )
    bad = np.argwhere(~np.isfinite(matrix) | (matrix < 0))
    if len(bad):
        upper, lower = coarse.classes[bad[0][0]], desired.classes[bad[0][1]]
        weight = f"{matrix[tuple(bad[0])]:g}"
        raise LabelsRefused(
            text(
                "the weight of {lower} in {upper} is {value}; expected a finite number from 0 to 1",
                repr(lower),
                repr(upper),
                weight,
            )
        )
    with np.errstate(over="ignore"):
        sums = matrix.sum(axis=0)
    if not sums.all():
        absent = [desired.classes[column] for column in np.flatnonzero(sums == 0)]
        raise LabelsRefused(
            text("{classes}: nothing says which class of {coarse} this is", _shown(absent), repr(coarse.id))
        )
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= _TOLERANCE))
    if len(wrong):
        name, total = desired.classes[wrong[0]], f"{sums[wrong[0]]:.6g}"
        raise LabelsRefused(
            text(
                "the weights of {lower} in the classes of {coarse} add up to {value}; expected 1",
                repr(name),
                repr(coarse.id),
                total,
            )
        )
    matrix /= sums
    matrix.flags.writeable = False
    return matrix


def _shown(names: Iterable[str]) -> str:
    listed = [name[:40] for name in names]
    words = ", ".join(listed[:_NAMED])
    return text("{names} and {count} more", words, len(listed) - _NAMED) if len(listed) > _NAMED else words


MAX_BYTES = 1_000_000  # of one file
LEARNING = (
    *("schedule", "steps", "estimate", "rows", "threshold", "fixed", "mixed", "turning", "heads"),
    *("pool_counts", "aggregation"),
)

UNIFORM = "agg0"
UNIFORM_RULES = (UNIFORM, "median", "geometric-median", "trimmed-mean", "centered-clipping", "krum", "multi-krum")

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
    aggregation: str = UNIFORM


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
        aggregation: how models are averaged, by a rule that counts all nodes alike; the same on all nodes.
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
    aggregation: str = UNIFORM

    @property
    def target(self) -> LabelSpace:
        """The space in which the model predicts; by default the space of the labels."""
        return self.desired or self.space

    @property
    def is_desired(self) -> bool:
        """Whether the rows are labelled in the desired space."""
        return self.space.classes == self.target.classes

    def fields(self) -> dict[str, Any]:
        """The fields as JSON-ready data, with the names of the TOML file; `read_fields` reads them."""
        view: dict[str, Any] = {**self.space.view(), **{name: getattr(self, name) for name in LEARNING}}
        if self.pooled is not None:
            view["pooled"] = self.pooled.view()
        if self.desired is not None:
            view["desired"] = self.desired.view()
        if self.correspondence is not None:
            view["mapping"] = _mapping(self.correspondence)
        return view


def read_toml(data: bytes) -> Labelling:
    """Read the labelling of a data set from TOML text.

    Raises:
        LabelsRefused: it is too large, no TOML, or breaks a rule; says which one.
    """
    if len(data) > MAX_BYTES:
        raise LabelsRefused(
            text(
                "{count} bytes are too many for a table of classes; expected at most {most}", len(data), MAX_BYTES
            )
        )
    try:
        lines = tomllib.loads(composed(data.decode("utf-8-sig")))  # as names are read from data
    except (RecursionError, ValueError) as exc:
        raise LabelsRefused(text("this is no TOML text in UTF-8: {fault}", str(exc)[:100])) from exc
    return read_fields(lines)


def read_fields(lines: Any) -> Labelling:
    """Read the labelling from parsed TOML.

    Raises:
        LabelsRefused: they break a rule.
    """
    try:
        file = _File.model_validate(lines)
    except ValidationError as exc:
        raise LabelsRefused(explain(exc)) from exc
    space = LabelSpace(file.id, tuple(file.classes))
    learning: dict[str, Any] = {name: getattr(file, name) for name in LEARNING}
    learning["pooled"] = _pooled(file, space)
    _check_aggregation(file)
    if file.desired is None:
        if file.mapping is not None:
            raise LabelsRefused(text("a [mapping] needs a [desired] label space"))
        return Labelling(space, **learning)
    desired = LabelSpace(file.desired.id, tuple(file.desired.classes))
    if file.mapping is None:
        return Labelling(space, desired, **learning)
    return Labelling(space, desired, from_weights(desired, space, _pairs(file.mapping)), **learning)


def _pooled(file: _File, space: LabelSpace) -> LabelSpace | None:
    """The label space whose counts are pooled, where it is not the own one.

    Raises:
        LabelsRefused: nobody could say which counts are meant.
    """
    named = None if file.pooled is None else LabelSpace(file.pooled.id, tuple(file.pooled.classes))
    is_desired = file.desired is None or file.desired.classes == file.classes
    if named is not None and not file.pool_counts:
        raise LabelsRefused(text("[pooled] needs the line pool_counts = true"))
    if file.pool_counts and named is None and is_desired:
        raise LabelsRefused(
            text(
                "pool_counts = true needs [pooled], the label space whose counts they are, at nodes "
                "with desired labels"
            )
        )
    if file.pool_counts and named not in (None, space) and not is_desired:
        raise LabelsRefused(
            text(
                "[pooled] is {name}; expected the label space of this file, {here}", repr(named.id), repr(space.id)
            )
        )
    return named if is_desired else None


def _check_aggregation(file: _File) -> None:
    """Raise an error if models cannot be averaged by this rule.

    Raises:
        LabelsRefused: it weighs nodes by their rows, or counts are pooled, which add up in a mean alone.
    """
    if file.aggregation.partition(":")[0] not in UNIFORM_RULES:
        raise LabelsRefused(
            text(
                "aggregation is {got}; expected a rule that counts all nodes alike: {rules}",
                repr(file.aggregation[:40]),
                ", ".join(UNIFORM_RULES),
            )
        )
    if file.pool_counts and file.aggregation != UNIFORM:
        raise LabelsRefused(text("pool_counts = true needs aggregation = {rule}", repr(UNIFORM)))


def must_be_learnable(labelling: Labelling) -> None:
    """Raise an error if nothing can be learnt from a labelling.

    Raises:
        LabelsRefused: it does not say how its classes correspond to those of the desired space; says what to add.
    """
    if labelling.is_desired or labelling.estimate or labelling.correspondence is not None:
        return
    space, target = labelling.space.id, labelling.target.id
    raise LabelsRefused(
        text(
            "nobody says how the classes of {here} correspond to those of {there}: add a "
            "[mapping], or set estimate = true",
            repr(space),
            repr(target),
        )
    )


def _mapping(known: Correspondence) -> dict[str, dict[str, float]]:
    chances: dict[str, dict[str, float]] = {name: {} for name in known.coarse.classes}
    for row, column in zip(*known.matrix.nonzero(), strict=True):
        upper, lower = known.coarse.classes[row], known.desired.classes[column]
        chances[upper][lower] = float(known.matrix[row, column])
    return chances


def _pairs(mapping: dict[str, Names | dict[str, Weight]]) -> Iterator[tuple[str, str, float]]:
    for upper, lower in mapping.items():
        weights = lower.items() if isinstance(lower, dict) else [(name, 1.0) for name in lower]
        yield from ((upper, name, weight) for name, weight in weights)
