"""Averages a segment of the updates of a round, by a rule that works number by number.

How far whole updates moved follows from their segments: the sums of the squares in all segments are added with one
rounding, as they are for whole updates. So updates are left out and shortened as where whole ones are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.aggregation.screening import Bounds, screened
from flnet.params.arithmetic import Squares, buffer_names, clipped, norm_of, parts_of, squares, weight_names
from flnet.params.params import Params, PeerId
from flnet.params.segments import Segments
from flnet.protocol.updates import Update

Moved = Mapping[PeerId, float]  # how far whole updates moved from the base of the round


@dataclass(frozen=True)
class Verdict:
    """What follows from how far the updates of a round moved.

    Attributes:
        moved: how far the weights of each did.
        refused: the peers whose updates do not count, with the reason.
        changes: whether any update is left out or shortened.
    """

    moved: Moved
    refused: Mapping[PeerId, str]
    changes: bool


def judged(bounds: Bounds, peers: Sequence[PeerId], segments: Sequence[Sequence[Squares]]) -> Verdict:
    """Judge the updates of these peers.

    Args:
        segments: for each segment, how far that of each update moved.
    """
    if not bounds.is_any:
        return Verdict({}, {}, changes=False)
    weights, buffers = (
        {
            peer: norm_of(part for segment in segments for part in segment[place][kind])
            for place, peer in enumerate(peers)
        }
        for kind in (0, 1)
    )
    refused = screened(weights, buffers, bounds.ratio)
    is_clipped = bounds.clip > 0 and any(moved > bounds.clip for moved in weights.values())
    return Verdict(weights, refused, bool(refused) or is_clipped)


def merged_segment(
    rule: AggregationRule,
    start: RoundStart,
    updates: Sequence[Update],
    segment: tuple[int, int],
    bounds: Bounds,
    moved: Moved | None = None,
) -> tuple[Params, tuple[Squares, ...]]:
    """The segment of the average.

    Args:
        start: of the round, with the whole base.
        updates: sorted by peer, each with this segment of its parameters; masked ones are added.
        segment: its number, and how many there are.
        moved: how far the whole updates moved, so that they are shortened; None where it is not known yet.

    Returns:
        To the last bit what lies there in the average of the whole updates. If it is not known how far they moved, also
        how far this segment of each did, as far as there are bounds.
    """
    if rule.secure is not None:
        return added(updates), ()
    place, count = segment
    segments, specs = Segments(start.schema, count), start.schema.specs
    schema, base = segments.schemas[place], segments.cut(start.base)[place]
    measured: list[Squares] = []
    for update in updates if moved is None and bounds.is_any else ():
        weights, buffers = (
            parts_of(squares(base, update.params, specs, names))
            for names in (weight_names(schema), buffer_names(schema))
        )
        measured.append((weights, buffers))
    if moved is not None and bounds.clip:
        most = bounds.clip
        shorter = [clipped(base, update.params, schema, most, moved[update.peer]) for update in updates]
        updates = [replace(update, params=params) for update, params in zip(updates, shorter, strict=True)]
    merged = rule.merge(None, replace(start, schema=schema, base=base), updates)
    return merged.params, tuple(measured)


def added(updates: Sequence[Update]) -> Params:
    """The sum of masked updates, or of the same segment of each, modulo the range of their whole numbers."""
    total = {name: np.array(numbers) for name, numbers in updates[0].params.items()}
    for update in updates[1:]:
        for name, numbers in total.items():
            np.add(numbers, update.params[name], out=numbers)
    return Params(total)
