"""The cosine gate: an update that points away from the coordinate-wise median of all changes does not count.

An update whose sign was turned is as long as an honest one and behaves as steadily, so neither clipping nor a
forecast of it finds it; its direction does. Honest nodes whose data differ much still point into the same half of
the space as the median of all. Fung, Yoon, Beschastnikh, "The Limitations of Federated Learning in Sybil Settings"
(2020) compare directions of updates with each other; Yin et al. (2018) have the median.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from flnet.blockwise import sort_columns
from flnet.params import PeerId, Update
from flnet.strategies.base import Filter, Filtered, RoundStart
from flnet.strategies.counting import counting
from flnet.vectors import Total, blocks, longest
from flnet.weighing import Weighed

FEWEST = 3  # updates: the median of two points wherever the longer one does


def cosine() -> Filter:
    """Leave out every update whose cosine to the coordinate-wise median of all changes is not above 0.

    Of fewer than three nothing is left out; nor is it where that would leave none.
    """

    def apply(start: RoundStart, updates: Sequence[Update]) -> Filtered:
        there = counting(updates)
        angles = cosines(start, there)
        away = {peer for peer, angle in angles.items() if angle is not None and angle <= 0}
        if len(there) < FEWEST or len(away) == len(there):
            away = set()
        found = {
            peer: Weighed(cosine=angle, reason=_reason(angle) if peer in away else "")
            for peer, angle in angles.items()
        }
        return Filtered([one for one in updates if one.peer not in away], found)

    return Filter("cosine", apply)


def cosines(start: RoundStart, updates: Sequence[Update]) -> Mapping[PeerId, float | None]:
    """The cosine of each update's change and the coordinate-wise median of all changes.

    In [-1, 1], 0 of changes too large to be computed with; None of one that changed nothing, and of all where the
    median changed nothing.
    """
    most = longest(start.schema)
    squares, products = [Total(most) for _ in updates], [Total(most) for _ in updates]
    of_median = Total(most)
    with np.errstate(over="ignore", invalid="ignore"):
        for base, *heres in blocks(start.schema, (start.base, *(one.params for one in updates))):
            rows = np.stack([np.subtract(here, base, dtype=np.float64) for here in heres])
            ordered = rows.copy()
            sort_columns(ordered)
            lower, upper = ordered[(len(rows) - 1) // 2], ordered[len(rows) // 2]
            median = lower if len(rows) % 2 else lower * 0.5 + upper * 0.5
            of_median.add(median * median)
            for row, square, product in zip(rows, squares, products, strict=True):
                product.add(row * median)
                square.add(row * row)
    return {
        one.peer: _cosine(product.value, square.value, of_median.value)
        for one, product, square in zip(updates, products, squares, strict=True)
    }


def _cosine(product: float, square: float, other: float) -> float | None:
    if not square or not other or math.isinf(other):
        return None
    if math.isinf(product) or math.isinf(square):
        return 0.0
    found = product / (math.sqrt(square) * math.sqrt(other))
    return max(-1.0, min(1.0, found))


def _reason(angle: float | None) -> str:
    return f"its change points away from the median of all changes, with a cosine of {angle:.2f}"
