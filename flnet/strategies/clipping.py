"""Norm clipping: an update that moved far is shortened, in its own direction, to what is usual.

Sun, Kairouz, Suresh, McMahan, "Can You Really Backdoor Federated Learning?" (2019), section 4, with a norm that
is given; with the median norm of the round instead, no number has to be known beforehand, and fewer than half of
the updates can move it beyond what the others did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from flnet.params import Update
from flnet.strategies.base import Filter, Filtered, RoundStart
from flnet.strategies.counting import counting
from flnet.vectors import clipped, distances, usual_norm

FEWEST = 3  # updates for a median norm: of two, nobody can say which one moved too far


def clip(most: float | None = None) -> Filter:
    """Shorten updates.

    Args:
        most: the L2 norm to which, above 0; None: the median norm of the round's updates that moved, of an even
            number the lower one.

    Raises:
        ValueError: `most` is not in that range.
    """
    if most is not None and not 0 < most < math.inf:
        raise ValueError(f"expected a norm above 0, got {most:g}")

    def apply(start: RoundStart, updates: Sequence[Update]) -> Filtered:
        return Filtered(shortened(start, updates, most))

    return Filter("clip" if most is None else f"clip:{most:g}", apply)


def shortened(start: RoundStart, updates: Sequence[Update], most: float | None = None) -> Sequence[Update]:
    """These updates, none of them farther from the base than `most`, or than the median where that is None."""
    there = counting(updates)
    if most is None and len(there) < FEWEST:
        return updates
    moved = distances(start.base, {one.peer: one.params for one in updates}, start.schema)
    norm = usual_norm(moved[one.peer] for one in there) if most is None else most
    if not 0 < norm < math.inf:
        return updates
    return [
        replace(one, params=clipped(start.base, one.params, start.schema, norm, moved[one.peer]))
        if moved[one.peer] > norm
        else one
        for one in updates
    ]
