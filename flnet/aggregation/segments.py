"""Averages a segment of the updates of a round, by a rule that works number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.params.params import Params
from flnet.params.segments import Segments
from flnet.protocol.updates import Update


def merged_segment(
    rule: AggregationRule, start: RoundStart, updates: Sequence[Update], segment: tuple[int, int]
) -> Params:
    """The segment of the average.

    Args:
        start: of the round, with the whole base.
        updates: sorted by peer, each with this segment of its parameters.
        segment: its number, and how many there are.

    Returns:
        To the last bit what lies there in the average of the whole updates.
    """
    place, count = segment
    segments = Segments(start.schema, count)
    cut = replace(start, schema=segments.schemas[place], base=segments.cut(start.base)[place])
    return rule.merge(None, cut, updates).params
