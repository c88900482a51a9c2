"""Krum, Multi-Krum and Bulyan: the updates that are nearest to most others.

Krum and Multi-Krum: Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
Gradient Descent" (2017), sections 4 and 6. The guarantee needs n >= 2 f + 3 updates, at most f of them hostile; of
fewer, the coordinate-wise median is taken.

Bulyan: El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium" (2018), section
4. A hostile update that is near to all others as a whole can be far from them in a few numbers. Of n updates, Krum
chooses n - 2 f one after another, each among those that are left. Then each number is the mean of the n - 4 f chosen
numbers nearest to their median. The guarantee needs n >= 4 f + 3; of fewer, the coordinate-wise median is
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import (
    AggregationRule,
    Merged,
    RoundStart,
    State,
    counting,
    mean_of_sorted,
    plain_mean,
    with_bounded_buffers,
)
from flnet.aggregation.median import median_of_too_few
from flnet.params.arithmetic import Rows, blockwise, distance, fsum, middle
from flnet.params.blob import Memory, fresh
from flnet.params.params import PeerId, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update

Squares = NDArray[np.float64]  # (updates, updates): squared L2 distances


def squared_distances(updates: Sequence[Update], schema: Schema) -> Squares:
    """The squared L2 distance of every pair over all arrays that are averaged; infinite where it is too large."""
    squares = np.zeros((len(updates), len(updates)))
    for row, update in enumerate(updates):
        for column in range(row):
            apart = distance(updates[column].params, update.params, schema)
            squares[row, column] = squares[column, row] = apart * apart
    return squares


def krum_scores(squares: Squares, hostile: int, among: Sequence[int]) -> list[float]:
    """Krum's score of each of these updates: the sum of its squared distances to the nearest others.

    As many others as there are in all, less the hostile ones and two; at least one.

    Args:
        hostile: how many of the updates may be hostile.
        among: their rows in `squares`; only they count as neighbours.
    """
    count = max(1, len(among) - hostile - 2)
    others = [sorted(float(squares[row, other]) for other in among if other != row) for row in among]
    return [fsum(row[:count]) for row in others]


def best_first(squares: Squares, hostile: int, among: Sequence[int]) -> list[int]:
    """These rows by rising score; rows with equal scores keep their order."""
    scores = krum_scores(squares, hostile, among)
    return [among[place] for place in sorted(range(len(among)), key=lambda place: scores[place])]


def krum(hostile: int = 1) -> AggregationRule:
    """Krum: the one update that is nearest to the others.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
    """
    return _nearest(f"krum:{hostile}", hostile, lambda count: 1)


def multi_krum(hostile: int = 1, kept: int | None = None) -> AggregationRule:
    """Multi-Krum: the unweighted mean of the updates that are nearest to the others.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
        kept: how many updates are averaged, at least 1; all but f if absent.
    """
    name = f"multi-krum:{hostile}" + ("" if kept is None else f":{kept}")
    return _nearest(name, hostile, lambda count: max(1, min(count, count - hostile if kept is None else kept)))


def _nearest(name: str, hostile: int, how_many: Callable[[int], int]) -> AggregationRule:
    least = 2 * hostile + 3

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = with_bounded_buffers(counting(updates), start.schema)
        if len(counted) < least:
            return median_of_too_few(name, least, start, counted)._replace(state=state)
        order = best_first(squared_distances(counted, start.schema), hostile, range(len(counted)))
        chosen = [counted[row] for row in sorted(order[: how_many(len(counted))])]
        return Merged(plain_mean(chosen, start.schema), state, _weighed(updates, chosen))

    return AggregationRule(name, merge, least=least, ignores_lateness=True)


def _weighed(updates: Sequence[Update], chosen: Sequence[Update]) -> Mapping[PeerId, Weighed]:
    weights = dict.fromkeys((update.peer for update in chosen), 1 / len(chosen))
    return {update.peer: Weighed(weights.get(update.peer, 0.0)) for update in updates}


def bulyan(hostile: int = 1, memory: Memory = fresh) -> AggregationRule:
    """Bulyan: Krum chooses updates, and each number is the mean of the values around its median.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
        memory: where the memory for averages comes from.
    """

    name, least = f"bulyan:{hostile}", 4 * hostile + 3

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = counting(updates)
        if len(counted) < least:
            return median_of_too_few(name, least, start, counted, memory)._replace(state=state)
        rows = _chosen(squared_distances(counted, start.schema), hostile) if hostile else [*range(len(counted))]
        kept = len(rows) - 2 * hostile
        sets = [counted[row].params for row in sorted(rows)]
        params = blockwise(start.schema.specs, sets, lambda numbers: around_median(numbers, kept), memory)
        return Merged(params, state)

    return AggregationRule(name, merge, least=least, ignores_lateness=True)


def around_median(rows: Rows, kept: int) -> NDArray[np.float64]:
    """The mean of the `kept` numbers of each column that are nearest to its median; ties go to the smaller number.

    Args:
        rows: (updates, numbers), sorted in place.
    """
    around, count = middle(rows).copy(), len(rows)
    # The nearest ones lie side by side: the run moves up while the number above it is nearer than its lowest one.
    result = mean_of_sorted(rows[:kept])
    for start in range(1, count - kept + 1):
        with np.errstate(over="ignore"):
            is_nearer = rows[start + kept - 1] - around < around - rows[start - 1]
        np.copyto(result, mean_of_sorted(rows[start : start + kept]), where=is_nearer)
    return result


def _chosen(squares: Squares, hostile: int) -> list[int]:
    left, chosen = list(range(len(squares))), []
    for _ in range(len(squares) - 2 * hostile):
        chosen.append(best_first(squares, hostile, left)[0])
        left.remove(chosen[-1])
    return chosen
