"""Photographs of ten kinds of things with a convolutional network in Keras: 251,570 parameters.

Three blocks of convolution, max-pooling, batch normalisation, ReLU and dropout, then a dense layer of 128 with
dropout and one output per class. Half the images of a batch are mirrored, all are moved by up to three pixels.
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

from ._cifar import SHAPE, Photographs, load_photographs
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

DATA_PLACE = "cifar10"  # below FLNET_DATASETS_PATH
DATA_READER = "_cifar:load_photographs"  # which needs no framework
LABEL = "CIFAR-10 Dataset"
SHIFT = 3  # pixels
MEAN, SPREAD = 120.7, 64.2  # of CIFAR-10's pixels, all colours together


class Cifar10(Trainer):
    """The network with one node's photographs."""

    label = LABEL
    predicts = "one_of"
    defaults = HyperParams(e=1, u=0.02, b=32)
    limits = MappingProxyType({"learning_rate": 0.06})  # accuracy holds up to there
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal"})

    def __init__(self, data: Photographs, threads: int = 1) -> None:
        bound_threads(threads)
        self._data = data
        self._network = Network(SHAPE, len(data.info.classes), _stack(len(data.info.classes)))
        self.buffers = self._network.buffers

    def data_info(self) -> DataInfo:
        """Which form of CIFAR-10 was found."""
        return self._data.info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Small uniform weights, by layer and name."""
        return self._network.fresh(seed)

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order."""
        return self._told(self._network.train(task, self._data.train, self._weights(), _augmented))

    def gradients(self, task: Task) -> Gradients:
        """The same training, taken apart."""
        return Steps(self._network, task, self._data.train, self._weights(), _augmented, self._told)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test photographs named rightly."""
        return self._score(params, self._data.test)

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Share of validation photographs named rightly."""
        return self._score(params, self._data.validation) if len(self._data.validation) else None

    def inputs(self) -> Array:
        """The training photographs."""
        return self._data.train.x

    def tests(self) -> Mapping[str, Rows]:
        """The test photographs."""
        return {"accuracy": Rows(self._data.test.x, self._data.test.y)}

    def input_spec(self) -> InputSpec:
        """One photograph."""
        return InputSpec(
            "image", SHAPE, 0, 255, hint=text("a photograph of one thing; it is squeezed to 32x32 pixels")
        )

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the classes."""
        return self._network.predict(params, inputs)

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers."""
        return self._network.onnx(params, "CIFAR10")

    def _weights(self) -> Array:
        return np.ones(len(self._data.info.classes))

    def _told(self, trained: Trained) -> Fit:
        accuracy = self._accuracy(trained.params, self._data.validation)
        metrics = {"loss": trained.loss, "validation_accuracy": accuracy}
        return Fit(trained.params, trained.examples, len(self._data.info.classes), metrics)

    def _score(self, params: Mapping[str, Array], data: Labelled) -> Score:
        scores = self._network.scores(params, data.x)
        counts = class_counts(data.y, scores.argmax(1), self._data.info.classes, softmax(scores))
        return Score(counts.right / counts.examples, counts.examples, counts=counts)

    def _accuracy(self, params: Mapping[str, Array], data: Labelled) -> float:
        return float((self._network.scores(params, data.x).argmax(1) == data.y).mean())


def _stack(classes: int) -> list[object]:
    return [
        layers.Rescaling(1 / SPREAD, -MEAN / SPREAD, name="scale"),
        *convolution("conv1", 24, dropout=0.1),
        *convolution("conv2", 48, dropout=0.1),
        *convolution("conv3", 96, dropout=0.2),
        layers.Flatten(name="flat"),
        *dense("dense", 128, dropout=0.3),
        layers.Dense(classes, name="output"),
    ]


def _augmented(images: Array, chance: np.random.Generator) -> Array:
    return shifted(mirrored(images, chance), chance, SHIFT)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's photographs and the network for them."""
    use_device(settings.device)
    return Cifar10(load_photographs(settings), settings.threads)
