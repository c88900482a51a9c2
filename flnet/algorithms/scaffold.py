"""SCAFFOLD: local steps corrected by control variates, and the mean of models and of control variates.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (ICML 2020), Algorithm 1, without
a server. Each local step is corrected by the difference between the common control variate c and the node's own, which
the node renews by option II and sends with its model (arrays whose merge rule is "control"). Every node keeps the last
control variate of each node; c is their mean over all known nodes, with 0 for nodes that never sent one. The paper adds
differences to c instead, where one lost message leaves a permanent error; here the node's next message repairs it. A
node that leaves the mesh leaves the mean.

Models have equal weights, as in the paper; weights by examples can be chosen instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import (
    AggregationRule,
    Merged,
    Past,
    RoundStart,
    State,
    array_of,
    by_examples,
    counting,
    flat,
    made_it,
    noted,
    remembers,
    text_of,
)
from flnet.algorithms.wrapper import Descent, Model, Wrapped, drawn, no_clash, opened, walked
from flnet.params.arithmetic import BLOCK, weight_names, weighted_mean
from flnet.params.params import Array, MergeRule, Params, PeerId, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from flnet.trainer import Fit, Task, Trainer

CONTROL = "control"  # the merge rule of arrays that hold control variates


def scaffold(rate: float = 1.0, by_size: bool = False) -> AggregationRule:
    """The base plus `rate` times the mean change of the models, and the mean of control variates.

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
        names = [name for name, spec in sorted(start.schema.specs.items()) if spec.merge == CONTROL]
        table, unsure = _remembered(state, name, start)
        table |= {update.peer: flat(update.params, start.schema, names) for update in updates}
        known = start.members | {update.peer for update in updates}
        table = {peer: control for peer, control in sorted(table.items()) if peer in known or not start.members}
        unsure = (unsure - {update.peer for update in updates}) & known

        counted = counting(updates)
        shares = by_examples(counted) if by_size else {update.peer: 1 / len(counted) for update in counted}
        mean = _mean(counted, shares, start, rate)
        common = _unfolded(_mean_of(list(table.values()), max(len(known), len(table))), names, start.schema)
        params = Params({name: common[name] if name in common else mean[name] for name in start.schema.specs})
        weighed = {update.peer: Weighed(shares.get(update.peer, 0.0)) for update in updates}
        return Merged(params, _written(table, unsure, name, start, params), weighed, not unsure)

    return AggregationRule(name, merge, needs_base=rate != 1, changes_training=True, ignores_lateness=not by_size)


def _mean(updates: Sequence[Update], counted: Mapping[PeerId, float], start: RoundStart, rate: float) -> Params:
    """The models without control variates."""
    specs = {name: spec for name, spec in start.schema.specs.items() if spec.merge != CONTROL}
    sets = [(update.params.select(specs), counted[update.peer]) for update in updates]
    mean = weighted_mean(sets, {name: spec.merge for name, spec in specs.items()})
    if rate == 1:
        return mean
    return mean.merged_with(
        {name: _stepped(start.base[name], mean[name], rate) for name in weight_names(start.schema)}
    )


def _stepped(base: Array, mean: Array, rate: float) -> Array:
    result, old, new = np.empty(mean.size, mean.dtype), np.ravel(base), np.ravel(mean)
    for start in range(0, mean.size, BLOCK):
        block = slice(start, start + BLOCK)
        step: NDArray[np.float64] = np.subtract(new[block], old[block], dtype=np.float64)
        with np.errstate(over="ignore"):
            result[block] = old[block] + rate * step
    return result.reshape(mean.shape)


def _mean_of(vectors: Sequence[Array], count: int) -> Array:
    """The sum of these in their order, divided by `count`."""
    mean = np.empty_like(vectors[0])
    for start in range(0, mean.size, BLOCK):
        block = slice(start, start + BLOCK)
        total = np.zeros(mean[block].size)
        for vector in vectors:
            total += vector[block]
        mean[block] = total / count
    return mean


def _unfolded(vector: Array, names: Sequence[str], schema: Schema) -> dict[str, Array]:
    """The named arrays that this vector consists of."""
    arrays, at = {}, 0
    for name in names:
        spec = schema.specs[name]
        size = math.prod(spec.shape)
        arrays[name] = vector[at : at + size].astype(spec.dtype).reshape(spec.shape)
        at += size
    return arrays


def _remembered(state: State, rule: str, start: RoundStart) -> tuple[dict[PeerId, Array], set[PeerId]]:
    """The last control variate of each node, and the nodes of which others may know a newer one."""
    if state is None or not remembers(state, rule, start):
        return {}, set(start.members) if start.number > 0 else set()
    peers, unsure = ([PeerId(peer) for peer in json.loads(text_of(state[words]))] for words in ("peers", "unsure"))
    table = {peer: state[f"control {at}"] for at, peer in enumerate(peers)}
    return table, {*unsure} if made_it(state, start) else {*unsure, *peers, *start.members}


def _written(
    table: Mapping[PeerId, Array], unsure: set[PeerId], rule: str, start: RoundStart, params: Params
) -> Params:
    return Params(
        noted(Past(), rule, start, params.digest)
        | {"peers": array_of(json.dumps(list(table))), "unsure": array_of(json.dumps(sorted(unsure)))}
        | {f"control {at}": control for at, control in enumerate(table.values())}
    )


def corrected(
    gradients: Mapping[str, Array], own: Mapping[str, Array], common: Mapping[str, Array]
) -> dict[str, Array]:
    """g - own + common, for each array that has a gradient."""
    return {name: gradient - own[name] + common[name] for name, gradient in gradients.items()}


def renewed(
    own: Mapping[str, Array],
    common: Mapping[str, Array],
    start: Mapping[str, Array],
    end: Mapping[str, Array],
    steps: int,
    rate: float,
) -> dict[str, Array]:
    """The own control variate after a training: own - common + (start - end) / (steps x rate).

    Args:
        start, end: parameters before and after.
        steps: that were done, of all epochs together.
        rate: of learning.
    """
    return {
        name: (own[name] - common[name] + (start[name] - end[name]) / (steps * rate)).astype(own[name].dtype)
        for name in own
    }


COMMON, OWN = "control/", "own control/"


class Controlled(Wrapped):
    """A trainer whose shared arrays are trained by corrected steps of plain gradient descent.

    What is sent as "control/..." is this node's new control variate; the aggregation rule makes the common one of all.
    """

    def __init__(self, inner: Trainer, seed: int, mu: float = 0.0) -> None:
        """Args:
        mu: of FedProx's term.
        """
        super().__init__(inner, seed)
        no_clash(self.names, (COMMON, OWN))
        self._mu = mu
        self._controlled = tuple(name for name in self.trained if name in self.sent)
        control: MergeRule = "control"
        self.shared = (*self.sent, *(COMMON + name for name in self._controlled))
        self.merge = {**inner.merge, **{COMMON + name: control for name in self._controlled}}

    def initial_params(self, seed: int) -> Model:
        """Control variates begin at 0."""
        first = self.inner.initial_params(seed)
        zeros = {name: np.zeros_like(first[name]) for name in self._controlled}
        return {**first, **{COMMON + n: v for n, v in zeros.items()}, **{OWN + n: v for n, v in zeros.items()}}

    def fit(self, task: Task) -> Fit:
        """All steps, each by g - own + common."""
        start = self.inside(task.params)
        common, own = ({n: task.params[side + n] for n in self._controlled} for side in (COMMON, OWN))
        gradients = opened(self.inner, replace(task, params=start))
        params = {name: np.array(value) for name, value in start.items()}
        descent = Descent("sgd", task.hyper.u)

        def step(number: int) -> float:
            loss, slope = gradients(params, number)
            slope = drawn(slope, params, start, self._mu)
            descent.step(params, {**slope, **corrected({n: slope[n] for n in self._controlled}, own, common)})
            return loss

        done, loss = walked(gradients, task, step)
        new = renewed(own, common, start, params, max(1, done), task.hyper.u)
        fit = gradients.fit(params, done, loss)
        sides = {side + name: value for side in (COMMON, OWN) for name, value in new.items()}
        return replace(fit, params={**task.params, **fit.params, **sides})
