"""The coordinate-wise median and the geometric median of updates.

Coordinate-wise: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates" (2018), Algorithm 1, option I, here with models in place of gradients. Fewer than half of the updates, whatever
they hold, cannot move a number beyond those of the others.

Geometric, the point with the smallest sum of distances to all updates: Pillutla, Kakade, Harchaoui, "Robust Aggregation
for Federated Learning" (2022), Algorithm 2, the smoothed Weiszfeld algorithm. Every iterate is a weighted mean of the
updates, and its distance to each update follows from the weights and from the distances between updates. So the models
are read once for these distances and once for the mean at the end, however many steps there are.

Every update has the same weight. With weights by examples, which each peer states itself, a liar could take the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State, counting
from flnet.aggregation.krum import Squares, squared_distances
from flnet.params.arithmetic import Rows, blockwise, sort_columns, weighted_mean
from flnet.params.blob import Memory, fresh
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update


def median(memory: Memory = fresh) -> AggregationRule:
    """The coordinate-wise median; with an even count, the mean of the two middle values.

    Args:
        memory: where the memory for averages comes from.
    """

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        sets = [update.params for update in counting(updates)]
        return Merged(blockwise(start.schema.specs, sets, middle, memory), state)

    return AggregationRule("median", merge)


def middle(rows: Rows) -> NDArray[np.float64]:
    """The median of every column; `rows` (updates, numbers) are sorted in place."""
    sort_columns(rows)
    upper = len(rows) // 2
    middle: NDArray[np.float64] = rows[upper]
    if len(rows) % 2 == 0:
        middle = rows[upper - 1] * 0.5 + middle * 0.5  # halved first: a sum could overflow
    return middle


STEPS = 64  # at most; some ten are usual
_STILL = 1e-9  # a step that changes no weight by more is the last one
_SMOOTHING = 1e-3  # of the median distance: how near to an update a point counts as no nearer


def geometric_median() -> AggregationRule:
    """The smoothed geometric median of the updates."""

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = counting(updates)
        weights = median_weights(squared_distances(counted, start.schema))
        sets = [(update.params, weight) for update, weight in zip(counted, weights, strict=True)]
        weighed = {update.peer: Weighed(weight) for update, weight in zip(counted, weights, strict=True)}
        return Merged(weighted_mean(sets, start.schema.merge), state, weighed)

    return AggregationRule("geometric-median", merge)


def median_weights(squares: Squares) -> list[float]:
    """The weights, with sum 1, for which the mean of the points is their smoothed geometric median.

    Points infinitely far from most others get none.

    Args:
        squares: (points, points), squared distances.
    """
    near = [row for row in range(len(squares)) if _is_near(squares, row)] or list(range(len(squares)))
    rows = [[float(squares[row, other]) for other in near] for row in near]
    apart = sorted(math.sqrt(rows[row][other]) for row in range(len(near)) for other in range(row))
    if not apart or not math.isfinite(apart[-1]) or apart[-1] == 0:
        weights = [1 / len(near)] * len(near)
    else:
        weights = _weiszfeld(rows, _SMOOTHING * (apart[len(apart) // 2] or apart[-1]))
    by_row = dict(zip(near, weights, strict=True))
    return [by_row.get(row, 0.0) for row in range(len(squares))]


def _weiszfeld(rows: Sequence[Sequence[float]], least: float) -> list[float]:
    count = len(rows)
    weights = [1 / count] * count
    for _ in range(STEPS):
        to_each = [_sum_of_products(row, weights) for row in rows]
        spread = _sum_of_products(to_each, weights) / 2
        drawn = [1 / max(least, math.sqrt(max(0.0, mean - spread))) for mean in to_each]
        before, weights = weights, [pull / math.fsum(drawn) for pull in drawn]
        if max(abs(weight - earlier) for weight, earlier in zip(weights, before, strict=True)) <= _STILL:
            break
    return weights


def _is_near(squares: Squares, row: int) -> bool:
    """Whether the distances to at least half of all points (including itself) are finite."""
    return 2 * sum(math.isfinite(square) for square in squares[row]) >= len(squares)


def _sum_of_products(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))  # rounded once, so the same everywhere
