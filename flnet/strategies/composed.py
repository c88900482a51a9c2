"""Filters before a merging rule: "clip,cosine,median" shortens updates, leaves some out, and merges the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flnet.params import PeerId, Update
from flnet.strategies.base import Filter, Merged, RoundStart, State, Strategy
from flnet.weighing import Weighed


def composed(filters: Sequence[Filter], rule: Strategy) -> Strategy:
    """The rule over what the filters leave, each of them over what the one before it left.

    Filters measure from the base of the round, and compare updates with each other: a rule that could take them
    one after another no longer can.
    """
    if not filters:
        return rule

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        left, found = updates, dict[PeerId, Weighed]()
        for one in filters:
            left, seen = one.apply(start, left)
            found |= seen
        merged = rule.merge(state, start, left)
        return merged._replace(weighed=_together(found, merged.weighed, {one.peer for one in left}))

    name = ",".join([*(one.name for one in filters), rule.name])
    return Strategy(name, merge, needs_base=True)


def _together(
    found: Mapping[PeerId, Weighed], by_rule: Mapping[PeerId, Weighed], left: set[PeerId]
) -> Mapping[PeerId, Weighed]:
    """What the rule says of each update, with the cosine and the reason that filters found."""
    whole = dict(by_rule)
    for peer, seen in found.items():
        one = by_rule.get(peer, Weighed() if peer in left else Weighed(0.0))
        whole[peer] = replace(
            one, cosine=seen.cosine if one.cosine is None else one.cosine, reason=one.reason or seen.reason
        )
    return whole
