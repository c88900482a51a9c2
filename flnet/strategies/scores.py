"""How much updates count that lie so far from what was predicted of them.

Exponentials differ in their last digit between mathematical libraries, and nodes need the same bits: so they are
rounded to nine decimals. Sums are rounded once, for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal, get_args

from flnet.params import PeerId

Kind = Literal["mad", "rows", "bounded", "raw", "shares", "ratio"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Scores = Mapping[PeerId, float]
_DECIMALS = 9
_NORMAL = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution
_LEAST_SPREAD = 0.05  # of the median: honest updates may lie that close together
_USUAL = 2.0  # deviations that cost nothing
_STEEPNESS = 5.0  # of the ratio to the median


def shares_of_distance(row: Scores) -> Scores:
    """Each distance divided by their sum; all alike if they are all 0."""
    total = math.fsum(row.values())
    return {peer: one / total if total > 0 else 1 / len(row) for peer, one in row.items()}


def mean_scores(rows: Sequence[Scores], peers: Sequence[PeerId]) -> dict[PeerId, float]:
    """The mean of what rounds hold of each of these peers; without those of which they hold nothing."""
    found = {peer: [row[peer] for row in rows if peer in row] for peer in peers}
    return {peer: math.fsum(ones) / len(ones) for peer, ones in found.items() if ones}


def weights(scores: Scores, kind: Kind) -> dict[PeerId, float]:
    """Weights of sum 1 (but for rounding), the smaller the higher the score.

    Args:
        scores: at least one; of "raw" the distances themselves, of all others shares.
        kind: "raw" and "shares" are exp(-score), as printed in FLProtector, equation 3, and with what its text
            defines; "ratio" compares with the median, "mad", "rows" and "bounded" with the median absolute
            deviation from it.
    """
    excess = _EXCESS[kind](scores)
    least = min(excess.values())
    found = {peer: _exponential(one - least) if one < math.inf else 0.0 for peer, one in excess.items()}
    total = math.fsum(found.values())
    return {peer: one / total if total > 0 else 1 / len(found) for peer, one in found.items()}


def _mad(scores: Scores) -> Scores:
    middle = median(scores.values())
    spread = _NORMAL * median(abs(one - middle) for one in scores.values())
    spread = max(spread, _LEAST_SPREAD * middle)
    return {peer: max(0.0, _divided(one - middle, spread) - _USUAL) for peer, one in scores.items()}


def _ratio(scores: Scores) -> Scores:
    middle = median(scores.values())
    return {peer: _STEEPNESS * _divided(one, middle) for peer, one in scores.items()}


def _divided(one: float, other: float) -> float:
    """Infinite, or 0, where `other` is 0."""
    return one / other if other > 0 else (math.inf if one > 0 else 0.0)


def _exponential(excess: float) -> float:
    return round(math.exp(-excess), _DECIMALS)


_EXCESS: Mapping[Kind, Callable[[Scores], Scores]] = {
    "mad": _mad,
    "rows": _mad,
    "bounded": _mad,
    "ratio": _ratio,
    "raw": lambda scores: scores,
    "shares": lambda scores: scores,
}
