"""SCAFFOLD's merge: the mean of the models, and the mean of the nodes' control variates.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (2020), Algorithm 1, without
a server: each node sends its new control variate beside its model (arrays whose merge rule is "control"), and
every node keeps the last one of each. The common control variate c is their mean over all known nodes, those that
were never heard of as 0. The paper adds differences to c instead, where a lost message moves it away for ever;
here the next message of the same node heals it. Who leaves the mesh leaves the mean.

Models count alike, as in the paper; weights by examples may be chosen instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.merging import weighted_mean
from flnet.params import Array, Params, PeerId, Schema, Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import by_examples, counting
from flnet.strategies.remembering import Past, array_of, flat, made_it, noted, remembers, text_of
from flnet.vectors import BLOCK, averaged
from flnet.weighing import Weighed

CONTROL = "control"  # the merge rule of arrays that hold control variates


def scaffold(rate: float = 1.0, by_size: bool = False) -> Strategy:
    """The base plus `rate` times how far the mean of the models is from it, and the mean of control variates.

    Args:
        rate: the paper's global step size, above 0.
        by_size: whether models count by their examples.

    Raises:
        ValueError: the rate is not in that range.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"expected a rate above 0, got {rate:g}")
    name = ":".join(
        ["scaffold", *([f"{rate:g}"] if rate != 1 or by_size else []), *(["examples"] if by_size else [])]
    )

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        names = [one for one, spec in sorted(start.schema.specs.items()) if spec.merge == CONTROL]
        table, unsure = _remembered(state, name, start)
        table |= {one.peer: flat(one.params, start.schema, names) for one in updates}
        known = start.members | {one.peer for one in updates}
        table = {peer: one for peer, one in sorted(table.items()) if peer in known or not start.members}
        unsure = (unsure - {one.peer for one in updates}) & known

        there = counting(updates)
        counted = by_examples(there) if by_size else {one.peer: 1 / len(there) for one in there}
        mean = _mean(there, counted, start, rate)
        common = _unfolded(_mean_of(list(table.values()), max(len(known), len(table))), names, start.schema)
        params = Params({one: common[one] if one in common else mean[one] for one in start.schema.specs})
        said = {one.peer: Weighed(counted.get(one.peer, 0.0)) for one in updates}
        return Merged(params, _written(table, unsure, name, start, params), said, not unsure)

    return Strategy(name, merge, needs_base=rate != 1)


def _mean(updates: Sequence[Update], counted: Mapping[PeerId, float], start: RoundStart, rate: float) -> Params:
    """The models without control variates."""
    specs = {name: spec for name, spec in start.schema.specs.items() if spec.merge != CONTROL}
    sets = [(one.params.select(specs), counted[one.peer]) for one in updates]
    mean = weighted_mean(sets, {name: spec.merge for name, spec in specs.items()})
    if rate == 1:
        return mean
    return mean.merged_with(
        {name: _stepped(start.base[name], mean[name], rate) for name in averaged(start.schema)}
    )


def _stepped(base: Array, mean: Array, rate: float) -> Array:
    found, there, here = np.empty(mean.size, mean.dtype), np.ravel(base), np.ravel(mean)
    for start in range(0, mean.size, BLOCK):
        block = slice(start, start + BLOCK)
        step: NDArray[np.float64] = np.subtract(here[block], there[block], dtype=np.float64)
        with np.errstate(over="ignore"):
            found[block] = there[block] + rate * step
    return found.reshape(mean.shape)


def _mean_of(vectors: Sequence[Array], count: int) -> Array:
    """The sum of these in their order, divided by `count`."""
    found = np.empty_like(vectors[0])
    for start in range(0, found.size, BLOCK):
        block = slice(start, start + BLOCK)
        total = np.zeros(found[block].size)
        for one in vectors:
            total += one[block]
        found[block] = total / count
    return found


def _unfolded(vector: Array, names: Sequence[str], schema: Schema) -> dict[str, Array]:
    """The arrays of which this is made."""
    found, at = {}, 0
    for name in names:
        spec = schema.specs[name]
        size = math.prod(spec.shape)
        found[name] = vector[at : at + size].astype(spec.dtype).reshape(spec.shape)
        at += size
    return found


def _remembered(state: State, rule: str, start: RoundStart) -> tuple[dict[PeerId, Array], set[PeerId]]:
    """The last control variate of each, and of whom there may be a newer one that others know."""
    if state is None or not remembers(state, rule, start):
        return {}, set(start.members) if start.number > 0 else set()
    peers, unsure = ([PeerId(one) for one in json.loads(text_of(state[words]))] for words in ("peers", "unsure"))
    table = {peer: state[f"control {at}"] for at, peer in enumerate(peers)}
    return table, {*unsure} if made_it(state, start) else {*unsure, *peers, *start.members}


def _written(
    table: Mapping[PeerId, Array], unsure: set[PeerId], rule: str, start: RoundStart, params: Params
) -> Params:
    return Params(
        noted(Past(), rule, start, params.digest)
        | {"peers": array_of(json.dumps(list(table))), "unsure": array_of(json.dumps(sorted(unsure)))}
        | {f"control {at}": one for at, one in enumerate(table.values())}
    )
