"""Logistic regression with the Taylor loss, which needs only sums and products: the arithmetic, in clear text.

Hardy et al., "Private federated learning on vertically partitioned data via entity resolution and additively
homomorphic encryption", arXiv 1711.10677, 2017; A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el
análisis de datos sensibles", Universidad de la República, 2024, Algorithms 3 and 4. With labels y of -1 and +1 and
scores z = X theta, log(1 + exp(-y z)) is replaced by its Taylor polynomial around 0:

    loss      log 2 - y z / 2 + z^2 / 8, the mean over the rows
    gradient  X' (m (z / 4 - y / 2)) / sum(m)     m is 1 for rows that count and 0 for others
    step      theta - rate (gradient + ridge theta)

As printed in the second work, the ridge stands outside the rate and has the wrong sign, X is not transposed, and the
sum of m is missing; with these the result is no minimum. The polynomial holds near 0 only: columns have to be
standardised. With columns 30 times as large the steps diverge where those of the exact gradient stay bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.errors import TrainerError
from flnet.text import text

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

RANGE = 4.0  # of |z|: beyond it the slopes of the polynomial and of the exact loss differ by more than 0.5
MOST_MEAN, MOST_DEVIATION = 0.5, 2.0  # of a column that counts as standardised: training rows are a part of all


def taylor_gradient(rows: Matrix, labels: Vector, theta: Vector, mask: Vector | None = None) -> Vector:
    """The gradient of the Taylor loss, (columns,).

    Args:
        rows: (n, columns).
        labels: (n,) of -1 and +1.
        theta: (columns,).
        mask: (n,) of 0 and 1; None for all rows. At least one row has to count.
    """
    m = np.ones(len(rows)) if mask is None else mask
    gradient: Vector = rows.T @ (m * (rows @ theta / 4 - labels / 2)) / m.sum()
    return gradient


def taylor_loss(rows: Matrix, labels: Vector, theta: Vector, mask: Vector | None = None) -> float:
    """The Taylor loss, the mean over the rows that count."""
    m = np.ones(len(rows)) if mask is None else mask
    z = rows @ theta
    return float(math.log(2) + (m * (z * z / 8 - labels * z / 2)).sum() / m.sum())


def exact_gradient(rows: Matrix, labels: Vector, theta: Vector) -> Vector:
    """The gradient of the logistic loss, (columns,), for comparison."""
    wrong = (1 - np.tanh(labels * (rows @ theta) / 2)) / 2  # 1 / (1 + exp(y z)), which cannot overflow
    gradient: Vector = rows.T @ (-labels * wrong) / len(rows)
    return gradient


def exact_loss(rows: Matrix, labels: Vector, theta: Vector) -> float:
    """The logistic loss, for comparison."""
    return float(np.logaddexp(0, -labels * (rows @ theta)).mean())


def step(theta: Vector, gradient: Vector, rate: float, ridge: float) -> Vector:
    """One step of gradient descent with the ridge inside the rate."""
    return theta - rate * (gradient + ridge * theta)


def train(
    rows: Matrix,
    labels: Vector,
    batches: Sequence[int],
    start: Vector,
    epochs: int = 20,
    rate: float = 0.05,
    ridge: float = 0.01,
    mask: Vector | None = None,
    fewest: int = 1,
) -> Vector:
    """What encrypted training computes, in clear text: theta after all epochs.

    Args:
        rows: (n, columns), in the order of the batches.
        labels: (n,) of -1 and +1.
        batches: rows of each batch; they stay the same in all epochs.
        start: theta at the start.
        epochs: passes over the batches.
        rate: of a step.
        ridge: share of theta that is added to the gradient.
        mask: (n,) of 0 and 1; None for all rows.
        fewest: batches with fewer rows that count are skipped.
    """
    m, theta = np.ones(len(rows)) if mask is None else mask, start
    for _ in range(epochs):
        for part in slices(batches):
            if m[part].sum() >= fewest:
                theta = step(theta, taylor_gradient(rows[part], labels[part], theta, m[part]), rate, ridge)
    return theta


def fixed_batches(rows: int, size: int) -> tuple[int, ...]:
    """Rows of each batch: as many batches of at least `size` rows as there can be, of nearly equal size.

    A short last batch would give away more of its rows than the others. Fewer rows than `size` are one batch.
    """
    count = max(1, rows // size)
    return tuple(rows // count + (number < rows % count) for number in range(count))


def slices(batches: Sequence[int]) -> list[slice]:
    """Where each batch stands in the rows."""
    ends = np.cumsum(batches).tolist()
    return [slice(end - size, end) for end, size in zip(ends, batches, strict=True)]


def standardise(rows: Matrix, at_most: float | None = None) -> tuple[Matrix, Vector, Vector]:
    """Columns with mean 0 and standard deviation 1, and both as they were.

    Args:
        rows: (n, columns), finite. A column with only one value becomes 0.
        at_most: cut values that are further from the mean than so many standard deviations.
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scaled = (rows - mean) / np.where(deviation > 0, deviation, 1.0)
    return (scaled if at_most is None else np.clip(scaled, -at_most, at_most)), mean, deviation


def check_standardised(rows: Matrix) -> None:
    """Refuse columns for which the Taylor loss does not hold.

    Raises:
        TrainerError: a number is not finite, or a mean or a standard deviation is too large; says which.
    """
    if not np.isfinite(rows).all():
        raise TrainerError(text("a column has a value that is not a finite number"))
    for number, (mean, deviation) in enumerate(zip(rows.mean(axis=0), rows.std(axis=0), strict=True)):
        if abs(mean) > MOST_MEAN or deviation > MOST_DEVIATION:
            raise TrainerError(
                text(
                    "column {number} has the mean {mean} and the standard deviation {deviation}; encrypted regression "
                    "needs standardised columns (mean 0, standard deviation 1), since its loss only holds near 0",
                    number,
                    f"{mean:.3g}",
                    f"{deviation:.3g}",
                )
            )


def signed_labels(labels: NDArray[np.generic]) -> Vector:
    """Labels of 0 and 1, or of -1 and +1, as -1 and +1.

    Raises:
        TrainerError: there are other values.
    """
    values = {float(value) for value in np.unique(np.asarray(labels, np.float64))}
    if not (values <= {0.0, 1.0} or values <= {-1.0, 1.0}):
        shown = ", ".join(f"{value:g}" for value in sorted(values)[:5])
        raise TrainerError(text("labels are {values}; expected 0 and 1, or -1 and +1", shown))
    return np.where(np.asarray(labels, np.float64) > 0, 1.0, -1.0)
