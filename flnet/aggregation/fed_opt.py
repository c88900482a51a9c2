"""FedAvgM, FedAdam and FedYogi: an optimiser takes the mean change of a round for a gradient.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification"
(2019), section 4, for momentum; Reddi et al., "Adaptive Federated Optimization" (2021), Algorithm 2, for Adam and
Yogi. There is no server: every node takes the same step from the same mean, and remembers the same moments.

Moments reach back without an end: a node that joined, or missed an update, would never again have those of the others.
So nodes share them (`flnet.aggregation.base.SharedMemory`): before such a node averages, it takes the moments with which
most others merge. A node that adopts a model, or missed rounds, keeps its moments, because they describe earlier changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import (
    AggregationRule,
    Merged,
    RoundStart,
    SharedMemory,
    State,
    array_of,
    by_examples,
    counting,
    flat_type,
    shape_of,
    text_of,
)
from flnet.params.arithmetic import BLOCK, weight_names, weighted_mean
from flnet.params.params import Array, Params, ParamSpec, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update

Block = NDArray[np.float64]
Step = Callable[[Block, Block, Block], Block]  # (change, first moment, second; both written into) -> what is added
_FIRST, _SECOND, _RULE = "first moment", "second moment", "rule"


def fed_avg_m(rate: float = 1.0, momentum: float = 0.9) -> AggregationRule:
    """FedAvgM: the mean change plus `momentum` times the previous step.

    Args:
        rate: of each step, above 0.
        momentum: in [0, 1).
    """
    _check(rate, momentum)

    def step(change: Block, first: Block, second: Block) -> Block:
        first *= momentum
        first += change
        return first * rate

    return _optimised(f"fedavgm:{rate:g}:{momentum:g}", step, 0.0)


def adaptive(
    kind: Literal["fedadam", "fedyogi"],
    rate: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.99),
    adaptivity: float = 1e-3,
) -> AggregationRule:
    """FedAdam or FedYogi: a separate step size for each number, smaller for numbers with larger changes.

    Args:
        rate: of each step, above 0.
        betas: what is kept of either moment from round to round, in [0, 1).
        adaptivity: the paper's tau, above 0: below it the size of changes makes no difference.
    """
    _check(rate, *betas)
    _check(adaptivity)

    def step(change: Block, first: Block, second: Block) -> Block:
        first *= betas[0]
        first += (1 - betas[0]) * change
        square = change * change
        if kind == "fedadam":
            second *= betas[1]
            second += (1 - betas[1]) * square
        else:
            second -= (1 - betas[1]) * square * np.sign(second - square)
        return rate * first / (np.sqrt(second) + adaptivity)

    name = f"{kind}:{rate:g}:{betas[0]:g}:{betas[1]:g}:{adaptivity:g}"
    return _optimised(name, step, adaptivity * adaptivity)


def _check(above_0: float, *below_1: float) -> None:
    if not 0 < above_0 < math.inf or not all(0 <= part < 1 for part in below_1):
        raise ValueError(f"expected a number above 0 and parts in [0, 1), got {above_0:g} and {below_1}")


def _optimised(name: str, step: Step, second: float) -> AggregationRule:
    """The aggregation rule with this step; `second` is the initial second moment."""
    shared = _shared(name, has_second=second > 0)

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        counted = counting(updates)
        shares = by_examples(counted)
        mean = weighted_mean([(update.params, shares[update.peer]) for update in counted], start.schema.merge)
        moments = _moments(shared, state, start.schema, second)
        params = mean.merged_with(_stepped(step, start, mean, moments))
        arrays = {_RULE: _tag(name, start.schema), _FIRST: moments[0], _SECOND: moments[1]}
        kept = shared.form(start.schema).conform(Params(arrays))
        weighed = {update.peer: Weighed(shares.get(update.peer, 0.0)) for update in updates}
        return Merged(params, kept, weighed)

    return AggregationRule(name, merge, needs_base=True, shared_memory=shared)


def _shared(name: str, *, has_second: bool) -> SharedMemory:
    """The moments as vectors of all weights, and the rule and the arrays that they belong to."""

    def form(schema: Schema) -> Schema:
        size, kind = _size(schema), flat_type(schema).name
        return Schema(
            {
                _RULE: ParamSpec(_tag(name, schema).shape, "uint8", "max"),
                _FIRST: ParamSpec((size,), kind),
                _SECOND: ParamSpec((size if has_second else 0,), kind),
            }
        )

    def is_sound(memory: Params, schema: Schema) -> bool:
        return text_of(memory[_RULE]) == text_of(_tag(name, schema)) and memory[_SECOND].min(initial=0) >= 0

    return SharedMemory(form, is_sound)


def _tag(name: str, schema: Schema) -> Array:
    return array_of(f"{name} {shape_of(schema)}")


def _size(schema: Schema) -> int:
    return sum(math.prod(schema.specs[name].shape) for name in weight_names(schema))


def _moments(shared: SharedMemory, state: State, schema: Schema, second: float) -> tuple[Array, Array]:
    """Copies of the remembered moments, or initial ones; the second is empty if the step has none."""
    memory = shared.of(state, schema)
    if memory is not None:
        return memory[_FIRST].copy(), memory[_SECOND].copy()
    size, kind = _size(schema), flat_type(schema)
    return np.zeros(size, kind), np.full(size if second else 0, second, kind)


def _stepped(step: Step, start: RoundStart, mean: Params, moments: tuple[Array, Array]) -> dict[str, Array]:
    stepped, at = {}, 0
    for name in weight_names(start.schema):
        base, target = np.ravel(start.base[name]), np.ravel(mean[name])
        flat = np.empty(target.size, target.dtype)
        for begin in range(0, target.size, BLOCK):
            stop = min(target.size, begin + BLOCK)
            first, second = (moment[at + begin : at + stop].astype(np.float64) for moment in moments)
            change = np.subtract(target[begin:stop], base[begin:stop], dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                flat[begin:stop] = base[begin:stop] + step(change, first, second)
                for moment, new in zip(moments, (first, second), strict=True):
                    moment[at + begin : at + stop] = new
        stepped[name] = flat.reshape(mean[name].shape)
        at += target.size
    return stepped
