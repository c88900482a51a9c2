"""The coordinate-wise winsorised mean: what lies outside the others counts as far as they go, and no farther.

Tukey and McLaughlin, "Less Vulnerable Confidence and Significance Procedures for Location Based on a Single
Sample: Trimming/Winsorization 1" (1963); for models, Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust
Distributed Learning: Towards Optimal Statistical Rates" (2018) has the trimmed mean, its nearest relative. A
trimmed mean leaves the largest and the smallest numbers out, and with them what a node of many rows learnt. Here
they are moved to the next ones and keep their weights, so that updates still count by their examples.

A backdoor lives in numbers that hardly anybody else changes. There the range of the others is narrow, however much
the update weighs.
"""

from __future__ import annotations

from collections.abc import Sequence

from flnet.blob import Memory, fresh
from flnet.params import Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.bounding import USUAL_PART, bounded_mean
from flnet.strategies.counting import by_examples, counting
from flnet.weighing import Weighed


def winsorised_mean(part: float = USUAL_PART, memory: Memory = fresh) -> Strategy:
    """The mean by examples, of each number after the farthest ones were moved to the next.

    Args:
        part: of the updates that is moved at each end, rounded down but at least one of three; 0 <= part < 0.5.
        memory: where the memory for averages comes from.

    Raises:
        ValueError: `part` is not in that range.
    """
    if not 0 <= part < 0.5:
        raise ValueError(f"expected the part that is moved at each end, at least 0 and below 0.5; got {part:g}")

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        there = counting(updates)
        found = by_examples(there)
        params = bounded_mean([(one.params, found[one.peer]) for one in there], start.schema.specs, part, memory)
        return Merged(params, state, {one.peer: Weighed(found.get(one.peer, 0.0)) for one in updates})

    return Strategy(f"winsorised-mean:{part:g}", merge)
