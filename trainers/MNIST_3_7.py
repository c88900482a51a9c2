"""Is it a 3 or a 7? One weight per pixel and a sigmoid: the linear model of the thesis, in plain numpy."""

from __future__ import annotations

from collections.abc import Mapping

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
from flnet.training.data import Labelled
from flnet.training.onnx_graph import OnnxGraph

from ._digits import DIGIT, SIDE, Digits, load_digits

DATA_PLACE = "mnist"  # below FLNET_DATASETS_PATH


class ThreeOrSeven(Trainer):
    """Logistic regression; the output is the probability of a 7."""

    label = "MNIST 3 vs 7 Dataset"
    # e and b are the thesis' own. Its u of 1e-5 hardly moves the weights: after ten rounds on a quarter of
    # MNIST the loss is 0.68, where it began at 0.69; with 0.1 it is 0.05.
    defaults = HyperParams(e=2, u=0.1, b=64)
    exchange_threshold = 0.02

    def __init__(self, digits: Digits) -> None:
        self._train, self._validation, self._test = digits.train, digits.validation, digits.test
        self._info = digits.info

    def data_info(self) -> DataInfo:
        """The threes and sevens of MNIST, or of the bundled digits."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Zeros: the loss is convex, so that chance would change nothing."""
        return {"weights": np.zeros((SIDE * SIDE, 1), np.float32), "bias": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        """`e` passes of gradient descent, each in a new order."""
        weights, bias = task.params["weights"].copy(), task.params["bias"].copy()
        chance = np.random.default_rng(task.seed)
        rows, size = len(self._train), task.hyper.b
        orders = [chance.permutation(rows) for _ in range(task.hyper.e)]
        batches = [order[start : start + size] for order in orders for start in range(0, rows, size)]
        rate, losses = np.float32(task.hyper.u), []
        for done, batch in enumerate(batches, start=1):
            x, y = _pixels(self._train.x[batch]), self._train.y[batch, None].astype(np.float32)
            score = x @ weights + bias
            losses.append(float(np.mean(np.logaddexp(0, score) - y * score)))
            error = _sigmoid(score) - y
            weights -= rate * (x.T @ error) / np.float32(len(x))
            bias -= rate * error.mean(dtype=np.float32)
            task.progress(done, len(batches))
            if task.is_over():
                break
        params = {"weights": weights, "bias": bias}
        metrics = {"loss": float(np.mean(losses)), "validation_accuracy": _accuracy(params, self._validation)}
        return Fit(params, examples=min(rows, done * size), labels=2, metrics=metrics)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test digits told apart rightly."""
        return Score(_accuracy(params, self._test), len(self._test))

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
        return graph.dense(weights, bias).softmax().to_bytes()


def _pixels(images: Array) -> Array:
    """Bytes (n, 28, 28) as rows of numbers in [0, 1], (n, 784)."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _sigmoid(score: Array) -> Array:
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * score) + np.float32(1))  # cannot overflow


def _accuracy(params: Mapping[str, Array], data: Labelled) -> float:
    seven = (_pixels(data.x) @ params["weights"] + params["bias"])[:, 0] > 0
    return float((seven == (data.y == 1)).mean())


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's threes and sevens, and the linear model for them."""
    return ThreeOrSeven(load_digits(settings, keep=(3, 7)))
