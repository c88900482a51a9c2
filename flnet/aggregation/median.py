"""The coordinate-wise median and the geometric median of updates.

Coordinate-wise: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates" (2018), Algorithm 1, option I, here with models in place of gradients. Fewer than half of the updates, whatever
they hold, cannot move a number beyond those of the others.

Geometric, the point with the smallest sum of distances to all updates: Pillutla, Kakade, Harchaoui, "Robust Aggregation
for Federated Learning" (2022), Algorithm 2, by the Weiszfeld algorithm. It is not smoothed: where an iterate meets an
update, Vardi and Zhang, "The multivariate L1-median and associated data depth" (2000), equation 2.6, say whether it stays
there. Every iterate is a weighted mean of the updates, and its distance to each update follows from the weights and from
inner products of the updates. So the models are read once for these products and once for the mean at the end, however
many steps there are. The products are of differences from the coordinate-wise median: far updates, of which there are
fewer than half, take no digits from the distances between the others.

Every update has the same weight. With weights by examples, which each peer states itself, a liar could take the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State, counting, with_bounded_buffers
from flnet.params.arithmetic import Rows, Total, blocks, blockwise, longest, middle, weighted_mean
from flnet.params.blob import Memory, fresh
from flnet.params.params import Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from flnet.text import text


def median(memory: Memory = fresh) -> AggregationRule:
    """The coordinate-wise median; with an even count, the mean of the two middle values.

    Args:
        memory: where the memory for averages comes from.
    """

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        sets = [update.params for update in counting(updates)]
        return Merged(blockwise(start.schema.specs, sets, middle, memory), state)

    return AggregationRule("median", merge, ignores_lateness=True, by_number=True)


def median_of_too_few(
    rule: str, least: int, start: RoundStart, counted: Sequence[Update], memory: Memory = fresh
) -> Merged:
    """The coordinate-wise median in place of a rule that bears no hostile update among so few.

    Args:
        rule: its name.
        least: how many updates it needs.
        counted: the updates that count, fewer than that.
    """
    params = blockwise(start.schema.specs, [update.params for update in counted], middle, memory)
    facts = (len(counted), rule, least)
    note = text(
        "{count} updates are too few for {rule}, which needs {least}: their coordinate-wise median was taken",
        *facts,
    )
    if len(counted) <= 2:  # the median of two is their mean
        note = text(
            "{count} updates are too few for {rule}, which needs {least}: their mean was taken, which keeps no "
            "hostile update out",
            *facts,
        )
    return Merged(params, note=note if len(counted) > 1 else "")


STEPS = 1_000  # at most; some fifty are usual
_STILL = 1e-10  # of the scale: a shorter step is the last one
_MET = 1e-7  # of the scale: a point that is nearer to an update has met it, because rounding hides what is less


def geometric_median() -> AggregationRule:
    """The geometric median of the updates."""

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = with_bounded_buffers(counting(updates), start.schema)
        weights = median_weights(_products(counted, start.schema))
        sets = [(update.params, weight) for update, weight in zip(counted, weights, strict=True)]
        weighed = {update.peer: Weighed(weight) for update, weight in zip(counted, weights, strict=True)}
        return Merged(weighted_mean(sets, start.schema.merge), state, weighed)

    return AggregationRule("geometric-median", merge, ignores_lateness=True)


def _products(updates: Sequence[Update], schema: Schema) -> Rows:
    """The inner products (updates, updates) of the differences from the coordinate-wise median; infinite if too large."""
    most = longest(schema)
    totals = [[Total(most) for _ in range(row + 1)] for row in range(len(updates))]
    with np.errstate(over="ignore", invalid="ignore"):
        for block in blocks(schema, [update.params for update in updates]):
            rows = np.stack(block, dtype=np.float64)
            rows -= middle(rows.copy())
            for row, of_row in enumerate(totals):
                for column, total in enumerate(of_row):
                    total.add(rows[row] * rows[column])
    products = np.empty((len(updates), len(updates)))
    for row, of_row in enumerate(totals):
        for column, total in enumerate(of_row):
            products[row, column] = products[column, row] = total.value
    return products


def median_weights(products: Rows) -> list[float]:
    """The weights, with sum 1, for which the mean of the points is their geometric median.

    Points too far away to be computed with get none.

    Args:
        products: (points, points), the inner products of the points; their coordinate-wise median is the origin.
    """
    near = [row for row in range(len(products)) if math.isfinite(products[row, row])] or [*range(len(products))]
    rows = [[float(products[row, other]) for other in near] for row in near]
    lengths = [math.sqrt(row[place]) for place, row in enumerate(rows)]
    scale = sorted(lengths)[len(lengths) // 2]
    if not math.isfinite(scale):
        weights = [1 / len(near)] * len(near)
    elif scale == 0:  # most points lie in one place
        weights = _shares([float(length == 0) for length in lengths])
    else:
        weights = _weiszfeld(rows, _shares([1 / (scale + length) for length in lengths]), scale)
    by_row = dict(zip(near, weights, strict=True))
    return [by_row.get(row, 0.0) for row in range(len(products))]


def _weiszfeld(rows: Sequence[Sequence[float]], weights: list[float], scale: float) -> list[float]:
    """Steps of the Weiszfeld algorithm with these inner products, from these weights until a step is short."""
    for _ in range(STEPS):
        pulls = [_sum_of_products(row, weights) for row in rows]
        length = _sum_of_products(pulls, weights)
        apart = [math.sqrt(max(0.0, row[at] - 2 * pulls[at] + length)) for at, row in enumerate(rows)]
        drawn = [1 / distance if distance > _MET * scale else 0.0 for distance in apart]
        before, weights = weights, _shares(drawn)
        if met := drawn.count(0.0):
            total = math.fsum(drawn)
            resultant = _length(rows, [pull - total * weight for pull, weight in zip(drawn, before, strict=True)])
            if resultant <= met:
                return before  # the update that was met is the median
            stays = met / resultant
            weights = [(1 - stays) * a + stays * b for a, b in zip(weights, before, strict=True)]
        if _length(rows, [a - b for a, b in zip(weights, before, strict=True)]) <= _STILL * scale:
            break
    return weights


def _length(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> float:
    """The L2 norm of the sum of points with these weights."""
    return math.sqrt(max(0.0, _sum_of_products([_sum_of_products(row, weights) for row in rows], weights)))


def _shares(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _sum_of_products(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))  # rounded once, so the same everywhere
