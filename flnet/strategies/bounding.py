"""Means of numbers that are held to the range of the others; `flnet.strategies.winsorised_mean` has the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from flnet.blob import Memory, fresh
from flnet.blockwise import Rows, blockwise, sort_columns
from flnet.params import Array, Params, ParamSpec

USUAL_PART = 0.2
_FEWEST = 3  # sets: of two, neither lies outside the others


def bounded_mean(
    weighted: Sequence[tuple[Mapping[str, Array], float]],
    specs: Mapping[str, ParamSpec],
    part: float = USUAL_PART,
    memory: Memory = fresh,
) -> Params:
    """The mean with these weights, of each number after the farthest ones were moved to the next.

    Sets of weight 0 neither count nor bound others. If all are 0, all count alike (rule R5).

    Args:
        weighted: sets of parameters, at least one, and weights, finite and not negative.
        specs: the arrays of every set.
        part: of the sets that is moved at each end; of three or more at least one, unless it is 0.
        memory: where the memory for the result comes from.
    """
    weights = (
        [weight for _, weight in weighted] if any(weight for _, weight in weighted) else [1.0] * len(weighted)
    )
    total = fsum(weights)
    counted = [(row, weight / total) for row, weight in enumerate(weights) if weight > 0]
    cut = max(1, int(part * len(counted))) if part and len(counted) >= _FEWEST else 0
    return blockwise(specs, [one for one, _ in weighted], lambda rows: _bounded(rows, counted, cut), memory)


def _bounded(rows: Rows, counted: Sequence[tuple[int, float]], cut: int) -> NDArray[np.float64]:
    """Summed row by row, so that the bits are the same everywhere.

    Args:
        rows: (sets, numbers).
        counted: which rows count, and their shares, of sum 1.
        cut: how many are moved at each end.
    """
    ordered = rows[[row for row, _ in counted]]
    sort_columns(ordered)
    lowest, highest = ordered[cut], ordered[len(ordered) - 1 - cut]
    total, term = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    with np.errstate(over="ignore"):  # rounding may pass the largest number; the mean cannot
        for row, share in counted:
            np.clip(rows[row], lowest, highest, out=term)
            term *= share
            total += term
    return np.clip(total, lowest, highest, out=total)
