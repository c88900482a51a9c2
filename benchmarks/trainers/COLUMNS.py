"""A vertical trainer on generated columns of the shape of the census data: 63 columns at the first node, 29 at the second.

The last node has the label. BENCH_COLUMNS_ROWS says how many people there are, BENCH_COLUMNS_IN_FLIGHT how many batches
may be under way at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.trainer import Array, DataInfo, HyperParams, NotOffered, TrainerSettings
from flnet.vertical_trainer import BottomModel, TopModel, VerticalTrainer

KIND = "vertical"
ROWS, IN_FLIGHT = "BENCH_COLUMNS_ROWS", "BENCH_COLUMNS_IN_FLIGHT"
COLUMNS = (63, 29)
HIDDEN, CUT, TOP = 64, 32, 32


class GeneratedColumns(VerticalTrainer):
    """The columns of one node; every node knows the same people."""

    label = "columns"
    defaults = HyperParams(e=1, u=0.001, b=256)

    def __init__(self, part: int, parts: int, rows: int, in_flight: int) -> None:
        """Args:
        part: this node's, from 1 to `parts`; the last one has the label.
        """
        self.in_flight = in_flight
        chance = np.random.default_rng(part)
        self._x = chance.normal(size=(rows, COLUMNS[(part - 1) % 2])).astype(np.float32)
        self._y = np.random.default_rng(0).integers(0, 2, rows) if part == parts else None

    def identifiers(self) -> Sequence[str]:
        """Numbers."""
        return [f"person-{number:06}" for number in range(len(self._x))]

    def features(self, rows: Array) -> Array:
        """Normal numbers."""
        return np.asarray(self._x[rows])

    def labels(self, rows: Array) -> Array:
        """Tossed coins."""
        if self._y is None:
            raise NotOffered("no labels")
        return np.asarray(self._y[rows])

    def bottom_model(self, seed: int, hyper: HyperParams) -> BottomModel:
        """One hidden layer."""
        layers = Layers((self._x.shape[1], HIDDEN, CUT), relu_at_end=True)
        return DenseBottom(layers, layers.initial(seed), "adam", hyper.u)

    def top_model(self, width: int, seed: int, hyper: HyperParams) -> TopModel | None:
        """One hidden layer."""
        layers = Layers((width, TOP, 1))
        return None if self._y is None else DenseTop(layers, layers.initial(seed), "adam", hyper.u)

    def data_info(self) -> DataInfo:
        """None at all."""
        return DataInfo("random numbers", {"train": len(self._x)}, sample=True)


def make_vertical_trainer(settings: TrainerSettings) -> VerticalTrainer:
    """As many rows as the environment asks for."""
    return GeneratedColumns(
        *settings.shard, int(os.environ.get(ROWS, "32561")), int(os.environ.get(IN_FLIGHT, "1"))
    )
