"""Is it a 3 or a 7? One weight per pixel and a sigmoid: the linear model of the thesis, in plain numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from flnet.algorithms.row_privacy import hidden_mean
from flnet.compute.export import OnnxGraph
from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import class_counts
from flnet.security.noise import system_noise
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    InputSpec,
    NoisySteps,
    Optimiser,
    Prediction,
    RowPrivacy,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

from ._batches import Batches, Drawn, shuffled
from ._digits import DIGIT, SIDE, Digits, load_digits
from ._options import Fits, read_lines

DATA_PLACE = "mnist"  # below FLNET_DATASETS_PATH
OPTIONS_FILE = "mnist_3_7.toml"


def _is_deviation(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 10


_RULES: dict[str, tuple[str, Fits]] = {"start": (text("a number from 0 to 10"), _is_deviation)}


class ThreeOrSeven(Trainer):
    """Logistic regression; the output is the probability of a 7."""

    label = "MNIST 3 vs 7 Dataset"
    predicts = "one_of"
    # e and b are the thesis' own. Its u of 1e-5 hardly moves the weights: after ten rounds on a quarter of
    # MNIST the loss is 0.68, where it began at 0.69; with 0.1 it is 0.05.
    defaults = HyperParams(e=2, u=0.1, b=64)
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "row-privacy"})

    def __init__(self, digits: Digits, start: float = 0.0) -> None:
        self._start = start
        self._train, self._validation, self._test = digits.train, digits.validation, digits.test
        self._info = digits.info

    def data_info(self) -> DataInfo:
        """The threes and sevens of MNIST, or of the bundled digits."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Zeros: the loss is convex, so that where it begins changes nothing at a rate at which it learns.

        At the thesis' rate it decides: `start` in `mnist_3_7.toml` is the standard deviation of drawn weights.
        """
        weights = np.zeros((SIDE * SIDE, 1), np.float32)
        if self._start:  # a product with 0 would have zeros of both signs, and another digest
            chance = np.random.default_rng(seed)
            weights = chance.standard_normal(weights.shape, np.float32) * np.float32(self._start)
        return {"weights": weights, "bias": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        """`e` passes of gradient descent, each in a new order."""
        if task.row_privacy is not None:
            return self._hidden(task, task.row_privacy)
        weights, bias = task.params["weights"].copy(), task.params["bias"].copy()
        batches, losses = shuffled(len(self._train), task), 0.0
        rate, drawn = np.float32(task.hyper.u), np.float32(task.hyper.u * task.proximal)
        for done, batch in enumerate(batches, start=1):
            loss, slopes, mean = _slopes(self._train, batch, weights, bias)
            losses += loss
            if drawn:
                weights -= drawn * (weights - task.params["weights"])
                bias -= drawn * (bias - task.params["bias"])
            weights -= rate * slopes / np.float32(len(batch))
            bias -= rate * mean
            task.progress(done, len(batches))
            if task.is_over():
                break
        return self._fit({"weights": weights, "bias": bias}, task, done, losses / done)

    def _hidden(self, task: Task, privacy: RowPrivacy) -> Fit:
        """As many steps, in which single rows are hidden."""
        params = {name: value.copy() for name, value in task.params.items()}
        batches, losses, seen = Drawn[Array](np.arange(len(self._train)), task), 0.0, 0
        for done, batch in enumerate(batches, start=1):
            x, score, error, y = _errors(self._train, batch, params["weights"], params["bias"])
            rows = {"weights": (x * error)[:, :, None], "bias": error}
            for name, slope in hidden_mean(rows, privacy, batches.expected, system_noise).items():
                pull = task.proximal * (params[name] - task.params[name])
                params[name] -= np.float32(task.hyper.u) * (slope + pull).astype(np.float32)
            losses, seen = losses + float(_losses(score, y).sum()), seen + len(batch)
            task.progress(done, len(batches))
            if task.is_over():
                break
        return replace(self._fit(params, task, done, losses / max(1, seen)), noisy=NoisySteps(batches.rate, done))

    def gradients(self, task: Task) -> _Steps:
        """The same, batch by batch."""
        return _Steps(self, task, shuffled(len(self._train), task))

    def inputs(self) -> Array:
        """The training digits."""
        return self._train.x

    def tests(self) -> Mapping[str, Rows]:
        """The test digits."""
        return {"accuracy": Rows(self._test.x, (self._test.y == 1).astype(np.int64))}

    def _fit(self, params: Mapping[str, Array], task: Task, steps: int, loss: float) -> Fit:
        metrics = {"loss": loss, "validation_accuracy": _accuracy(params, self._validation)}
        return Fit(params, examples=min(len(self._train), steps * task.hyper.b), labels=2, metrics=metrics)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test digits told apart rightly."""
        return _counted(params, self._test)

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Share of validation digits told apart rightly."""
        return _counted(params, self._validation) if len(self._validation) else None

    def input_spec(self) -> InputSpec:
        """One digit."""
        return DIGIT

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of a 3 and of a 7."""
        seven = _sigmoid(_pixels(inputs) @ params["weights"] + params["bias"])
        return Prediction(np.hstack([1 - seven, seven]))

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """A dense layer and a softmax over (0, score), which is the sigmoid and its opposite."""
        weights = np.hstack([np.zeros_like(params["weights"]), params["weights"]])
        bias = np.concatenate([np.zeros_like(params["bias"]), params["bias"]])
        graph = OnnxGraph("MNIST_3_7", DIGIT.shape).scale(0, 255).flatten()
        return graph.dense(weights, bias, name="output").softmax().to_bytes()


class _Steps:
    """One training, batch by batch."""

    optimiser: Optimiser = "sgd"

    def __init__(self, trainer: ThreeOrSeven, task: Task, batches: Batches[Array]) -> None:
        self._trainer, self._task, self._batches = trainer, task, batches
        self.steps = len(batches)

    def __call__(self, params: Mapping[str, Array], step: int) -> tuple[float, Mapping[str, Array]]:
        batch = self._batches[step]
        loss, slopes, mean = _slopes(self._trainer._train, batch, params["weights"], params["bias"])
        return loss, {"weights": slopes / np.float32(len(batch)), "bias": np.full(1, mean)}

    def fit(self, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        return self._trainer._fit(params, self._task, steps, loss)


def _slopes(data: Labelled, batch: Array, weights: Array, bias: Array) -> tuple[float, Array, np.float32]:
    """Mean loss on a batch, and its slopes: by the weights summed over the rows, by the bias their mean."""
    x, score, error, y = _errors(data, batch, weights, bias)
    return float(np.mean(_losses(score, y))), x.T @ error, error.mean(dtype=np.float32)


def _errors(data: Labelled, batch: Array, weights: Array, bias: Array) -> tuple[Array, Array, Array, Array]:
    """Pixels (n, 784), and (n, 1) each: scores, the slope of the loss by them, labels."""
    x, y = _pixels(data.x[batch]), data.y[batch, None].astype(np.float32)
    score = x @ weights + bias
    return x, score, _sigmoid(score) - y, y


def _losses(score: Array, y: Array) -> Array:
    """What each row costs, (n, 1)."""
    return np.asarray(np.logaddexp(0, score) - y * score)


def _pixels(images: Array) -> Array:
    """Bytes (n, 28, 28) as rows of numbers in [0, 1], (n, 784)."""
    return images.reshape(-1, SIDE * SIDE).astype(np.float32) / np.float32(255)


def _sigmoid(score: Array) -> Array:
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * score) + np.float32(1))  # cannot overflow


def _counted(params: Mapping[str, Array], data: Labelled) -> Score:
    """Accuracy and counts on these digits."""
    scores = (_pixels(data.x) @ params["weights"] + params["bias"])[:, 0]
    seven = _sigmoid(scores)
    chances = np.stack([1 - seven, seven], axis=1)
    counts = class_counts((data.y == 1).astype(np.int64), (scores > 0).astype(np.int64), ("3", "7"), chances)
    return Score(counts.right / counts.examples, counts.examples, counts=counts)


def _accuracy(params: Mapping[str, Array], data: Labelled) -> float:
    seven = (_pixels(data.x) @ params["weights"] + params["bias"])[:, 0] > 0
    return float((seven == (data.y == 1)).mean())


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's threes and sevens, and the linear model for them."""
    folder = settings.datasets_path
    options = {} if folder is None else read_lines(folder / OPTIONS_FILE, _RULES)
    return ThreeOrSeven(load_digits(settings, keep=(3, 7)), float(options.get("start", 0.0)))
