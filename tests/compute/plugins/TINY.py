"""Logistic regression on points of a plane: a complete trainer, and the one to copy."""

from collections.abc import Mapping

import numpy as np

from flnet.trainer import Array, DataInfo, Fit, HyperParams, Score, Task, Trainer, TrainerSettings


class Tiny(Trainer):
    label = "Points of a plane"
    defaults = HyperParams(e=5, u=0.5, b=100)

    def __init__(self, seed: int) -> None:
        self.x = np.random.default_rng(seed).normal(size=(200, 2))
        self.y = (self.x.sum(axis=1) > 0).astype(float)  # the first 100 rows train, the others test

    def data_info(self) -> DataInfo:
        return DataInfo("made-up points", {"train": 100, "test": 100}, ("below", "above"), sample=True)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(2), "b": np.zeros(1)}

    def fit(self, task: Task) -> Fit:
        w, b, x, y = task.params["w"], task.params["b"], self.x[:100], self.y[:100]
        for epoch in range(task.hyper.e):
            error = 1 / (1 + np.exp(-(x @ w + b))) - y
            w, b = w - task.hyper.u * x.T @ error / len(x), b - task.hyper.u * error.mean(keepdims=True)
            task.progress(epoch + 1, task.hyper.e)
        return Fit({"w": w, "b": b}, examples=len(x))

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        right = (self.x[100:] @ params["w"] + params["b"] > 0) == (self.y[100:] > 0)
        return Score(float(right.mean()), len(right))


def make_trainer(settings: TrainerSettings) -> Trainer:
    return Tiny(settings.seed)
