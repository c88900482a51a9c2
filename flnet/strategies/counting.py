"""Whose update takes part in a merge, how much each counts by its examples, and means that take no weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.merging import weighted_mean
from flnet.params import Params, PeerId, Schema, Update


def counting(updates: Sequence[Update]) -> list[Update]:
    """All but those that were learnt from no examples (rule R4); all if that leaves none (rule R5)."""
    return [one for one in updates if one.examples is None or one.examples > 0] or list(updates)


def plain_mean(updates: Sequence[Update], schema: Schema) -> Params:
    """The mean in which every update counts alike.

    Rules against liars take no weights by examples: each peer states the number of its examples itself.
    """
    return weighted_mean(
        [(one.params, 1.0) for one in updates], {name: spec.merge for name, spec in schema.specs.items()}
    )


def usual_mean(updates: Sequence[Update], schema: Schema) -> Params:
    """The mean by examples; the plain one where somebody did not say how many."""
    rules = {name: spec.merge for name, spec in schema.specs.items()}
    unsaid = any(one.examples is None for one in updates)
    return weighted_mean([(one.params, 1.0 if unsaid else float(one.examples or 0)) for one in updates], rules)


def mean_of_sorted(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of every column, summed row by row so that its bits are the same everywhere.

    Args:
        rows: (updates, numbers), every column in rising order.
    """
    total = np.zeros(rows.shape[1])
    with np.errstate(over="ignore"):  # rounding may pass the largest number; the mean cannot
        for row in rows:
            total += row / len(rows)
    return np.clip(total, rows[0], rows[-1], out=total)


def by_examples(updates: Sequence[Update]) -> dict[PeerId, float]:
    """The share of each in a mean by examples, late ones less; of sum 1.

    Who stated none counts as the mean of those who did.
    """
    stated = [one.examples for one in updates if one.examples is not None]
    assumed = math.fsum(stated) / len(stated) if stated else 1.0
    counted = {
        one.peer: (assumed if one.examples is None else one.examples) * lateness(one.staleness) for one in updates
    }
    total = math.fsum(counted.values())
    return {peer: one / total if total > 0 else 1 / len(counted) for peer, one in counted.items()}


def lateness(rounds: int) -> float:
    """What an update still counts that was learnt from a model of so many rounds before: (1 + rounds) ** -0.5.

    Xie, Koyejo, Gupta, "Asynchronous Federated Optimization" (2019), the polynomial form with a = 0.5.
    """
    return 1 / math.sqrt(1 + rounds)
