"""Federated averaging.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017),
Algorithm 1; the names agg0, agg1 and agg2 and their weights follow Delgado Bejarano, MLFedAvg (2024),
where agg0 is printed as the bare sum although its text and code take the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from flnet.params import Params, Schema, Update, weighted_mean
from flnet.strategies.base import LocalTerm, State, Strategy

Weighting = Literal["agg0", "agg1", "agg2"]


def fed_avg(weighting: Weighting = "agg1") -> Strategy:
    """Mean of the peers' parameters: agg0 uniform; agg1 by examples n; agg2 by n times its labels M."""

    def merge(state: State, schema: Schema, updates: Sequence[Update]) -> tuple[Params, State]:
        rules = {name: spec.merge for name, spec in schema.specs.items()}
        return weighted_mean(_weigh(weighting, updates), rules), state

    return Strategy(weighting, init=lambda params: None, local=lambda state: LocalTerm(), merge=merge)


def _weigh(weighting: Weighting, updates: Sequence[Update]) -> list[tuple[Params, float]]:
    examples = _examples(updates)
    if weighting == "agg0":  # a peer that trained on nothing has nothing to say in a uniform mean (R4)
        weights = [float(n > 0) for n in examples]
    elif weighting == "agg1":
        weights = [float(n) for n in examples]
    else:
        weights = [float(n * update.labels) for n, update in zip(examples, updates, strict=True)]
    return [(update.params, weight) for update, weight in zip(updates, weights, strict=True)]


def _examples(updates: Sequence[Update]) -> list[float]:
    """Example counts; a peer that did not state one (a caller of the thesis' form) counts as the mean of the
    others, or all alike if nobody did: a function of the received set only, so that all nodes agree.
    """
    stated = [update.examples for update in updates if update.examples is not None]
    assumed = sum(stated) / len(stated) if stated else 1.0
    return [assumed if update.examples is None else float(update.examples) for update in updates]
