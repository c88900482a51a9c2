"""The coordinate-wise trimmed mean and winsorised mean: extremes of each number are dropped, or moved to the next value.

Trimmed: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates"
(2018), Algorithm 1, option II, here with models in place of gradients. It tolerates as many hostile updates as it drops
at each end.

Winsorised: Tukey and McLaughlin, "Less Vulnerable Confidence and Significance Procedures for Location Based on a Single
Sample: Trimming/Winsorization 1" (1963). A trimmed mean drops the largest and smallest numbers, and with them what a
node with many rows learnt. Here they are moved to the next value and keep their weights, so that updates still count by
their examples. A backdoor changes numbers that hardly any other update changes. There the range of the others is
narrow, whatever the weight of the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import fsum

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import (
    AggregationRule,
    Merged,
    RoundStart,
    State,
    by_examples,
    counting,
    mean_of_sorted,
)
from flnet.aggregation.median import median_of_too_few
from flnet.params.arithmetic import Rows, blockwise, sort_columns
from flnet.params.blob import Memory, fresh
from flnet.params.params import Array, Params, ParamSpec
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update

DEFAULT_PART = 0.2


def trimmed_mean(part: float = DEFAULT_PART, memory: Memory = fresh) -> AggregationRule:
    """The trimmed mean: the mean of each number without its largest and smallest values.

    Args:
        part: of the updates that is left out at each end, rounded down; 0 <= part < 0.5. Of so few that none would
            be left out, the median is taken.
        memory: where the memory for averages comes from.

    Raises:
        ValueError: `part` is not in that range.
    """
    if not 0 <= part < 0.5:
        raise ValueError(f"expected the part that is left out at each end, at least 0 and below 0.5; got {part:g}")

    name = f"trimmed-mean:{part:g}"
    least = next(number for number in count(1) if int(part * number)) if part else 1

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = counting(updates)
        if len(counted) < least:
            return median_of_too_few(name, least, start, counted, memory)._replace(state=state)
        sets, cut = [update.params for update in counted], int(part * len(counted))
        return Merged(blockwise(start.schema.specs, sets, lambda rows: _trimmed(rows, cut), memory), state)

    return AggregationRule(name, merge, least=least, ignores_lateness=True, by_number=True)


def _trimmed(rows: Rows, cut: int) -> NDArray[np.float64]:
    sort_columns(rows)
    return mean_of_sorted(rows[cut : len(rows) - cut])


_FEWEST = 3  # sets: of two, neither lies outside the others


def bounded_mean(
    weighted: Sequence[tuple[Mapping[str, Array], float]],
    specs: Mapping[str, ParamSpec],
    part: float = DEFAULT_PART,
    memory: Memory = fresh,
) -> Params:
    """The weighted mean of each number after its extreme values were moved to the next ones.

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
    return blockwise(specs, [params for params, _ in weighted], lambda rows: _bounded(rows, counted, cut), memory)


def _bounded(rows: Rows, counted: Sequence[tuple[int, float]], cut: int) -> NDArray[np.float64]:
    """The bounded mean of a block, summed row by row so that all machines get the same bits.

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


def winsorised_mean(part: float = DEFAULT_PART, memory: Memory = fresh) -> AggregationRule:
    """The winsorised mean: the mean by examples after the extreme values of each number were moved to the next ones.

    Args:
        part: of the updates that is moved at each end, rounded down but at least one of three; 0 <= part < 0.5.
        memory: where the memory for averages comes from.

    Raises:
        ValueError: `part` is not in that range.
    """
    if not 0 <= part < 0.5:
        raise ValueError(f"expected the part that is moved at each end, at least 0 and below 0.5; got {part:g}")

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = counting(updates)
        shares = by_examples(counted)
        params = bounded_mean(
            [(update.params, shares[update.peer]) for update in counted], start.schema.specs, part, memory
        )
        return Merged(params, state, {update.peer: Weighed(shares.get(update.peer, 0.0)) for update in updates})

    return AggregationRule(f"winsorised-mean:{part:g}", merge, by_number=True)
