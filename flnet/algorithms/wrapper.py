"""Base classes of methods of local training: a trainer around a trainer, with one model or two, and its gradient steps."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from flnet.text import text
from flnet.trainer import (
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
_BUFFERS = {"running_mean", "running_var", "num_batches_tracked", "moving_mean", "moving_variance"}


class Wrapped(Trainer):
    """A trainer that delegates to an inner trainer; methods override parts of it.

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
        """The result with the inner trainer's arrays; all others keep their values."""
        return replace(fit, params={**task.params, **fit.params})

    def initial_params(self, seed: int) -> Model:
        """The inner trainer's result."""
        return self.inner.initial_params(seed)

    def fit(self, task: Task) -> Fit:
        """Train the inner trainer."""
        return self.ended(task, self.inner.fit(self.added(task)))

    def measured(self, params: Model, score: Score) -> Score:
        """The score that the inner trainer measured, as this one tells it."""
        return score

    def evaluate(self, params: Model) -> Score:
        """Evaluate the inner trainer."""
        return self.measured(params, self.inner.evaluate(self.inside(params)))

    def validation_score(self, params: Model) -> Score | None:
        """The inner trainer's score, of the common model alone where there are two."""
        return self.inner.validation_score(self.inside(params))

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """Train several at once, if the inner trainers can."""
        if cls.fit is not Wrapped.fit or len({type(wrapped.inner) for wrapped, _ in jobs}) != 1:
            return [wrapped.fit(task) for wrapped, task in jobs]
        fits = type(jobs[0][0].inner).fit_many([(wrapped.inner, wrapped.added(task)) for wrapped, task in jobs])
        return [wrapped.ended(task, fit) for (wrapped, task), fit in zip(jobs, fits, strict=True)]

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Model]]) -> list[Score]:
        """Evaluate several at once, if the inner trainers can."""
        if cls.evaluate is not Wrapped.evaluate or len({type(wrapped.inner) for wrapped, _ in jobs}) != 1:
            return [wrapped.evaluate(params) for wrapped, params in jobs]
        scores = type(jobs[0][0].inner).evaluate_many(
            [(wrapped.inner, wrapped.inside(params)) for wrapped, params in jobs]
        )
        return [wrapped.measured(params, score) for (wrapped, params), score in zip(jobs, scores, strict=True)]

    def personalise(self, task: Task) -> Model:
        """The inner trainer's private arrays."""
        return self.inner.personalise(self.added(task))

    def gradients(self, task: Task) -> Gradients | None:
        """The inner trainer's result."""
        return self.inner.gradients(self.added(task))

    def inputs(self) -> Array | None:
        """Training rows of the inner trainer."""
        return self.inner.inputs()

    def labels(self) -> Array | None:
        """Classes of the training rows."""
        return self.inner.labels()

    def tests(self) -> Mapping[str, Rows]:
        """Test rows of the inner trainer."""
        return self.inner.tests()

    def validation_rows(self) -> Rows | None:
        """Validation rows of the inner trainer."""
        return self.inner.validation_rows()

    def data_info(self) -> DataInfo:
        """The inner trainer's description of its data."""
        return self.inner.data_info()

    def input_spec(self) -> InputSpec | None:
        """The input that the inner trainer takes."""
        return self.inner.input_spec()

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """The inner trainer's prediction."""
        return self.inner.predict(self.inside(params), inputs)

    def findings(self, params: Model) -> Findings | None:
        """The inner trainer's findings."""
        return self.inner.findings(self.inside(params))

    def onnx(self, params: Model) -> bytes | None:
        """The inner trainer's model as an ONNX file."""
        return self.inner.onnx(self.inside(params))


class TwoModels(Wrapped):
    """A trainer with a local model next to the common one.

    What nodes compare is the common model's accuracy; the local one's figures are added as "local_...".
    """

    takes_local = True  # whether it is the local model that answers, where nothing chooses by input

    @abstractmethod
    def local_model(self, params: Model) -> dict[str, Array]:
        """The arrays of the trainer inside in the local model."""

    def evaluate(self, params: Model) -> Score:
        """The metrics of the common model and of the local one."""
        score, local = self.inner.evaluate(self.inside(params)), self.inner.evaluate(self.local_model(params))
        figures = {"accuracy": local.accuracy, **local.metrics}
        return replace(score, metrics={**score.metrics, **{f"local_{name}": n for name, n in figures.items()}})

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """The prediction of the chosen model."""
        model = self.local_model(params) if self.takes_local else self.inside(params)
        predictions = self.inner.predict(model, inputs)
        return replace(predictions, answered=("local" if self.takes_local else "global",) * len(inputs))

    @property
    def stands_alone(self) -> bool:
        """Whether the local model is the one that a file of one model holds, where nobody chooses."""
        return self.takes_local

    def onnx(self, params: Model) -> bytes | None:
        """The model that answers alone, as an ONNX file."""
        return self.onnx_of(params, self.stands_alone)

    def onnx_of(self, params: Model, is_local: bool) -> bytes | None:
        """One of the two models as an ONNX file."""
        return self.inner.onnx(self.local_model(params) if is_local else self.inside(params))


def overrides(trainer: Trainer, name: str) -> bool:
    """Whether a trainer, or the one inside it, has an optional method of its own."""
    while isinstance(trainer, Wrapped):
        trainer = trainer.inner
    return getattr(type(trainer), name) is not getattr(Trainer, name)


def usual_buffers(names: Iterable[str]) -> tuple[str, ...]:
    """Of these arrays, those that PyTorch and Keras name as statistics of a batch normalisation."""
    return tuple(name for name in names if re.split("[./]", name)[-1] in _BUFFERS)


def no_clash(names: Sequence[str], prefixes: Sequence[str]) -> None:
    """Refuse a trainer whose arrays have names that a method needs.

    Raises:
        TrainerError: there is one.
    """
    for name in names:
        if name.startswith(tuple(prefixes)):
            raise TrainerError(
                text("the trainer's array {name} has a name that a method of flnet needs; rename it", repr(name))
            )


def walked(gradients: Gradients, task: Task, step: Callable[[int], float]) -> tuple[int, float]:
    """Run the steps of a training until it ends or its time is up.

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
    """Start a training of this trainer that is driven by gradients.

    Raises:
        TrainerError: it has none.
    """
    gradients = trainer.gradients(task)
    if gradients is None:
        raise TrainerError(text("the trainer gave no gradients for this training"))
    return gradients


MOMENTUM = 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-7


class Descent:
    """Plain descent, descent with momentum, or Adam (Kingma, Ba 2015); one object for one training."""

    def __init__(self, optimiser: str, rate: float) -> None:
        """Args:
        optimiser: "sgd", "momentum" (0.9) or "adam".
        rate: of learning.
        """
        self._optimiser, self._rate, self._steps = optimiser, rate, 0
        self._first: dict[str, Array] = {}
        self._second: dict[str, Array] = {}

    def step(self, params: Mapping[str, Array], gradients: Mapping[str, Array]) -> None:
        """One step, in place; arrays without a gradient stay as they are."""
        self._steps += 1
        for name, gradient in gradients.items():
            param = params[name]
            param -= self._change(name, gradient).astype(param.dtype, copy=False)

    def _change(self, name: str, gradient: Array) -> Array:
        if self._optimiser == "sgd":
            return np.asarray(gradient * self._rate)
        if self._optimiser == "momentum":
            speed = self._kept(self._first, name, gradient)
            speed *= MOMENTUM
            speed += gradient
            return np.asarray(speed * self._rate)
        mean, square = self._kept(self._first, name, gradient), self._kept(self._second, name, gradient)
        mean += (1 - BETAS[0]) * (gradient - mean)
        square += (1 - BETAS[1]) * (gradient * gradient - square)
        first, second = (1 - beta**self._steps for beta in BETAS)
        return np.asarray(self._rate / first * mean / (np.sqrt(square / second) + EPSILON))

    def _kept(self, moments: dict[str, Array], name: str, gradient: Array) -> Array:
        if name not in moments:
            moments[name] = np.zeros_like(gradient)
        return moments[name]
