"""Softmax regression on made-up points: a trainer that needs a millisecond, for tests of experiments."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import class_counts
from flnet.datasets.split import own_rows
from flnet.trainer import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerError,
    TrainerSettings,
)

ROWS, CLASSES, COLUMNS = 400, 4, 6


class Tiny(Trainer):
    """Points around four centres; the last one in five of a node's rows is for testing."""

    label = "Tiny"
    defaults = HyperParams(e=1, u=0.5, b=16)
    exchange_threshold = 0.0
    at_once: ClassVar[list[int]] = []  # how many were trained by each call of fit_many

    def __init__(self, settings: TrainerSettings) -> None:
        chance = np.random.default_rng(settings.seed)
        centres = chance.normal(size=(CLASSES, COLUMNS)) * 2
        y = np.arange(ROWS) % CLASSES
        x = (centres[y] + chance.normal(size=(ROWS, COLUMNS))).astype(np.float32)
        mine = own_rows(y, settings)
        test = np.arange(len(mine)) % 5 == 4
        self.x, self.y = x[mine[~test]], y[mine[~test]]
        self.test_x, self.test_y = x[mine[test]], y[mine[test]]
        self.place = str(settings.datasets_path)
        self.part, self.seed = settings.shard, settings.seed

    def data_info(self) -> DataInfo:
        """Made up."""
        sides = {"train": self.y, "test": self.test_y}
        counts = {side: np.bincount(y, minlength=CLASSES).tolist() for side, y in sides.items()}
        return DataInfo(self.place, {side: len(y) for side, y in sides.items()}, tuple("abcd"), counts=counts)

    def change_rows(
        self, change: Callable[[Labelled], Labelled], side: Literal["train", "test"] = "train"
    ) -> None:
        """Go on with what becomes of the own training or test rows."""
        if side == "test":
            rows = change(Labelled(self.test_x, self.test_y))
            self.test_x, self.test_y = rows.x, rows.y
        else:
            rows = change(Labelled(self.x, self.y))
            self.x, self.y = rows.x, rows.y

    def tests(self) -> Mapping[str, Rows]:
        """The own test rows."""
        return {"accuracy": Rows(self.test_x, self.test_y)}

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Scores of the four classes."""
        return Prediction(_softmax(inputs @ params["w"] + params["b"]))

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Zeros but for the biases."""
        biases = np.random.default_rng(seed).normal(size=CLASSES).astype(np.float32)
        return {"w": np.zeros((COLUMNS, CLASSES), np.float32), "b": biases}

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Tiny, Task]]) -> list[Fit]:
        """One by one, and count them."""
        if os.environ.get("TINY_FAILS") == "at once" and len(jobs) > 1:
            raise RuntimeError("too many at once")
        cls.at_once.append(len(jobs))
        return [trainer.fit(task) for trainer, task in jobs]

    def fit(self, task: Task) -> Fit:
        """Gradient descent."""
        if os.environ.get("TINY_FAILS") == "2" and self.part[0] == 2:
            raise TrainerError("the second node cannot train")
        while self.seed == 1 and Path(os.environ.get("TINY_HOLDS", "no such file")).exists():
            time.sleep(0.01)
        w, b = task.params["w"].copy(), task.params["b"].copy()
        chance = np.random.default_rng(task.seed)
        for _ in range(task.hyper.e):
            order = chance.permutation(len(self.y))
            for rows in np.array_split(order, max(1, len(order) // task.hyper.b)):
                error = _softmax(self.x[rows] @ w + b)
                error[np.arange(len(rows)), self.y[rows]] -= 1
                w -= np.float32(task.hyper.u / len(rows)) * (self.x[rows].T @ error)
                b -= np.float32(task.hyper.u) * error.mean(axis=0)
        return Fit({"w": w, "b": b}, len(self.y), metrics={"loss": 0.5})

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Accuracy on the own test rows."""
        guess = (self.test_x @ params["w"] + params["b"]).argmax(axis=1)
        counts, figures = class_counts(self.test_y, guess, tuple("abcd")), {"rows": float(len(guess))}
        return Score(float((guess == self.test_y).mean()), len(guess), figures, counts=counts)


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Array = powers / powers.sum(axis=1, keepdims=True)
    return result


def make_trainer(settings: TrainerSettings) -> Trainer:
    """The trainer; of a seed above 900 there are no data."""
    if settings.seed > 900:
        raise TrainerError("there are no points")
    return Tiny(settings)
