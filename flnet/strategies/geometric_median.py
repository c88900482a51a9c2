"""The geometric median: the point whose distances to all updates have the least sum.

Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning" (2022), Algorithm 2, the smoothed
Weiszfeld algorithm. Every point on its way is a mean of the updates with some weights, and its distance to each of
them follows from the weights and from the distances between updates. So the models themselves are read once for
those, and once for the mean at the end, however many steps lie between. Every update counts alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flnet.merging import weighted_mean
from flnet.params import Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import counting
from flnet.strategies.nearest import Squares, squared_distances
from flnet.weighing import Weighed

STEPS = 64  # at most; some ten are usual
_STILL = 1e-9  # a step that changes no weight by more is the last one
_SMOOTHING = 1e-3  # of the median distance: how near to an update a point counts as no nearer


def geometric_median() -> Strategy:
    """The smoothed geometric median of the updates."""

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        there = counting(updates)
        weights = median_weights(squared_distances(there, start.schema))
        rules = {name: spec.merge for name, spec in start.schema.specs.items()}
        sets = [(one.params, weight) for one, weight in zip(there, weights, strict=True)]
        weighed = {one.peer: Weighed(weight) for one, weight in zip(there, weights, strict=True)}
        return Merged(weighted_mean(sets, rules), state, weighed)

    return Strategy("geometric-median", merge)


def median_weights(squares: Squares) -> list[float]:
    """The weights, of sum 1, with which the mean of some points is their smoothed geometric median.

    Points infinitely far from most others get none.

    Args:
        squares: (points, points), squared distances.
    """
    near = [row for row in range(len(squares)) if _is_near(squares, row)] or list(range(len(squares)))
    rows = [[float(squares[one, other]) for other in near] for one in near]
    apart = sorted(math.sqrt(rows[one][other]) for one in range(len(near)) for other in range(one))
    if not apart or not math.isfinite(apart[-1]) or apart[-1] == 0:
        found = [1 / len(near)] * len(near)
    else:
        found = _weiszfeld(rows, _SMOOTHING * (apart[len(apart) // 2] or apart[-1]))
    by_row = dict(zip(near, found, strict=True))
    return [by_row.get(row, 0.0) for row in range(len(squares))]


def _weiszfeld(rows: Sequence[Sequence[float]], least: float) -> list[float]:
    count = len(rows)
    weights = [1 / count] * count
    for _ in range(STEPS):
        to_each = [_sum_of_products(row, weights) for row in rows]
        spread = _sum_of_products(to_each, weights) / 2
        drawn = [1 / max(least, math.sqrt(max(0.0, mean - spread))) for mean in to_each]
        before, weights = weights, [one / math.fsum(drawn) for one in drawn]
        if max(abs(one - other) for one, other in zip(weights, before, strict=True)) <= _STILL:
            break
    return weights


def _is_near(squares: Squares, row: int) -> bool:
    """Whether the distances to at least half of all points, itself among them, are finite."""
    return 2 * sum(math.isfinite(one) for one in squares[row]) >= len(squares)


def _sum_of_products(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))  # rounded once, so the same everywhere
