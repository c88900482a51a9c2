"""Several trainings given to a trainer at once: without a word of its own it does them one by one, in order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.messages import HyperParams
from flnet.training.api import Array, Fit, Score, Task, Trainer


class Adder(Trainer):
    """Adds its own number as often as it is told to train."""

    def __init__(self, number: float) -> None:
        self.number = number

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit({"w": task.params["w"] + np.float32(self.number * task.hyper.e)}, examples=task.seed)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(float(params["w"][0] == self.number), examples=1)


def test_many_trainings_give_what_each_gives_by_itself() -> None:
    start = {"w": np.array([1.0], np.float32)}
    jobs = [(Adder(n), Task(start, HyperParams(e=e, u=1, b=1), seed=n)) for n, e in ((1, 1), (2, 3))]
    fits = Adder.fit_many(jobs)
    assert [(float(fit.params["w"][0]), fit.examples) for fit in fits] == [(2.0, 1), (7.0, 2)]
    assert Adder.fit_many([]) == []


def test_many_models_are_measured_each_by_its_own_trainer() -> None:
    models = [{"w": np.array([value], np.float32)} for value in (1.0, 1.0)]
    scores = Adder.evaluate_many([(Adder(1), models[0]), (Adder(2), models[1])])
    assert [score.accuracy for score in scores] == [1.0, 0.0]
