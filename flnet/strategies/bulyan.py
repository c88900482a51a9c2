"""Bulyan: Krum chooses, and of the chosen ones each number is the mean of those nearest to its median.

El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium" (2018), section 4:
a hostile update that is near to all others as a whole can be far from them in a few numbers. Of n updates, f of
them hostile, Krum chooses n - 2 f one after another, each among those that are left; then n - 4 f count for each
number. The promise needs n >= 4 f + 3; where fewer came, f is taken as large as their count allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.blob import Memory, fresh
from flnet.blockwise import Rows, blockwise, sort_columns
from flnet.params import Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import counting, mean_of_sorted
from flnet.strategies.nearest import Squares, best_first, squared_distances


def bulyan(hostile: int = 1, memory: Memory = fresh) -> Strategy:
    """Krum's choice, then the mean around the median of each number.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
        memory: where the memory for averages comes from.
    """

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        there = counting(updates)
        borne = max(0, min(hostile, (len(there) - 3) // 4))
        rows = _chosen(squared_distances(there, start.schema), borne) if borne else list(range(len(there)))
        kept = len(rows) - 2 * borne
        sets = [there[row].params for row in sorted(rows)]
        params = blockwise(start.schema.specs, sets, lambda numbers: around_median(numbers, kept), memory)
        return Merged(params, state)

    return Strategy(f"bulyan:{hostile}", merge)


def around_median(rows: Rows, kept: int) -> NDArray[np.float64]:
    """The mean, column by column, of the `kept` numbers nearest to the median; of equally near ones the smaller.

    Args:
        rows: (updates, numbers), sorted in place.
    """
    sort_columns(rows)
    count = len(rows)
    middle = rows[(count - 1) // 2] * 0.5 + rows[count // 2] * 0.5
    # The nearest ones lie side by side: of all runs of this length, the one whose far end is the least far.
    found, reach = np.empty(rows.shape[1]), np.full(rows.shape[1], np.inf)
    for start in range(count - kept + 1):
        run = rows[start : start + kept]
        with np.errstate(over="ignore"):
            far = np.maximum(middle - run[0], run[-1] - middle)
        np.copyto(found, mean_of_sorted(run), where=(far < reach) | (start == 0))
        np.minimum(reach, far, out=reach)
    return found


def _chosen(squares: Squares, hostile: int) -> list[int]:
    left, chosen = list(range(len(squares))), []
    for _ in range(len(squares) - 2 * hostile):
        chosen.append(best_first(squares, hostile, left)[0])
        left.remove(chosen[-1])
    return chosen
