"""Whether methods differ over many tables' rows: Friedman, Nemenyi and Wilcoxon, as J. Demšar (2006) has them.

J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of Machine Learning Research
7, 2006. A row is one data set, or one seed of it; a column is one method. Rank 1 is the best of a row. The
distributions are SciPy's, which comes with the extra `experiments` and is loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from flnet.errors import NotOffered
from flnet.params import Array


@dataclass(frozen=True)
class Friedman:
    """What the test says of k methods over n rows.

    Attributes:
        ranks: mean rank of each method, 1 for one that is best in every row.
        rows: n.
        statistic: Q, chi-squared with k - 1 degrees of freedom where the methods are alike.
        p: the chance of so large a Q, or a larger one, where they are alike.
    """

    ranks: tuple[float, ...]
    rows: int
    statistic: float
    p: float


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's test of two methods.

    Attributes:
        statistic: the smaller sum of the ranks of differences of one sign.
        p: of both sides; 1 where no row differs.
        rows: those that differ.
    """

    statistic: float
    p: float
    rows: int


def ranked(table: Array, higher_is_better: bool = True) -> Array:
    """The rank of each value within its row, 1 for the best, the mean of their places for equal ones.

    Args:
        table: (n, k), finite.

    Returns:
        float64 of the same shape.
    """
    values = -np.asarray(table, np.float64) if higher_is_better else np.asarray(table, np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"a table of finite values, rows x methods, can be ranked, not one of shape {values.shape}"
        )
    below = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    alike = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    found: Array = below + (alike + 1) / 2
    return found


def friedman(table: Array, *, higher_is_better: bool = True, tie_corrected: bool = False) -> Friedman:
    """Whether the methods (columns) of a table differ in their ranks.

    Args:
        table: (n, k) with k at least 2.
        higher_is_better: accuracies; False for losses.
        tie_corrected: divide Q by what ties within rows leave of it; Delgado Bejarano 2024 does not.

    Raises:
        ValueError: fewer than two methods, no rows, or a value that is no finite number.
        NotOffered: SciPy is not installed.
    """
    ranks = ranked(table, higher_is_better)
    found = friedman_of_ranks(ranks.mean(axis=0), len(ranks))
    if not tie_corrected:
        return found
    rows, methods = ranks.shape
    tied = sum(float((counts**3 - counts).sum()) for counts in map(_ties, ranks))
    left = 1 - tied / (rows * methods * (methods**2 - 1))
    statistic = found.statistic / left if left > 0 else 0.0
    return Friedman(found.ranks, rows, statistic, _chi_squared(statistic, methods - 1))


def friedman_of_ranks(ranks: Sequence[float] | Array, rows: int) -> Friedman:
    """The test from mean ranks alone, as papers print them; without a correction for ties.

    Raises:
        ValueError: fewer than two methods, or no rows.
        NotOffered: SciPy is not installed.
    """
    means = np.asarray(ranks, np.float64)
    methods = len(means)
    if methods < 2 or rows < 1:
        raise ValueError(f"two methods and a row at least are compared, not {methods} over {rows} rows")
    apart = float(((means - (methods + 1) / 2) ** 2).sum())
    statistic = 12 * rows / (methods * (methods + 1)) * apart
    return Friedman(tuple(means.tolist()), rows, statistic, _chi_squared(statistic, methods - 1))


def critical_difference(methods: int, rows: int, alpha: float = 0.05) -> float:
    """By how much two mean ranks differ at least where their methods do (Nemenyi 1963).

    The studentised range with infinite degrees of freedom is divided by the root of 2, as Demšar's table 5 is.

    Raises:
        NotOffered: SciPy is not installed.
    """
    quantile = float(_stats().studentized_range.ppf(1 - alpha, methods, np.inf)) / sqrt(2)
    return quantile * sqrt(methods * (methods + 1) / (6 * rows))


def alike(ranks: Sequence[float], distance: float) -> list[tuple[int, ...]]:
    """The largest groups of methods whose mean ranks lie within the critical difference, by their numbers.

    A group lists its members from the best rank on; methods that stand alone are in none.
    """
    order = sorted(range(len(ranks)), key=lambda number: (ranks[number], number))
    groups: list[tuple[int, ...]] = []
    reached = 0  # how far into the order the groups go
    for start, first in enumerate(order):
        end = max(at for at, number in enumerate(order) if ranks[number] - ranks[first] <= distance) + 1
        if end > reached and end - start > 1:
            groups.append(tuple(order[start:end]))
        reached = max(reached, end)
    return groups


def wilcoxon(first: Array, second: Array) -> SignedRank:
    """Whether two methods differ over the same rows; rows in which they are equal are left out (Wilcoxon 1945).

    Raises:
        ValueError: not as many rows of the one as of the other.
        NotOffered: SciPy is not installed.
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"two lists of equally many values are compared, not {one.shape} and {other.shape}")
    apart = one - other
    apart = apart[apart != 0]
    if not apart.size:
        return SignedRank(0.0, 1.0, 0)
    found = _stats().wilcoxon(apart)
    return SignedRank(float(found.statistic), float(found.pvalue), len(apart))


def holm(chances: Sequence[float]) -> list[float]:
    """Chances of several tests at once, after the step-down correction of Holm (1979), in the order given.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none becomes smaller than one before it, or
    larger than 1. What is at most 0.05 then holds for all of them together.
    """
    order = sorted(range(len(chances)), key=lambda number: chances[number])
    found, least = [1.0] * len(chances), 0.0
    for place, number in enumerate(order):
        least = max(least, min(1.0, (len(chances) - place) * chances[number]))
        found[number] = least
    return found


def _ties(ranks: Array) -> Array:
    """How many methods share each rank of a row."""
    counts: Array = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    return counts


def _chi_squared(statistic: float, degrees: int) -> float:
    return float(_stats().chi2.sf(statistic, degrees))


def _stats() -> Any:
    try:
        from scipy import stats  # noqa: PLC0415
    except ImportError as exc:
        words = 'this test needs SciPy, which is not installed; install it (pip install "flnet[experiments]")'
        raise NotOffered(words) from exc
    return stats
