"""Centered clipping: the mean of all changes, each clipped to a radius around the current result.

Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization" (2021), Algorithm 2:

    v <- v + (1/n) sum_i (x_i - v) min(1, radius / ||x_i - v||)

starts with v as the base of the round here, and with the last aggregate of momenta in the paper. An update moves the
result by at most radius / n per step, however far away it is, and an honest one counts in full once v is near. The
default radius is the median distance to v (the lower median), computed again in each step.

Every v is a weighted mean of the base and the updates, and its distance to each of them follows from the weights and
from the distances between them. So the models are read once for these distances and once for the mean at the end. Every
update has the same weight, because each peer states the number of its examples itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State, counting, with_bounded_buffers
from flnet.aggregation.krum import Squares, squared_distances
from flnet.params.arithmetic import usual_norm, weighted_mean
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from flnet.text import text

STEPS = 3
_FARTHEST = 1e150  # squared distance to the base; beyond it squares overflow, and the update counts for nothing


def centered_clipping(steps: int = STEPS, radius: float | None = None) -> AggregationRule:
    """Some steps of centered clipping, from the base of the round.

    Args:
        steps: at least 1.
        radius: L2 norm to which each change is shortened, above 0; None: the median distance.

    Raises:
        ValueError: the radius is not in that range, or there is no step.
    """
    if steps < 1 or (radius is not None and not 0 < radius < math.inf):
        raise ValueError(
            text("expected at least one step and a radius above 0, got {steps} and {radius}", steps, radius)
        )

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = with_bounded_buffers(counting(updates), start.schema)
        base = replace(counted[0], params=start.base.select(start.schema.specs))
        squares = squared_distances([base, *counted], start.schema)
        near = [row for row in range(len(squares)) if squares[0, row] < _FARTHEST]
        weights = dict(zip(near, _weights(squares[near][:, near], len(counted), steps, radius), strict=True))
        points = [point for point in enumerate([base, *counted]) if point[0] or weights[0] > 0]
        sets = [(point.params, weights.get(row, 0.0)) for row, point in points]
        weighed = {update.peer: Weighed(weights.get(row, 0.0)) for row, update in enumerate(counted, start=1)}
        return Merged(weighted_mean(sets, start.schema.merge), state, weighed)

    name = "centered-clipping" if steps == STEPS and radius is None else f"centered-clipping:{steps}"
    return AggregationRule(
        name if radius is None else f"{name}:{radius:g}", merge, needs_base=True, ignores_lateness=True
    )


def _weights(squares: Squares, count: int, steps: int, radius: float | None) -> list[float]:
    """The weights of the base (row 0) and of the updates in the result, of sum 1.

    Args:
        squares: squared distances, finite.
        count: of all updates, those that are too far away included.
    """
    rows = [[float(square) for square in row] for row in squares]
    weights = [1.0] + [0.0] * (len(rows) - 1)
    for _ in range(steps):
        means = [math.fsum(map(math.prod, zip(row, weights, strict=True))) for row in rows]
        spread = math.fsum(map(math.prod, zip(means, weights, strict=True))) / 2
        apart = [math.sqrt(max(0.0, mean - spread)) for mean in means]
        limit = usual_norm(apart[1:]) if radius is None else radius
        parts = [(min(1.0, limit / distance) if distance else 1.0) / count for distance in apart[1:]]
        kept = max(0.0, 1 - math.fsum(parts))
        weights = [kept * weights[0], *(kept * old + part for old, part in zip(weights[1:], parts, strict=True))]
    return weights
