"""How the classes of two label spaces correspond: a matrix whose columns are distributions, and its checks.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3: M[j, k] is the
probability that a row of class k of the desired space carries class j of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from flnet.labels.space import LabelSpace
from flnet.refusals import LabelsRefused

Matrix = NDArray[np.float64]

MAX_CELLS = 2**18  # of a matrix: 512 x 512, or 2 MiB
_TOLERANCE = 1e-6  # of the sum of a column: weights that people write are rounded
_NAMED = 5  # classes that an error names


class Correspondence:
    """What the classes of a coarse space say about those of the desired one; checked when it is made."""

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
            raise LabelsRefused("a correspondence is a table of numbers, with rows of one length") from exc
        self.desired, self.coarse = desired, coarse
        self.matrix: Matrix = _checked(desired, coarse, numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Correspondence):
            return NotImplemented
        spaces = (self.desired, self.coarse) == (other.desired, other.coarse)
        return spaces and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.desired, self.coarse, self.matrix.tobytes()))

    @property
    def is_nested(self) -> bool:
        """Whether every desired class lies in one coarse class as a whole."""
        return bool((self.matrix.max(axis=0) == 1).all())

    @property
    def silent(self) -> tuple[str, ...]:
        """Coarse classes in which no desired class lies: rows that carry them teach nothing, and are left out."""
        return tuple(self.coarse.classes[row] for row in np.flatnonzero(~self.matrix.any(axis=1)))


def identity(space: LabelSpace) -> Correspondence:
    """Of a space with itself: projecting changes nothing."""
    return Correspondence(space, space, np.eye(len(space)))


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
    matrix, said = np.zeros((len(coarse), len(desired))), set()
    for upper, lower, weight in weights:
        pair = _known(rows, upper, coarse), _known(columns, lower, desired)
        if pair in said:
            raise LabelsRefused(f"{lower!r} in {upper!r} stands there twice")
        said.add(pair)
        matrix[pair] = weight
    return Correspondence(desired, coarse, matrix)


def _must_fit(desired: LabelSpace, coarse: LabelSpace) -> None:
    if len(coarse) * len(desired) > MAX_CELLS:
        raise LabelsRefused(
            f"{len(coarse)} x {len(desired)} classes are too many for a correspondence; "
            f"expected at most {MAX_CELLS} pairs"
        )


def _numbers(space: LabelSpace) -> dict[str, int]:
    return {name: number for number, name in enumerate(space.classes)}


def _known(numbers: dict[str, int], name: str, space: LabelSpace) -> int:
    if name not in numbers:
        raise LabelsRefused(
            f"{name[:40]!r} is no class of the label space {space.id!r}; it has {_shown(space.classes)}"
        )
    return numbers[name]


def _checked(desired: LabelSpace, coarse: LabelSpace, matrix: Matrix) -> Matrix:
    if matrix.shape != (len(coarse), len(desired)):
        found, expected = list(matrix.shape), [len(coarse), len(desired)]
        raise LabelsRefused(
            f"the correspondence has shape {found}; expected {expected}, a row for each class of {coarse.id!r} "
            f"and a column for each of {desired.id!r}"
        )
    bad = np.argwhere(~np.isfinite(matrix) | (matrix < 0))
    if len(bad):
        upper, lower = coarse.classes[bad[0][0]], desired.classes[bad[0][1]]
        weight = f"{matrix[tuple(bad[0])]:g}"
        raise LabelsRefused(
            f"the weight of {lower!r} in {upper!r} is {weight}; expected a finite number from 0 to 1"
        )
    with np.errstate(over="ignore"):
        sums = matrix.sum(axis=0)
    if not sums.all():
        absent = [desired.classes[column] for column in np.flatnonzero(sums == 0)]
        raise LabelsRefused(f"{_shown(absent)}: nothing says which class of {coarse.id!r} this is")
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= _TOLERANCE))
    if len(wrong):
        name, total = desired.classes[wrong[0]], f"{sums[wrong[0]]:.6g}"
        raise LabelsRefused(
            f"the weights of {name!r} in the classes of {coarse.id!r} add up to {total}; expected 1"
        )
    matrix /= sums
    matrix.flags.writeable = False
    return matrix


def _shown(names: Iterable[str]) -> str:
    listed = [name[:40] for name in names]
    words = ", ".join(listed[:_NAMED])
    return f"{words} and {len(listed) - _NAMED} more" if len(listed) > _NAMED else words
