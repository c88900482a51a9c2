"""Trainers that can be followed by hand: a point that is drawn to a goal, and lines between two clouds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from flnet.compute.export import OnnxGraph
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import (
    Array,
    DataInfo,
    Fit,
    Gradients,
    InputSpec,
    Optimiser,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
)

Model = Mapping[str, Array]


class Point(Trainer):
    """The loss |z - goal|^2 / 2 with a gradient of slope x (z - goal), one step a pass; worked by hand."""

    def __init__(self, goal: tuple[float, ...], start: tuple[float, ...], slope: float = 1.0) -> None:
        self.goal, self.start, self.slope = np.array(goal), np.array(start), slope

    def initial_params(self, seed: int) -> Model:
        return {"z": self.start.copy()}

    def fit(self, task: Task) -> Fit:
        z = task.params["z"].copy()
        for _ in range(task.hyper.e):
            z = z - task.hyper.u * (self.slope * (z - self.goal) + task.proximal * (z - task.params["z"]))
        return Fit({"z": z}, examples=2)

    def evaluate(self, params: Model) -> Score:
        return Score(float(1 / (1 + ((params["z"] - self.goal) ** 2).sum())), 2, {"first": float(params["z"][0])})

    def gradients(self, task: Task) -> Gradients:
        return _PointSteps(self, task)


class _PointSteps:
    optimiser: Optimiser = "sgd"

    def __init__(self, point: Point, task: Task) -> None:
        self.point, self.steps = point, task.hyper.e

    def __call__(self, params: Model, step: int) -> tuple[float, Model]:
        away = params["z"] - self.point.goal
        return float((away**2).sum() / 2), {"z": self.point.slope * away}

    def fit(self, params: Model, steps: int, loss: float) -> Fit:
        return Fit(params, examples=2, metrics={"loss": loss})


class Lines(Trainer):
    """Softmax regression on four columns, full batches of plain descent; counts its passes in an integer array."""

    defaults = HyperParams(e=20, u=0.5, b=64)
    honours: ClassVar[frozenset[str]] = frozenset({"proximal"})

    def __init__(self, x: Array, y: Array, others: Rows | None = None) -> None:
        """Args:
        others: rows of other nodes, on which it is measured too.
        """
        self.x, self.y, self.others = x.astype(np.float32), y, others

    def initial_params(self, seed: int) -> Model:
        return {"w": np.zeros((4, 2), np.float32), "b": np.zeros(2, np.float32), "passes": np.zeros(1, np.int64)}

    def fit(self, task: Task) -> Fit:
        w, b = task.params["w"].copy(), task.params["b"].copy()
        for _ in range(task.hyper.e):
            error = _softmax(self.x @ w + b) - np.eye(2)[self.y]
            w = w - task.hyper.u * (self.x.T @ error / len(self.x) + task.proximal * (w - task.params["w"]))
            b = b - task.hyper.u * (error.mean(0) + task.proximal * (b - task.params["b"]))
        passes = task.params["passes"] + task.hyper.e
        return Fit({"w": w.astype("f4"), "b": b.astype("f4"), "passes": passes}, examples=len(self.x), labels=2)

    def evaluate(self, params: Model) -> Score:
        metrics = {} if self.others is None else {"global_accuracy": self._right(params, self.others)}
        return Score(self._right(params, Rows(self.x, self.y)), len(self.x), metrics)

    def gradients(self, task: Task) -> Gradients:
        return _LineSteps(self, task)

    def data_info(self) -> DataInfo:
        return DataInfo("made up", {"train": len(self.x)}, ("no", "yes"))

    def input_spec(self) -> InputSpec:
        return InputSpec("features", (4,))

    def predict(self, params: Model, inputs: Array) -> Prediction:
        return Prediction(_softmax(inputs @ params["w"] + params["b"]))

    def inputs(self) -> Array:
        return self.x

    def tests(self) -> Mapping[str, Rows]:
        others = {} if self.others is None else {"global_accuracy": self.others}
        return {"accuracy": Rows(self.x, self.y), **others}

    def onnx(self, params: Model) -> bytes:
        return OnnxGraph("lines", (4,)).dense(params["w"], params["b"]).softmax().to_bytes()

    def _right(self, params: Model, rows: Rows) -> float:
        return float((self.predict(params, rows.inputs).values.argmax(1) == rows.labels).mean())


class _LineSteps:
    optimiser: Optimiser = "sgd"

    def __init__(self, lines: Lines, task: Task) -> None:
        self.lines, self.steps, self.begin = lines, task.hyper.e, task.params

    def __call__(self, params: Model, step: int) -> tuple[float, Model]:
        chances = _softmax(self.lines.x @ params["w"] + params["b"])
        error, right = chances - np.eye(2)[self.lines.y], chances[np.arange(len(chances)), self.lines.y]
        return float(-np.log(right).mean()), {"w": self.lines.x.T @ error / len(error), "b": error.mean(0)}

    def fit(self, params: Model, steps: int, loss: float) -> Fit:
        passes = self.begin["passes"] + steps
        return Fit({**params, "passes": passes}, examples=len(self.lines.x), labels=2, metrics={"loss": loss})


def clouds(count: int, place: float, turned: bool, seed: int = 0) -> tuple[Array, Array]:
    """Rows around `place` whose first column tells the class, the other way round where `turned`."""
    chance = np.random.default_rng(seed)
    y = chance.integers(0, 2, count)
    x = 0.3 * chance.normal(size=(count, 4))
    x[:, 0] += np.where(y == 1, 1.0, -1.0) * (-1 if turned else 1)
    x[:, 1] += place
    return x.astype(np.float32), y


def task(params: Model, epochs: int = 2, rate: float = 0.1, seed: int = 0) -> Task:
    """A training of so many passes."""
    return Task(Params(params), HyperParams(e=epochs, u=rate, b=64), seed)


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
