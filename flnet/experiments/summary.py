"""What finished cells say together: means and spreads beside what was published, and which columns differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

import numpy as np

from flnet.experiments.base import Cell, Outcome
from flnet.experiments.plan import Measure, Plan, Published
from flnet.experiments.ranks import Friedman, SignedRank, critical_difference, friedman, holm, wilcoxon
from flnet.experiments.results import Results
from flnet.params import Array

Done = Sequence[tuple[Cell, Outcome]]


@dataclass(frozen=True)
class Entry:
    """One measure at one place of the table.

    Attributes:
        values: (seed, number), by seed.
        reasons: why seeds have no number, each sentence once.
        missing: seeds that were not run yet.
        nearest: round in which our mean is nearest to what was published, where the figure was kept by round.
    """

    row: str
    column: str
    measure: str
    values: tuple[tuple[int, float], ...]
    published: Published | None = None
    reasons: tuple[str, ...] = ()
    missing: int = 0
    nearest: int | None = None

    @property
    def mean(self) -> float | None:
        """Over the seeds; None without any."""
        return fmean(value for _, value in self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds (divided by n - 1); None for fewer than two."""
        return stdev(value for _, value in self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less what was published."""
        return None if self.published is None or self.mean is None else self.mean - self.published.value

    @property
    def standard_errors(self) -> float | None:
        """The difference, in standard errors of a difference of two means; None where too little is known for it.

        Where the source tells no spread, it is taken for ours.
        """
        there = self.published
        if there is None or there.seeds is None or self.difference is None or self.spread is None:
            return None
        theirs = self.spread if there.spread is None else there.spread
        error = sqrt(self.spread**2 / len(self.values) + theirs**2 / there.seeds)
        return abs(self.difference) / error if error else None


@dataclass(frozen=True)
class Pair:
    """Two columns.

    Attributes:
        better: the one that is better in the mean; the first of equal ones.
        test: of their differences.
        p: its chance after Holm's correction for all pairs of the comparison.
    """

    better: str
    other: str
    test: SignedRank
    p: float


@dataclass(frozen=True)
class Comparison:
    """Some columns by one measure, over all rows and seeds for which each of them has a number.

    Attributes:
        distance: the critical difference of their mean ranks.
        pairs: each with each, those that differ most surely first.
    """

    measure: str
    columns: tuple[str, ...]
    friedman: Friedman
    distance: float
    pairs: tuple[Pair, ...] = ()


def entries(plan: Plan, wanted: Sequence[Cell], results: Results) -> list[Entry]:
    """Every place of the table for every measure, in the order of the plan.

    Args:
        wanted: the cells that were asked for.
    """
    at: dict[tuple[str, str], list[Cell]] = {}
    for cell in wanted:
        at.setdefault((cell.row, cell.column), []).append(cell)
    published = {(one.row, one.column, one.measure): one for one in plan.published}
    found = []
    for measure, (place, cells) in itertools.product(plan.measures, at.items()):
        here = [(cell, outcome) for cell in cells if (outcome := results.get(cell)) is not None]
        found.append(_entry(place, measure, here, published.get((*place, measure.name)), len(cells) - len(here)))
    return found


def _entry(
    place: tuple[str, str], measure: Measure, here: Done, published: Published | None, missing: int
) -> Entry:
    found = [(cell.seed, outcome.value(measure.figure, measure.over)) for cell, outcome in here]
    reasons = dict.fromkeys(outcome.reason for _, outcome in here if outcome.reason)
    return Entry(
        *place,
        measure.name,
        tuple(sorted((seed, value) for seed, value in found if value is not None)),
        published,
        tuple(reasons),
        missing,
        None if published is None else _nearest(measure, here, published.value),
    )


def _nearest(measure: Measure, here: Done, published: float) -> int | None:
    """The round, counted from 1, among those that all seeds had."""
    courses = [outcome.course(measure.figure) for _, outcome in here if measure.figure in outcome.curves]
    means = [fmean(values) for values in zip(*courses, strict=False)] if measure.over == "mean" else []
    if len(means) < 2:
        return None
    return min(range(len(means)), key=lambda number: abs(means[number] - published)) + 1


def comparisons(plan: Plan, there: Iterable[Entry]) -> list[Comparison]:
    """The rank tests that the plan asks for, as far as there are rows for them.

    Raises:
        NotOffered: SciPy is not installed.
    """
    known = list(there)
    measures = {measure.name: measure for measure in plan.measures}
    sets = plan.compared or (tuple(column.name for column in plan.columns),)
    found = []
    for name in plan.statistics:
        for columns in sets:
            table = seed_rows(known, name, columns)
            if len(columns) > 1 and len(table):
                found.append(compared(measures[name], columns, table))
    return found


def seed_rows(there: Iterable[Entry], measure: str, columns: Sequence[str]) -> Array:
    """One line for each row and seed for which all these columns have a number, (n, columns)."""
    numbers: dict[tuple[str, int], dict[str, float]] = {}
    for entry in there:
        if entry.measure == measure:
            for seed, value in entry.values:
                numbers.setdefault((entry.row, seed), {})[entry.column] = value
    whole = [[line[name] for name in columns] for line in numbers.values() if all(n in line for n in columns)]
    return np.array(whole, np.float64).reshape(len(whole), len(columns))


def compared(measure: Measure, columns: tuple[str, ...], table: Array) -> Comparison:
    """What all tests on ranks say of these columns.

    Args:
        table: (rows, columns), finite.

    Raises:
        NotOffered: SciPy is not installed.
    """
    better = not measure.lower_is_better
    test = friedman(table, higher_is_better=better)
    distance = critical_difference(len(columns), len(table))
    return Comparison(measure.name, columns, test, distance, _pairs(columns, table, better))


def _pairs(columns: Sequence[str], table: Array, higher_is_better: bool) -> tuple[Pair, ...]:
    places = list(itertools.combinations(range(len(columns)), 2))
    tests = [wilcoxon(table[:, one], table[:, other]) for one, other in places]
    means = table.mean(axis=0) * (1 if higher_is_better else -1)
    found = []
    for (one, other), test, p in zip(places, tests, holm([test.p for test in tests]), strict=True):
        first, second = (one, other) if means[one] >= means[other] else (other, one)
        found.append(Pair(columns[first], columns[second], test, p))
    return tuple(sorted(found, key=lambda pair: pair.test.p))
