"""FedMT where nodes pool what they counted: an estimate from all rows of one label space, for a histogram.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, section 3, count on each
node alone. Here each node that counts shares, for each pair of a label and a confident guess, the part of its rows
that has both. These parts are averaged like any parameter, beside the part of the nodes that counted, so that the
average of those is known. It tells the others how often each label occurs: nothing is shared unless all nodes'
files say so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flnet.labels import Labelling
from flnet.training.api import Array, Fit, Task, Trainer, TrainerError, TrainerSettings
from flnet.training.methods.base import Model
from flnet.training.methods.by_labels import COUNTS, ByLabels

POOLED = "labels/pooled"  # (J, K): the part of a node's rows that has this label and this confident guess
POOLING = "labels/pooling"  # (1,): 1 of a node that counted, 0 of another one


class Pooling(ByLabels):
    """A trainer whose node shares what it counted, and estimates from what all nodes of its label space did."""

    def __init__(self, inner: Trainer, seed: int, labelling: Labelling, part: int, name: str) -> None:
        """See `ByLabels`."""
        super().__init__(inner, seed, labelling, part, name)
        space = labelling.pooled or labelling.space
        self._table = len(space), len(labelling.target)
        self.shared = (*(self.shared or ()), POOLED, POOLING)
        self.agreement = {
            **self.agreement,
            "pooled counts": f"{space.id}, {len(space)} classes, {space.digest[:16]}",
        }

    def initial_params(self, seed: int) -> Model:
        """With nothing counted yet."""
        nothing = {POOLED: np.zeros(self._table, np.float32), POOLING: np.zeros(1, np.float32)}
        return {**super().initial_params(seed), **nothing}

    def fit(self, task: Task) -> Fit:
        """With what the node counted.

        A node that counts nothing hands on what was pooled where it has a turn of its own, and nothing where those
        that count train beside it.
        """
        fit = super().fit(task)
        counts = np.asarray(fit.params[COUNTS]) if self._estimates else np.zeros(self._table)
        if not counts.any() and self._labelling.schedule != "parallel":
            return fit
        parts = (counts / max(1, self.judged_rows)).astype(np.float32)
        told = {POOLED: parts, POOLING: np.array([counts.any()], np.float32)}
        return replace(fit, params={**fit.params, **told})

    def behind(self, params: Model, counts: Array) -> Array:
        """The mean of the nodes that counted, for as many rows as are judged here; else the own counts."""
        nodes = float(np.asarray(params[POOLING])[0])
        if nodes <= 0:
            return counts
        parts = np.clip(np.asarray(params[POOLED], np.float64) / nodes, 0, 1)
        found = np.rint(parts * self.judged_rows).astype(np.int64)
        return found if found.any() else counts


def with_labels(trainer: Trainer, settings: TrainerSettings, name: str) -> Trainer:
    """The trainer as a node with these labels wants it; itself where FLNET_LABELS is not set.

    Args:
        name: its id, for people.

    Raises:
        TrainerError: it cannot learn so; says why, and what to change.
    """
    if settings.labels is None:
        return trainer
    if settings.method.controls or settings.method.kind != "none":
        raise TrainerError(
            "FLNET_LABELS does not go with FLNET_PERSONAL_MODEL, nor with scaffold in FLNET_AGGREGATION: leave "
            "one of them away"
        )
    kind = Pooling if settings.labels.pool_counts else ByLabels
    return kind(trainer, settings.seed, settings.labels, settings.shard[0], name)
