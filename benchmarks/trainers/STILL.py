"""A trainer whose training and measuring cost nothing, so that what is left of a round is flnet's own.

BENCH_STILL_BYTES says how large its model is, and BENCH_STILL_SECONDS how long a training waits. Every training changes
one number, so no two updates are equal; with BENCH_STILL_ALL it changes all, so that no parts of them are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import numpy as np

from flnet.trainer import Array, DataInfo, Fit, Score, Task, Trainer, TrainerSettings

BYTES, SECONDS, ALL = "BENCH_STILL_BYTES", "BENCH_STILL_SECONDS", "BENCH_STILL_ALL"


class Still(Trainer):
    """One array of random float32, of which one number changes."""

    def __init__(self, settings: TrainerSettings, nbytes: int) -> None:
        self._shard = settings.shard[0]
        chance = np.random.default_rng(settings.seed)
        # Two, in turn: the arrays of the last training may still be on their way.
        self._arrays = [0.05 * chance.standard_normal(nbytes // 4, dtype="float32")]
        self._arrays.append(self._arrays[0].copy())
        self._done = 0

    def data_info(self) -> DataInfo:
        """None at all."""
        return DataInfo("nothing", {"train": 1, "test": 1}, sample=True)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """The same on all nodes."""
        return {"weight": self._arrays[0].copy()}

    def fit(self, task: Task) -> Fit:
        """One number changes."""
        self._done += 1
        time.sleep(float(os.environ.get(SECONDS, "0")))
        array = self._arrays[self._done % 2]
        if os.environ.get(ALL):
            array += np.float32(1e-6 * (self._shard + self._done))
        array[0] = 0.001 * self._shard + 1e-6 * self._done
        return Fit({"weight": array}, examples=100)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Always the same."""
        return Score(0.5, examples=100)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """With a model of the size that the environment asks for."""
    return Still(settings, int(os.environ.get(BYTES, "4000")))
