"""A trainer for meshes in memory that predicts, exports and keeps a part private."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.params.params import Params
from flnet.trainer import Array, DataInfo, Fit, InputSpec, Prediction, Task
from tests.node.mesh import Linear


class Predictor(Linear):
    """`weights` and `bias` are shared, `head` is private and counts this node's trainings."""

    shared: tuple[str, ...] | None = ("weights", "bias")
    note = "for tests only"
    licence = "CC0-1.0"

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {**super().initial_params(seed), "head": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        fit = super().fit(task)
        params = Params(fit.params)
        return Fit({**params, "head": task.params["head"] + np.float32(1)}, fit.examples)

    def data_info(self) -> DataInfo:
        rows, counts = {"train": 3, "test": 2}, {"train": (1, 2), "test": (1, 1)}
        return DataInfo(
            "made up in /secret/place/points.csv", rows, ("<three>", "seven"), sample=True, counts=counts
        )

    def input_spec(self) -> InputSpec:
        return InputSpec("table", (2,), -9, 9, names=("x", "y"))

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        return Prediction(np.hstack([inputs[:, :1], inputs[:, 1:] + params["head"]]), "scores")

    def onnx(self, params: Mapping[str, Array]) -> bytes | None:
        return None
