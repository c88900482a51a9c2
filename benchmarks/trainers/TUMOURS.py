"""Breast cancer as three nodes of an encrypted regression have it: 10 columns and the label, 20 columns, and the key.

BENCH_TUMOURS_BATCH says how many rows a batch has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from benchmarks.encrypted import people
from flnet.trainer import Array, DataInfo, HyperParams, NotOffered, TrainerSettings
from flnet.vertical_trainer import KeyHolderTrainer, VerticalTrainer

KIND = "vertical"
BATCH = "BENCH_TUMOURS_BATCH"


class TumourColumns(VerticalTrainer):
    """The columns of one node, standardised."""

    label = "tumours"
    method = "encrypted-regression"

    def __init__(self, defaults: HyperParams, *, has_label: bool) -> None:
        self.defaults = defaults
        a, b, y = people()
        self._x, self._y = (a if has_label else b), ((y > 0) if has_label else None)

    def identifiers(self) -> Sequence[str]:
        """Numbers."""
        return [f"patient-{number:04}" for number in range(len(self._x))]

    def features(self, rows: Array) -> Array:
        """Of these patients."""
        return np.asarray(self._x[rows])

    def labels(self, rows: Array) -> Array:
        """1 for benign."""
        if self._y is None:
            raise NotOffered("no labels")
        return np.asarray(self._y[rows], np.int64)

    def data_info(self) -> DataInfo:
        """Of scikit-learn."""
        return DataInfo("scikit-learn's breast cancer", {"train": len(self._x)}, sample=True)


def make_vertical_trainer(settings: TrainerSettings) -> VerticalTrainer:
    """The first node has the label, the third the key."""
    defaults = HyperParams(e=1, u=0.05, b=int(os.environ.get(BATCH, "32")))
    part, _ = settings.shard
    if part == 3:
        holder = KeyHolderTrainer()
        holder.defaults = defaults
        return holder
    return TumourColumns(defaults, has_label=part == 1)
