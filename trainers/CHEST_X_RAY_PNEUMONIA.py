"""Has this child pneumonia? X-rays of the chest with a convolutional network in Keras: 177,874 parameters.

Four blocks of convolution, max-pooling, batch normalisation and ReLU, then a dense layer of 64 with dropout.
There are three times as many X-rays with pneumonia as without: in the loss, both kinds weigh the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import class_counts, softmax
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    EvaluationCounts,
    Fit,
    Gradients,
    HyperParams,
    InputSpec,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

from ._chest import CLASSES, SIDE, XRays, load_xrays
from ._keras import (
    Network,
    Trained,
    bound_threads,
    convolution,
    dense,
    layers,
    mirrored,
    shifted,
    use_device,
)
from ._keras_steps import Steps

DATA_PLACE = "chest_xray"  # below FLNET_DATASETS_PATH
DATA_READER = "_chest:load_xrays"  # which needs no framework
LABEL = "Chest X-Ray Pneumonia Dataset"
SHIFT = 4  # pixels


class ChestXRay(Trainer):
    """The network with one node's X-rays.

    What the exchange compares is the plain accuracy, as in the thesis: it is the one figure that a node whose
    patients are all of one kind has too, and it varies less by chance on a test split with 50 healthy children.
    That a model calls everyone ill shows in balanced_accuracy, 0.5, which is reported too.
    """

    label = LABEL
    predicts = "one_of"
    note = text("a research model, no diagnosis")
    defaults = HyperParams(e=2, u=0.01, b=32)
    limits = MappingProxyType({"learning_rate": 0.05})  # accuracy holds up to there
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal"})

    def __init__(self, data: XRays, threads: int = 1) -> None:
        bound_threads(threads)
        self._data = data
        self._network = Network((SIDE, SIDE, 1), len(CLASSES), _stack())
        self.buffers = self._network.buffers

    def data_info(self) -> DataInfo:
        """Where the X-rays are from, and which could not be read."""
        return self._data.info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Small uniform weights, by layer and name."""
        return self._network.fresh(seed)

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order."""
        train = self._data.train
        return self._told(self._network.train(task, train, class_weights(train.y), _augmented))

    def gradients(self, task: Task) -> Gradients:
        """The same training, taken apart."""
        train = self._data.train
        return Steps(self._network, task, train, class_weights(train.y), _augmented, self._told)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test X-rays judged rightly; all three figures also for the published test part."""
        own, counts = self._figures(params, self._data.test), self._counts(params, self._data.test)
        official = self._figures(params, self._data.official)
        metrics = own | {f"official_{name}": value for name, value in official.items()}
        return Score(own["accuracy"], counts.examples, metrics, counts=counts)

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Share of validation X-rays judged rightly."""
        if not len(self._data.validation):
            return None
        counts = self._counts(params, self._data.validation)
        return Score(counts.right / counts.examples, counts.examples, counts=counts)

    def inputs(self) -> Array:
        """The training X-rays."""
        return self._data.train.x

    def tests(self) -> Mapping[str, Rows]:
        """The test X-rays, and the published ones."""
        own, official = self._data.test, self._data.official
        return {"accuracy": Rows(own.x, own.y), "official_accuracy": Rows(official.x, official.y)}

    def input_spec(self) -> InputSpec:
        """One X-ray."""
        return InputSpec(
            "image",
            (SIDE, SIDE, 1),
            0,
            255,
            hint=text("an X-ray of a child's chest from the front, squeezed to 64x64"),
        )

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the classes."""
        return self._network.predict(params, inputs)

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers."""
        return self._network.onnx(params, "CHEST_X_RAY_PNEUMONIA")

    def _told(self, trained: Trained) -> Fit:
        figures = self._figures(trained.params, self._data.validation)
        metrics = {"loss": trained.loss} | {f"validation_{name}": value for name, value in figures.items()}
        return Fit(trained.params, trained.examples, len(CLASSES), metrics)

    def _counts(self, params: Mapping[str, Array], data: Labelled) -> EvaluationCounts:
        scores = self._network.scores(params, data.x)
        guess = (scores[:, 1] - scores[:, 0] > 0).astype(np.int64)
        return class_counts(data.y, guess, CLASSES, softmax(scores))

    def _figures(self, params: Mapping[str, Array], data: Labelled) -> dict[str, float]:
        scores = self._network.scores(params, data.x)
        return figures(scores[:, 1] - scores[:, 0], data.y == 1)


def class_weights(labels: Array) -> Array:
    """What a row of each class counts, so that classes count the same and rows count 1 in the mean."""
    counts = np.bincount(labels, minlength=len(CLASSES))
    return len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1)).astype(np.float64)


def figures(margin: Array, ill: Array) -> dict[str, float]:
    """Accuracy and, where both kinds occur, balanced accuracy and the area under the ROC curve.

    Args:
        margin: (n,), above 0 where the model says ill.
        ill: (n,), whether it is so.
    """
    right = (margin > 0) == ill
    metrics = {"accuracy": float(right.mean())}
    if 0 < ill.sum() < len(ill):
        metrics["balanced_accuracy"] = float((right[ill].mean() + right[~ill].mean()) / 2)
        metrics["auc"] = _auc(margin, ill)
    return metrics


def _auc(margin: Array, ill: Array) -> float:
    """How often a random ill one has the larger margin than a random healthy one; a tie is half a win."""
    _, order, counts = np.unique(margin, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[order]
    positive, negative = int(ill.sum()), int((~ill).sum())
    return float((ranks[ill].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _stack() -> list[object]:
    return [
        layers.Rescaling(1 / 64, -2, name="scale"),
        *convolution("conv1", 16),
        *convolution("conv2", 32),
        *convolution("conv3", 64),
        *convolution("conv4", 96, dropout=0.3),
        layers.Flatten(name="flat"),
        *dense("dense", 64, dropout=0.3),
        layers.Dense(len(CLASSES), name="output"),
    ]


def _augmented(images: Array, chance: np.random.Generator) -> Array:
    return shifted(mirrored(images, chance), chance, SHIFT)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's X-rays and the network for them."""
    use_device(settings.device)
    return ChestXRay(load_xrays(settings), settings.threads)
