"""Sparse exchange: each node averages its update with those of a few neighbours, so nodes hold different models.

Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?" (2017), Algorithm 1, with the weights of
Metropolis and Hastings (Hastings 1970; Xiao, Boyd, "Fast linear iterations for distributed averaging", 2004).

Node i has d_i neighbours. It averages x_i = sum over j of W_ij x_j, where for a neighbour j

    W_ij = min(1, n_j / n_i) / (1 + max(d_i, d_j)),

and what is left to 1 is the weight of its own update. n is the number of examples (agg1), of examples times labels
(agg2), or 1 (agg0). n_i W_ij = n_j W_ji, so an average keeps the mean of all models that is weighted by n, and repeated
averages lead all nodes to it: without training, to what a mesh computes at once. With equal n, W is symmetric and doubly
stochastic. No neighbour weighs more than 1 / (1 + d_i), whatever it states of its examples. If an update does not
arrive, its weight goes to the node's own; if it is missing on one side only, the mean is not kept in that round.

The graph of `random:k` is drawn in each round. All its places are equally likely, so one round shrinks the variance of
the models over N nodes to (N tr(W^2) / N - 1) / (N - 1) of it in the mean, which is (N / (k + 1) - 1) / (N - 1), about
1 / (k + 1): independent of N. A ring that stays the same shrinks it to ((1 + 2 cos(2 pi / N)) / 3)^2, next to nothing
for large N.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from flnet.aggregation.base import RoundStart
from flnet.algorithms.topology import Topology
from flnet.params.arithmetic import distance, norm, weighted_mean
from flnet.params.params import Params, PeerId
from flnet.protocol.events import Weighed
from flnet.protocol.updates import RoundKey, Update
from flnet.text import text

Graph = Mapping[PeerId, frozenset[PeerId]]  # the neighbours of each node


def graph(topology: Topology, key: RoundKey, members: Collection[PeerId]) -> Graph:
    """Draw the graph of a round, which is the same on all nodes that know its members.

    The members stand in a circle, in an order that a hash draws: for `random` anew in each round, for `ring` always the
    same. Neighbours are those next to a node in the circle; of an odd number of neighbours the last one is across it.

    Returns:
        The neighbours of each member: as many as the topology says, or all others if there are fewer. If both the number
        of neighbours and that of members are odd, one member has one less.
    """
    drawn = "" if topology.kind == "ring" else f"{key.number}:{len(key.initiator)}:{key.initiator}"
    order = sorted(set(members), key=lambda peer: (_place(drawn, peer), peer))
    count = len(order)
    degree = min(topology.neighbours, count - 1)
    pairs = [(i, (i + step) % count) for i in range(count) for step in range(1, degree // 2 + 1)]
    if degree % 2:
        pairs += [(i, i + count // 2) for i in range(count // 2)]
    linked: dict[PeerId, set[PeerId]] = {peer: set() for peer in order}
    for one, other in pairs:
        linked[order[one]].add(order[other])
        linked[order[other]].add(order[one])
    return {peer: frozenset(neighbours) for peer, neighbours in linked.items()}


def _place(drawn: str, peer: PeerId) -> bytes:
    return hashlib.sha256(f"gossip:{drawn}:{peer}".encode()).digest()


def links(drawn: Graph, me: PeerId) -> Mapping[PeerId, float]:
    """The largest weight of each neighbour of a node, 1 / (1 + max(d_i, d_j)); none for a node outside the graph."""
    mine = drawn.get(me, frozenset())
    return {peer: 1 / (1 + max(len(mine), len(drawn[peer]))) for peer in sorted(mine)}


class Mixed(NamedTuple):
    """The result of a node's average with its neighbours.

    Attributes:
        weighed: the weight of each update; they sum to 1.
        spread: the mean distance of the updates of its neighbours from its own one, before the average, as a part of
            the norm of its own one; None without any neighbour, or where it has no finite value.
    """

    params: Params
    weighed: Mapping[PeerId, Weighed]
    spread: float | None

    @property
    def note(self) -> str:
        """The spread in words for people; empty if it is not known."""
        if self.spread is None:
            return ""
        return text("updates of neighbours differ from this node's by {part} on average", f"{self.spread:.2%}")


def mixed(
    rule: str, start: RoundStart, updates: Sequence[Update], most: Mapping[PeerId, float], is_new: bool = False
) -> Mixed:
    """Average a node's own update with those of its neighbours; in place of one that it does not have, its own model.

    Args:
        rule: agg0, agg1 or agg2.
        start: of the round, as this node knows it.
        updates: sorted by peer, at least one; of this node, and of its neighbours as far as they have arrived.
        most: the largest weight of each neighbour (`links`).
        is_new: whether this node's model was never averaged: then it counts for nothing.
    """
    assert start.me is not None
    own = next((update for update in updates if update.peer == start.me), None)
    others = [update for update in updates if update.peer != start.me]
    mine, n = (start.base, None) if own is None else (own.params, _examples(rule, own))
    weights = {update.peer: most[update.peer] * _ratio(_examples(rule, update), n) for update in others}
    sum_of_others = math.fsum(weights.values())
    if own is None and is_new and sum_of_others:
        weights = {peer: weight / sum_of_others for peer, weight in weights.items()}
        sum_of_others = 1
    weights[start.me] = 1 - sum_of_others
    held = {start.me: mine, **{update.peer: update.params for update in others}}
    params = weighted_mean([(held[peer], weights[peer]) for peer in sorted(held)], start.schema.merge)
    weighed = {peer: Weighed(weights[peer]) for peer in sorted(held)}
    return Mixed(params, weighed, _spread(start, mine, others))


def _examples(rule: str, update: Update) -> int | None:
    """n of an update; None where it states none: then it counts as an equal one."""
    if update.examples is None or rule == "agg1":
        return update.examples
    return int(update.examples > 0) if rule == "agg0" else update.examples * update.labels


def _ratio(theirs: int | None, mine: int | None) -> float:
    return min(1.0, theirs / mine) if theirs is not None and mine else 1.0


def _spread(start: RoundStart, mine: Params, others: Sequence[Update]) -> float | None:
    size = norm(mine, start.schema)
    if not others or not 0 < size < math.inf:
        return None
    spread = math.fsum(distance(mine, update.params, start.schema) for update in others) / len(others) / size
    return spread if math.isfinite(spread) else None
