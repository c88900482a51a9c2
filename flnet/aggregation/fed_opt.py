"""FedAvgM, FedAdam and FedYogi: an optimiser takes the mean change of a round for a gradient.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification"
(2019), section 4, for momentum; Reddi et al., "Adaptive Federated Optimization" (2021), Algorithm 2, for Adam and
Yogi. There is no server: every node takes the same step from the same mean, and remembers the same moments.

Moments reach back without an end, so a node that joined, or missed an update, would never again have those of the
others. Therefore all nodes reset their moments in every fiftieth round. Until then such a node takes its own steps, states
that they are not the common ones, and adopts the others' model round by round. A node that adopts a model keeps its
moments, because they describe earlier changes; a node that missed rounds resets them.
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
    Past,
    RoundStart,
    State,
    by_examples,
    counting,
    flat_type,
    noted,
    past_of,
)
from flnet.params.arithmetic import BLOCK, weight_names, weighted_mean
from flnet.params.params import Array, Params
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update

Block = NDArray[np.float64]
Step = Callable[[Block, Block, Block], Block]  # (change, first moment, second; both written into) -> what is added
PERIOD = 50  # rounds after which all nodes reset their moments
_FIRST, _SECOND = "first moment", "second moment"


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

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        past = past_of(state, name, start, PERIOD)
        if past.merges and start.number // PERIOD != past.number // PERIOD:
            past = Past()
        counted = counting(updates)
        shares = by_examples(counted)
        mean = weighted_mean([(update.params, shares[update.peer]) for update in counted], start.schema.merge)
        moments = _moments(state if past.merges else None, start, second)
        params = mean.merged_with(_stepped(step, start, mean, moments))
        kept = Params(noted(past, name, start, params.digest) | dict(zip((_FIRST, _SECOND), moments, strict=True)))
        weighed = {update.peer: Weighed(shares.get(update.peer, 0.0)) for update in updates}
        return Merged(params, kept, weighed, not past.apart)

    return AggregationRule(name, merge, needs_base=True)


def _moments(state: State, start: RoundStart, second: float) -> tuple[Array, Array]:
    """Copies of the remembered moments, or initial ones; the second is empty if the step has none."""
    if state is not None:
        return state[_FIRST].copy(), state[_SECOND].copy()
    size = sum(math.prod(start.schema.specs[name].shape) for name in weight_names(start.schema))
    kind = flat_type(start.schema)
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
