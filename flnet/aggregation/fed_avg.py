"""Federated averaging.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017),
Algorithm 1; the names agg0, agg1 and agg2 and their weights follow Delgado Bejarano, MLFedAvg (2024),
where agg0 is printed as the bare sum although its text and code take the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State, lateness
from flnet.params.arithmetic import Extremes, WeightedSum, comes_back, quotient
from flnet.params.blob import Memory, fresh
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.events import Weighed, shares
from flnet.protocol.updates import Update
from flnet.text import text

Weighting = Literal["agg0", "agg1", "agg2"]


def fed_avg(weighting: Weighting = "agg1", memory: Memory = fresh) -> AggregationRule:
    """Mean of the peers' parameters: agg0 uniform; agg1 by examples n; agg2 by n times its labels M.

    Args:
        memory: where the memory for sums and averages comes from.
    """

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        average = _Average(weighting, state, start.schema, memory)
        average.hold(updates)
        return average.result()

    def running(state: State, start: RoundStart) -> _Average:
        return _Average(weighting, state, start.schema, memory)

    return AggregationRule(weighting, merge, running, by_number=True)


class _Average:
    """The weighted mean of the updates so far.

    A peer that stated no examples (a caller of the thesis' form) counts as the mean of the others, or all alike
    if nobody stated any: a function of the received set only, so that all nodes agree. What the mean is shows at
    the end, so these peers have a sum of their own; so has the plain mean, until a weight above 0 rules it out.
    """

    def __init__(self, weighting: Weighting, state: State, schema: Schema, memory: Memory) -> None:
        self._weighting, self._state, self._specs = weighting, state, schema.specs
        self._memory = memory
        self._stated, self._unstated = WeightedSum(self._specs, memory), WeightedSum(self._specs, memory)
        self._plain: WeightedSum | None = WeightedSum(self._specs, memory)
        self._extremes = Extremes(self._specs)
        self._only: Params | None = None
        self._peers = self._stating = self._examples = 0
        self._weight: float = 0
        self._unstated_weight = 0
        self._weights: dict[PeerId, tuple[float, int]] = {}  # and the labels of who stated no examples

    def add(self, updates: Sequence[Update]) -> None:
        """Add the next updates without keeping their arrays."""
        self.hold(updates)
        for total in (self._stated, self._unstated, self._plain):
            if total is not None:
                total.fold()
        if comes_back(self._specs):
            self._only = None

    def hold(self, updates: Sequence[Update]) -> None:
        """Add the next updates, and keep their arrays until the result."""
        for update in updates:
            self._count(update)
            self._only = update.params if self._peers == 1 else None
            if self._weight > 0 or (self._examples > 0 and self._unstated_weight > 0):
                self._plain = None
            if self._plain is not None:
                self._plain.add(update.params, 1)
            self._extremes.add(update.params)

    def result(self) -> Merged:
        """The mean: unweighted if all weights are 0 (rule R5), and a single update unchanged."""
        peers, self._peers = self._peers, 0
        if not peers:
            raise ValueError(text("nothing to merge: no update was added, or the result was handed out before"))
        if self._only is not None:
            return Merged(self._only, self._state, dict.fromkeys(self._weights, Weighed(1.0)))
        assumed = self._examples / self._stating if self._stating else 1.0
        factor = float(assumed > 0) if self._weighting == "agg0" else assumed
        total = self._weight + factor * self._unstated_weight
        sums = [(self._stated, 1.0)] if self._weight else []
        if factor * self._unstated_weight > 0:
            sums.append((self._unstated, factor))
        if total == 0 and self._plain is not None:
            sums, total = [(self._plain, 1.0)], peers
        params = quotient(self._specs, sums, total, self._extremes, self._memory)
        return Merged(params, self._state, self._weighed(factor))

    def _weighed(self, unstated: float) -> Mapping[PeerId, Weighed]:
        """The share of each update; `unstated` is the weight of updates without a number of examples."""
        weights = {peer: weight + unstated * labels for peer, (weight, labels) in self._weights.items()}
        return {peer: Weighed(share) for peer, share in shares(weights).items()}

    def _count(self, update: Update) -> None:
        self._peers += 1
        labels = update.labels if self._weighting == "agg2" else 1
        if update.examples is None:
            self._unstated_weight += labels
            self._unstated.add(update.params, labels)
            self._weights[update.peer] = 0.0, labels
            return
        # a peer that trained on nothing has nothing to say in a uniform mean (R4)
        weight: float = int(update.examples > 0) if self._weighting == "agg0" else update.examples * labels
        if update.staleness:
            weight *= lateness(update.staleness)
        self._stating += 1
        self._examples += update.examples
        self._weight += weight
        self._stated.add(update.params, weight)
        self._weights[update.peer] = weight, 0
