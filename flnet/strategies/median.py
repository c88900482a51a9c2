"""The coordinate-wise median: each number is the one in the middle of all updates.

Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates"
(2018), Algorithm 1, option I, here with models in place of gradients. Fewer than half of the updates, whatever
they hold, cannot move a number beyond those of the others. Every update counts alike: weights by examples, which
a peer states of itself, would give a liar who states many the middle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.blob import Memory, fresh
from flnet.blockwise import Rows, blockwise, sort_columns
from flnet.params import Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import counting


def median(memory: Memory = fresh) -> Strategy:
    """The median of each number; of an even count the mean of the two in the middle.

    Args:
        memory: where the memory for averages comes from.
    """

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        sets = [one.params for one in counting(updates)]
        return Merged(blockwise(start.schema.specs, sets, middle, memory), state)

    return Strategy("median", merge)


def middle(rows: Rows) -> NDArray[np.float64]:
    """The median of every column; `rows` (updates, numbers) are sorted in place."""
    sort_columns(rows)
    upper = len(rows) // 2
    found: NDArray[np.float64] = rows[upper]
    if len(rows) % 2 == 0:
        found = rows[upper - 1] * 0.5 + found * 0.5  # halved first: a sum could overflow
    return found
