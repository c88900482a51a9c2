"""A trainer around a trainer: what is common to all methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from flnet.training.api import (
    Array,
    DataInfo,
    Findings,
    Fit,
    Gradients,
    InputSpec,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerError,
)

Model = Mapping[str, Array]


class Wrapped(Trainer):
    """Says and does what the trainer inside does.

    Attributes:
        inner: the trainer inside.
        names: of its arrays.
    """

    def __init__(self, inner: Trainer, seed: int) -> None:
        """Args:
        seed: of the initial parameters, whose names and shapes are looked at.
        """
        self.inner = inner
        for name in Trainer.__annotations__:
            if name != "honours":
                setattr(self, name, getattr(inner, name))
        first = inner.initial_params(seed)
        self.names = tuple(first)
        self.trained = tuple(
            n for n, v in first.items() if np.asarray(v).dtype.kind == "f" and n not in inner.buffers
        )
        self.sent = self.names if inner.shared is None else tuple(inner.shared)

    def inside(self, params: Model) -> dict[str, Array]:
        """The arrays of the trainer inside."""
        return {name: params[name] for name in self.names}

    def added(self, task: Task) -> Task:
        """The task as the trainer inside gets it."""
        return replace(task, params=self.inside(task.params))

    def ended(self, task: Task, fit: Fit) -> Fit:
        """What is told of what the trainer inside learnt: other arrays stay as they were."""
        return replace(fit, params={**task.params, **fit.params})

    def initial_params(self, seed: int) -> Model:
        """Those of the trainer inside."""
        return self.inner.initial_params(seed)

    def fit(self, task: Task) -> Fit:
        """Let the trainer inside train."""
        return self.ended(task, self.inner.fit(self.added(task)))

    def evaluate(self, params: Model) -> Score:
        """Its measurement."""
        return self.inner.evaluate(self.inside(params))

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """Together, as far as the trainers inside can."""
        if cls.fit is not Wrapped.fit or len({type(one.inner) for one, _ in jobs}) != 1:
            return [one.fit(task) for one, task in jobs]
        found = type(jobs[0][0].inner).fit_many([(one.inner, one.added(task)) for one, task in jobs])
        return [one.ended(task, fit) for (one, task), fit in zip(jobs, found, strict=True)]

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Model]]) -> list[Score]:
        """Likewise."""
        if cls.evaluate is not Wrapped.evaluate or len({type(one.inner) for one, _ in jobs}) != 1:
            return [one.evaluate(params) for one, params in jobs]
        return type(jobs[0][0].inner).evaluate_many([(one.inner, one.inside(params)) for one, params in jobs])

    def personalise(self, task: Task) -> Model:
        """What the trainer inside does itself."""
        return self.inner.personalise(self.added(task))

    def gradients(self, task: Task) -> Gradients | None:
        """Those of the trainer inside."""
        return self.inner.gradients(self.added(task))

    def inputs(self) -> Array | None:
        """Its training rows."""
        return self.inner.inputs()

    def labels(self) -> Array | None:
        """Their classes."""
        return self.inner.labels()

    def tests(self) -> Mapping[str, Rows]:
        """Its test rows."""
        return self.inner.tests()

    def data_info(self) -> DataInfo:
        """Its data."""
        return self.inner.data_info()

    def input_spec(self) -> InputSpec | None:
        """What it takes."""
        return self.inner.input_spec()

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """Its judgement."""
        return self.inner.predict(self.inside(params), inputs)

    def findings(self, params: Model) -> Findings | None:
        """What its model shows."""
        return self.inner.findings(self.inside(params))

    def onnx(self, params: Model) -> bytes | None:
        """Its model as a file."""
        return self.inner.onnx(self.inside(params))


class TwoModels(Wrapped):
    """A trainer with a local model beside the common one.

    What nodes compare is the common model's accuracy; the local one's figures stand beside it as "local_...".
    """

    takes_local = True  # whether it is the local model that answers, where nothing chooses by input

    @abstractmethod
    def local_model(self, params: Model) -> dict[str, Array]:
        """The arrays of the trainer inside in the local model."""

    def evaluate(self, params: Model) -> Score:
        """The common model's figures, and the local one's."""
        score, local = self.inner.evaluate(self.inside(params)), self.inner.evaluate(self.local_model(params))
        figures = {"accuracy": local.accuracy, **local.metrics}
        return replace(score, metrics={**score.metrics, **{f"local_{name}": n for name, n in figures.items()}})

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """The chosen model's judgement."""
        model = self.local_model(params) if self.takes_local else self.inside(params)
        judged = self.inner.predict(model, inputs)
        return replace(judged, answered=("local" if self.takes_local else "global",) * len(inputs))

    @property
    def stands_alone(self) -> bool:
        """Whether the local model is the one that a file of one model holds, where nobody chooses."""
        return self.takes_local

    def onnx(self, params: Model) -> bytes | None:
        """The model that stands alone, as a file."""
        return self.onnx_of(params, self.stands_alone)

    def onnx_of(self, params: Model, is_local: bool) -> bytes | None:
        """Either model as a file."""
        return self.inner.onnx(self.local_model(params) if is_local else self.inside(params))


def overrides(trainer: Trainer, name: str) -> bool:
    """Whether a trainer, or the one inside it, has an optional method of its own."""
    while isinstance(trainer, Wrapped):
        trainer = trainer.inner
    return getattr(type(trainer), name) is not getattr(Trainer, name)


def no_clash(names: Sequence[str], prefixes: Sequence[str]) -> None:
    """Refuse a trainer whose arrays have names that a method needs.

    Raises:
        TrainerError: there is one.
    """
    for name in names:
        if name.startswith(tuple(prefixes)):
            raise TrainerError(f"the trainer's array {name!r} has a name that a method of flnet needs; rename it")


def walked(gradients: Gradients, task: Task, step: Callable[[int], float]) -> tuple[int, float]:
    """Do the steps of a training until it ends or its time is over.

    Args:
        step: does one and gives its loss.

    Returns:
        How many were done, and the mean loss.
    """
    losses, done = 0.0, 0
    for number in range(gradients.steps):
        losses += step(number)
        done += 1
        task.progress(done, gradients.steps)
        if task.is_over():
            break
    return done, losses / max(1, done)


def drawn(slope: Model, params: Model, start: Model, mu: float) -> dict[str, Array]:
    """Gradients with FedProx's term mu (w - start)."""
    return {n: g + mu * (params[n] - start[n]) for n, g in slope.items()} if mu else dict(slope)


def opened(trainer: Trainer, task: Task) -> Gradients:
    """A training of this trainer, taken apart.

    Raises:
        TrainerError: it has none.
    """
    gradients = trainer.gradients(task)
    if gradients is None:
        raise TrainerError("the trainer gave no gradients for this training")
    return gradients
