"""Four numbers that are learnt by sums of float32 alone: equal bits on every machine.

A copy of this file under another name is another trainer. Each waits while it is told to.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from flnet.training.api import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    InputSpec,
    Prediction,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

HERE = Path(__file__)


class Steady(Trainer):
    """The numbers of one node."""

    label = f"{HERE.stem.capitalize()} numbers"
    defaults = HyperParams(e=2, u=0.125, b=4)
    shared = ("weight", "bias")  # "own" stays here
    note = "These are no animals."
    licence = "CC0-1.0"

    def __init__(self, settings: TrainerSettings) -> None:
        self.part = settings.shard[0]
        self.held = HERE.with_name(f"hold-{HERE.stem}-{self.part}")  # as long as this file is there, it trains
        self.rows = 10 * (self.part + 1)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {name: np.zeros(shape, np.float32) for name, shape in (("weight", (2, 2)), ("bias", 3), ("own", 2))}

    def fit(self, task: Task) -> Fit:
        done = 0
        while self.held.exists():
            done += 1
            task.progress(done, done + 1)
            time.sleep(0.02)
        step = np.float32(task.hyper.u) * np.float32(task.hyper.e * (self.part + 1))
        learnt = {name: array + step for name, array in task.params.items()}
        learnt["weight"] = learnt["weight"] * np.array([[1, 0.5], [0.25, 2]], np.float32)
        return Fit(learnt, examples=self.rows, labels=2, metrics={"loss": 1 / (self.part + 2)})

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        moved = float(np.float64(params["weight"]).sum() + np.float64(params["own"]).sum() * self.part)
        return Score(moved / (moved + 8), examples=self.rows, metrics={"loss": 0.25 * self.part})

    def data_info(self) -> DataInfo:
        rows = {"train": self.rows, "validation": 0, "test": 10}
        counts = {"train": [self.rows - 4, 4], "validation": [0, 0], "test": [5, 5]}
        classes = ("cat", "dog")
        return DataInfo(
            "numbers <made up>", rows, classes, note="nothing is read", counts=counts, checksum="ab" * 32
        )

    def input_spec(self) -> InputSpec:
        return InputSpec("table", (2,), names=("height", "weight"), hint="two numbers")

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        odds = 1 / (1 + np.exp(-(inputs @ params["weight"].sum(axis=1))))
        return Prediction(np.stack([1 - odds, odds], axis=1))


make_trainer = Steady
