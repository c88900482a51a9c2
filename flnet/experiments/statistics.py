"""Statistics of finished cells: means and spreads of a table, and rank tests between its columns.

The tests are those of J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of
Machine Learning Research 7, 2006. A row of a test is one row of the table with one seed, and a column is one
method; rank 1 is the best of a row. SciPy, which comes with the extra `experiments`, is loaded when it is needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np

from flnet.errors import NotOffered
from flnet.experiments.cells import Cell, Outcome, Over, Results, in_all
from flnet.experiments.plan import Measure, Plan
from flnet.experiments.published import Published, Value
from flnet.installing import install
from flnet.params.params import Array

Done = Sequence[tuple[Cell, Outcome]]
CHANCE = 2.0  # standard errors within which a difference may well be chance
SMALL = 0.1  # published values below it have a tolerance in proportion to them


@dataclass(frozen=True)
class Summary:
    """What a table that was written has of the seeds of a cell.

    Attributes:
        spread: standard deviation (with n - 1); None for fewer than two.
    """

    count: int
    mean: float
    spread: float | None


@dataclass(frozen=True)
class TableEntry:
    """One measure at one place of the table.

    Attributes:
        values: (seed, number), by seed.
        reasons: why seeds have no number, each reason once.
        missing: how many seeds have not been run yet.
        nearest: after how many rounds our mean is nearest to the published value, if the figure was kept by round.
        summary: of all seeds, where only that was kept and `values` is empty.
    """

    row: str
    column: str
    measure: str
    values: tuple[tuple[int, float], ...]
    published: Published | None = None
    reasons: tuple[str, ...] = ()
    missing: int = 0
    nearest: int | None = None
    summary: Summary | None = None

    @property
    def count(self) -> int:
        """How many seeds have a number."""
        return self.summary.count if self.summary else len(self.values)

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None without any."""
        if self.summary:
            return self.summary.mean
        return fmean(value for _, value in self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds (with n - 1); None for fewer than two."""
        if self.summary:
            return self.summary.spread
        return stdev(value for _, value in self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Our mean minus the published value; 0 where that is a bound or a range which our mean keeps."""
        return None if self.published is None or self.mean is None else self.published.value.difference(self.mean)

    @property
    def standard_errors(self) -> float | None:
        """The difference in standard errors of a difference of two means; None if too little is known.

        If the source gives no spread, ours is taken for it.
        """
        published = self.published
        if published is None or published.seeds is None or self.difference is None or self.spread is None:
            return None
        theirs = self.spread if published.spread is None else published.spread
        error = sqrt(self.spread**2 / self.count + theirs**2 / published.seeds)
        return abs(self.difference) / error if error else None

    def is_within(self, tolerance: float) -> bool:
        """Whether the difference is at most the tolerance, which for values below 0.1 shrinks with the value.

        A bound has no tolerance: it holds or not.
        """
        if self.published is None or self.difference is None:
            return False
        if self.published.value.is_bound:
            return self.difference == 0
        size = min(map(abs, self.published.value.ends))
        return abs(self.difference) <= tolerance * min(1.0, size / SMALL)

    def is_near(self, tolerance: float) -> bool:
        """Whether our mean agrees with the published value: within two standard errors, whatever the tolerance.

        So a small difference of two exact means is none that agrees, and a large one of two inexact means no
        miss. The tolerance decides where standard errors are not known.
        """
        errors = self.standard_errors
        return self.is_within(tolerance) if errors is None else errors <= CHANCE


@dataclass(frozen=True)
class Friedman:
    """Friedman's test of k methods over n rows.

    Attributes:
        ranks: mean rank of each method; 1 for a method that is best in every row.
        rows: n.
        statistic: Q, which has a chi-squared distribution with k - 1 degrees of freedom if the methods are alike.
        p: probability of such a Q or a larger one if they are alike.
    """

    ranks: tuple[float, ...]
    rows: int
    statistic: float
    p: float


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's signed-rank test of two methods.

    Attributes:
        statistic: the smaller sum of the ranks of differences of one sign.
        p: two-sided; 1 if no row differs.
        rows: how many rows differ.
    """

    statistic: float
    p: float
    rows: int


@dataclass(frozen=True)
class Pair:
    """A test of two columns.

    Attributes:
        better: the column with the better mean; the first if they are equal.
        p: after Holm's correction for all pairs of the comparison.
    """

    better: str
    other: str
    test: SignedRank
    p: float


@dataclass(frozen=True)
class RankComparison:
    """Tests of some columns by one measure, over all rows and seeds for which each column has a number.

    Attributes:
        distance: critical difference of the mean ranks.
        pairs: all pairs of columns, in order of p.
    """

    measure: str
    columns: tuple[str, ...]
    friedman: Friedman
    distance: float
    pairs: tuple[Pair, ...] = ()


# Entries of the table.


def entries(plan: Plan, cells: Sequence[Cell], results: Results) -> list[TableEntry]:
    """Every place of the table for every measure, in the order of the plan.

    Args:
        cells: those that were asked for.
    """
    by_place: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_place.setdefault((cell.row, cell.column), []).append(cell)
    published = {(value.row, value.column, value.measure): value for value in plan.published}
    table = []
    for measure, (place, at_place) in itertools.product(plan.measures, by_place.items()):
        done = [(cell, outcome) for cell in at_place if (outcome := results.get(cell)) is not None]
        value = published.get((*place, measure.name))
        goals = {
            cell.seed: goal
            for cell in by_place.get((place[0], measure.reaches), ())
            if (outcome := results.get(cell)) is not None
            and (goal := outcome.value(measure.figure, _over_rounds(measure), measure.nodes)) is not None
        }
        table.append(_entry(place, measure, done, goals, value, len(at_place) - len(done)))
    return table + list(_mean_rows(plan, table, published))


def _mean_rows(
    plan: Plan, table: Sequence[TableEntry], published: Mapping[tuple[str, str, str], Published]
) -> Iterator[TableEntry]:
    """The rows that are means of others."""
    at = {(entry.row, entry.column, entry.measure): dict(entry.values) for entry in table}
    for measure, line, column in itertools.product(plan.measures, plan.means, plan.columns):
        rows = [at.get((row, column.name, measure.name), {}) for row in line.of]
        seeds = sorted(set.intersection(*map(set, rows)))
        values = tuple((seed, fmean(row[seed] for row in rows)) for seed in seeds)
        place = (line.name, column.name, measure.name)
        yield TableEntry(*place, values, published.get(place))


def _entry(
    place: tuple[str, str],
    measure: Measure,
    done: Done,
    goals: Mapping[int, float],
    published: Published | None,
    missing: int,
) -> TableEntry:
    numbers, reasons = _numbers(measure, done, goals)
    return TableEntry(
        *place,
        measure.name,
        tuple(sorted(numbers.items())),
        published,
        tuple(reasons),
        missing,
        None if published is None else _nearest(measure, done, published.value),
    )


def _numbers(measure: Measure, done: Done, goals: Mapping[int, float]) -> tuple[dict[int, float], dict[str, None]]:
    """The number of each seed that has one, and the reasons why others have none.

    Args:
        goals: what is to be reached, by seed, if the measure is when that was.
    """
    numbers: dict[int, float] = {}
    reasons: dict[str, None] = {}
    for cell, outcome in done:
        goal = goals.get(cell.seed, inf)
        value = (
            _reached(measure, outcome, goal)
            if measure.reaches
            else outcome.value(measure.figure, measure.over, measure.nodes)
        )
        if value is not None:
            numbers[cell.seed] = value
        elif outcome.reason:
            reasons[outcome.reason] = None
        elif why := _why_not_counted(measure, outcome):
            reasons[why] = None
        elif goal < inf:
            reasons[f"{measure.figure} of {measure.reaches} not reached in {outcome.rounds} rounds"] = None
    return numbers, reasons


def _reached(measure: Measure, outcome: Outcome, goal: float) -> float | None:
    """When the training had reached the goal, in the unit of the measure; None if it never did."""
    course = outcome.course(measure.figure, measure.nodes, _over_rounds(measure))
    rounds = next((number for number, value in course.items() if value >= goal), None)
    if rounds is None or measure.unit == "rounds":
        return rounds
    return outcome.processor_seconds * rounds / outcome.rounds


def _why_not_counted(measure: Measure, outcome: Outcome) -> str:
    """The reason why there is no figure over all rows, if one is wanted; else empty."""
    if measure.over != "rows" or (measure.reaches and outcome.course(measure.figure, measure.nodes, "rows")):
        return ""
    return outcome.why_not_over_rows(measure.figure)


def _over_rounds(measure: Measure) -> Over:
    """How nodes are combined where a figure is followed over the rounds: the mean, or all rows."""
    return "rows" if measure.over == "rows" else "mean"


def _nearest(measure: Measure, done: Done, published: Value) -> int | None:
    """The number of rounds after which the mean is nearest to the published value, as far as all seeds had them."""
    courses = [
        outcome.course(measure.figure, measure.nodes, measure.over)
        for _, outcome in done
        if measure.figure in outcome.curves
    ]
    is_mean = measure.over in {"mean", "rows"} and not measure.reaches
    means = {number: fmean(values) for number, values in in_all(courses).items()} if is_mean else {}
    if len(means) < 2:
        return None
    return min(means, key=lambda number: abs(published.difference(means[number])))


# Comparisons of columns.


def comparisons(plan: Plan, table: Iterable[TableEntry]) -> list[RankComparison]:
    """The rank tests that the plan asks for, as far as there are rows for them.

    Raises:
        NotOffered: SciPy is not installed.
    """
    means = {line.name for line in plan.means}
    known = [entry for entry in table if entry.row not in means]
    measures = {measure.name: measure for measure in plan.measures}
    sets = plan.compared or (tuple(column.name for column in plan.columns),)
    tests = []
    for name, columns in itertools.product(plan.statistics, sets):
        rows = seed_rows(known, name, columns)
        if len(columns) > 1 and len(rows):
            tests.append(compare(measures[name], columns, rows))
    return tests


def seed_rows(table: Iterable[TableEntry], measure: str, columns: Sequence[str]) -> Array:
    """One row for each row and seed for which all these columns have a number, (n, columns)."""
    numbers: dict[tuple[str, int], dict[str, float]] = {}
    for entry in table:
        if entry.measure == measure:
            for seed, value in entry.values:
                numbers.setdefault((entry.row, seed), {})[entry.column] = value
    complete = [[row[name] for name in columns] for row in numbers.values() if all(n in row for n in columns)]
    return np.array(complete, np.float64).reshape(len(complete), len(columns))


def compare(measure: Measure, columns: tuple[str, ...], rows: Array) -> RankComparison:
    """All tests of these columns.

    Args:
        rows: (rows, columns), finite.

    Raises:
        NotOffered: SciPy is not installed.
    """
    higher_is_better = not measure.lower_is_better
    test = friedman(rows, higher_is_better=higher_is_better)
    distance = critical_difference(len(columns), len(rows))
    return RankComparison(measure.name, columns, test, distance, _pairs(columns, rows, higher_is_better))


def _pairs(columns: Sequence[str], rows: Array, higher_is_better: bool) -> tuple[Pair, ...]:
    numbers = list(itertools.combinations(range(len(columns)), 2))
    tests = [wilcoxon(rows[:, a], rows[:, b]) for a, b in numbers]
    means = rows.mean(axis=0) * (1 if higher_is_better else -1)
    pairs = []
    for (a, b), test, p in zip(numbers, tests, holm([test.p for test in tests]), strict=True):
        better, other = (a, b) if means[a] >= means[b] else (b, a)
        pairs.append(Pair(columns[better], columns[other], test, p))
    return tuple(sorted(pairs, key=lambda pair: pair.test.p))


# Rank tests.


def friedman(table: Array, *, higher_is_better: bool = True) -> Friedman:
    """Test whether the methods (columns) of a table differ in their ranks.

    Q is not corrected for ties, as in Delgado Bejarano (2024); `scipy.stats.friedmanchisquare` corrects it.

    Args:
        table: (rows, methods), finite; equal values of a row share their mean rank.

    Raises:
        ValueError: there are fewer than two methods, no rows, or a value is not finite.
        NotOffered: SciPy is not installed.
    """
    values = np.asarray(table, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"expected finite values of at least two methods and one row, not {values.shape}")
    ranks = _scipy_stats().rankdata(-values if higher_is_better else values, axis=1)
    return friedman_of_ranks(ranks.mean(axis=0), len(ranks))


def friedman_of_ranks(ranks: Sequence[float] | Array, rows: int) -> Friedman:
    """Friedman's test from mean ranks alone, as papers print them; not corrected for ties.

    Raises:
        NotOffered: SciPy is not installed.
    """
    means = np.asarray(ranks, np.float64)
    methods = len(means)
    statistic = 12 * rows / (methods * (methods + 1)) * float(((means - (methods + 1) / 2) ** 2).sum())
    return Friedman(tuple(means.tolist()), rows, statistic, float(_scipy_stats().chi2.sf(statistic, methods - 1)))


def critical_difference(methods: int, rows: int, alpha: float = 0.05) -> float:
    """The difference of mean ranks from which on two methods differ (Nemenyi 1963).

    The studentised range with infinite degrees of freedom is divided by the root of 2, as in Demšar's table 5.

    Raises:
        NotOffered: SciPy is not installed.
    """
    quantile = float(_scipy_stats().studentized_range.ppf(1 - alpha, methods, np.inf)) / sqrt(2)
    return quantile * sqrt(methods * (methods + 1) / (6 * rows))


def groups_alike(ranks: Sequence[float], distance: float) -> list[tuple[int, ...]]:
    """The largest groups of methods (by number) whose mean ranks lie within the critical difference.

    A group lists its members by rank. A method that differs from all others is in no group.
    """
    order = sorted(range(len(ranks)), key=lambda number: (ranks[number], number))
    groups: list[tuple[int, ...]] = []
    reached = 0  # how many of `order` the groups contain so far
    for start, first in enumerate(order):
        end = max(at for at, number in enumerate(order) if ranks[number] - ranks[first] <= distance) + 1
        if end > reached and end - start > 1:
            groups.append(tuple(order[start:end]))
        reached = max(reached, end)
    return groups


def wilcoxon(first: Array, second: Array) -> SignedRank:
    """Test whether two methods differ over the same rows; rows in which they are equal are left out.

    Raises:
        NotOffered: SciPy is not installed.
    """
    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    differences = differences[differences != 0]
    if not differences.size:
        return SignedRank(0.0, 1.0, 0)
    test = _scipy_stats().wilcoxon(differences)
    return SignedRank(float(test.statistic), float(test.pvalue), len(differences))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests by Holm's step-down method (1979), in the order given.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none becomes smaller than one before it, or
    larger than 1. Values of at most 0.05 then hold for all tests together.
    """
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    corrected, least = [1.0] * len(p_values), 0.0
    for place, number in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[number]))
        corrected[number] = least
    return corrected


def _scipy_stats() -> Any:
    try:
        from scipy import stats  # noqa: PLC0415
    except ImportError as exc:
        message = f"this test needs SciPy, which is not installed; install it ({install('experiments')})"
        raise NotOffered(message) from exc
    return stats
