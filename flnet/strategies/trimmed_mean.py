"""The coordinate-wise trimmed mean: of each number the largest and the smallest are left out of the mean.

Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates"
(2018), Algorithm 1, option II, here with models in place of gradients. It bears as many hostile updates as are
left out at each end.
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

DEFAULT_PART = 0.2


def trimmed_mean(part: float = DEFAULT_PART, memory: Memory = fresh) -> Strategy:
    """The mean of each number without the largest and the smallest ones.

    Args:
        part: of the updates that is left out at each end, rounded down; 0 <= part < 0.5.
        memory: where the memory for averages comes from.

    Raises:
        ValueError: `part` is not in that range.
    """
    if not 0 <= part < 0.5:
        raise ValueError(f"expected the part that is left out at each end, at least 0 and below 0.5; got {part:g}")

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        sets = [one.params for one in counting(updates)]
        cut = int(part * len(sets))
        return Merged(blockwise(start.schema.specs, sets, lambda rows: _trimmed(rows, cut), memory), state)

    name = f"trimmed-mean:{part:g}"
    return Strategy(name, merge)


def _trimmed(rows: Rows, cut: int) -> NDArray[np.float64]:
    sort_columns(rows)
    return mean_of_sorted(rows[cut : len(rows) - cut])
