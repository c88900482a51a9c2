"""A Keras network on TensorFlow as the image trainers use it: built once, weights by name, uint8 images in.

Weights are called "layer/weight". A batch-norm layer's moving statistics are weights like the others: they are
shared and merged by the mean. There are no counters: what the optimiser and the dropout layers remember ends
with each training.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from flnet.compute.export import OnnxGraph
from flnet.datasets.labelled import Labelled
from flnet.text import text
from flnet.trainer import Array, Prediction, Task, TrainerError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read on import: a node's log is no place for its greetings
os.environ["KERAS_BACKEND"] = "tensorflow"

import tensorflow as tf  # type: ignore[import-not-found, import-untyped, unused-ignore]

keras: Any = tf.keras
layers: Any = keras.layers
MOMENTUM = 0.9
EVALUATION_BATCH = 256
ROWS_AT_ONCE = 64  # of small batches: a call for each batch of 2 takes as long as the two steps of it themselves
_ONES = ("gamma", "moving_variance")
_WORD = 2**32

Batch = tuple[Array, Array]  # images and class numbers
Augment = Callable[[Array, np.random.Generator], Array]  # a batch of images -> changed copies of them


def bound_threads(threads: int) -> None:
    """Let TensorFlow use so many threads; the first caller in a process decides."""
    with suppress(RuntimeError):  # it has started its threads already
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def use_device(wanted: str) -> None:
    """Let TensorFlow see what FLNET_DEVICE asks for; "auto" takes a GPU if there is one.

    Raises:
        TrainerError: TensorFlow cannot use it on this machine.
    """
    if wanted == "auto":
        return
    gpus = tf.config.list_physical_devices("GPU") if wanted != "cpu" else []
    if wanted != "cpu" and not gpus:
        raise TrainerError(
            text(
                "FLNET_DEVICE={device} asks for a GPU, but TensorFlow {version} can use none here; "
                "set FLNET_DEVICE to auto or cpu",
                wanted,
                tf.__version__,
            )
        )
    with suppress(RuntimeError):  # another trainer of this process has chosen already
        tf.config.set_visible_devices(gpus, "GPU")


@dataclass(frozen=True)
class Trained:
    """What `Network.train` gives: new weights by name, the mean loss over all batches, and the rows seen."""

    params: dict[str, Array]
    loss: float
    examples: int


class Network:
    """Layers in a row that give one score (logit) per class, and the two functions that TensorFlow compiles.

    Args:
        shape: of one image, (height, width, channels).
        classes: how many scores the last layer gives.
        stack: the layers, each with a name of its own.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, stack: Sequence[Any]) -> None:
        self._model = keras.Sequential([keras.Input(shape), *stack])
        self._classes = classes
        self._variables = {f"{layer.name}/{v.name}": v for layer in self._model.layers for v in layer.weights}
        self._anchors = {
            name: tf.Variable(v, trainable=False) for name, v in self._variables.items() if v.trainable
        }
        self._mu = tf.Variable(0.0, trainable=False)
        self._chances = [g.state for layer in self._model.layers if (g := getattr(layer, "seed_generator", None))]
        self._optimiser = keras.optimizers.SGD(momentum=MOMENTUM)
        self._optimiser.build(self._model.trainable_variables)
        self._loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
        images = tf.TensorSpec((None, *shape), tf.uint8)
        labels, weights = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((classes,), tf.float32)
        # One signature for all batch sizes, or the last batch of a pass would be compiled again.
        signature = [images, labels, weights]
        self._told_slopes = tf.function(self._slopes, input_signature=signature)
        steps = [images, labels, tf.TensorSpec((None,), tf.int32), weights]
        self._steps = tf.function(self._descend_all, input_signature=steps)
        self._drawn_steps = tf.function(partial(self._descend_all, drawn=True), input_signature=steps)
        pixels = tf.TensorSpec((None, *shape), tf.float32)
        self._scores = tf.function(lambda x: self._model(x, training=False), input_signature=[pixels])

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of weights that training sets without gradients: moving means and variances."""
        return tuple(name for name, variable in self._variables.items() if not variable.trainable)

    def fresh(self, seed: int) -> dict[str, Array]:
        """Initial weights after He et al. 2015, uniform; drawn by numpy, so that they are the same everywhere."""
        chance = np.random.default_rng(seed)
        params = {}
        for name, variable in self._variables.items():
            shape = tuple(variable.shape)
            if name.endswith("kernel"):
                bound = math.sqrt(6 / math.prod(shape[:-1]))
                params[name] = chance.uniform(-bound, bound, shape).astype(np.float32)
            else:
                params[name] = np.full(shape, float(name.endswith(_ONES)), np.float32)
        return params

    def train(self, task: Task, data: Labelled, class_weights: Array, augment: Augment) -> Trained:
        """`e` passes over the rows in batches of nearly equal size, by gradient descent with momentum.

        Args:
            task: where to start, how long, with which chance.
            data: images uint8 and class numbers.
            class_weights: what a row of each class counts in the loss.
            augment: changes the images of each batch.
        """
        self.begin(task)
        steps, losses, done, seen = self._drawn_steps if task.proximal else self._steps, 0.0, 0, 0
        weights = tf.constant(class_weights, tf.float32)
        count, drawn = batches_in(task, data), batches(task, data, augment)
        while group := list(islice(drawn, max(1, ROWS_AT_ONCE // task.hyper.b))):
            images, labels = (np.concatenate(parts) for parts in zip(*group, strict=True))
            ends = np.cumsum([0, *(len(own) for _, own in group)], dtype=np.int32)
            losses += float(steps(tf.constant(images), tf.constant(labels), tf.constant(ends), weights))
            done, seen = done + len(group), seen + len(labels)
            task.progress(done, count)
            if task.is_over():
                break
        learned = {name: v.numpy() for name, v in self._variables.items()}
        return Trained(learned, losses / done, min(seen, len(data)))

    def begin(self, task: Task) -> None:
        """Take up where the task begins: its weights, no momentum, dropout drawn from its seed."""
        self._load(task.params)
        self._forget(task)

    def slopes(
        self, params: Mapping[str, Array], batch: Batch, class_weights: Array
    ) -> tuple[float, dict[str, Array], dict[str, Array]]:
        """Loss and gradients on one batch, and the moving statistics after it, by name."""
        self._load(params)
        images, labels = (tf.constant(part) for part in batch)
        loss, gradients = self._told_slopes(images, labels, tf.constant(class_weights, tf.float32))
        moving = {name: self._variables[name].numpy() for name in self.buffers}
        return float(loss), {name: gradient.numpy() for name, gradient in gradients.items()}, moving

    def scores(self, params: Mapping[str, Array], images: Array) -> Array:
        """Logits (n, classes) of images of any type, 0 to 255."""
        self._load(params)
        starts = range(0, len(images), EVALUATION_BATCH)
        batches = (tf.constant(images[at : at + EVALUATION_BATCH], tf.float32) for at in starts)
        parts = [self._scores(batch).numpy() for batch in batches]
        return np.concatenate([np.empty((0, self._classes), np.float32), *parts])

    def predict(self, params: Mapping[str, Array], images: Array) -> Prediction:
        """Probabilities of the classes."""
        scores = self.scores(params, images)
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return Prediction(powers / powers.sum(1, keepdims=True))

    def onnx(self, params: Mapping[str, Array], name: str) -> bytes:
        """The same layers as an ONNX file, from images as they are here to probabilities."""
        graph = OnnxGraph(name, self._model.input_shape[1:]).channels_first()
        for layer in self._model.layers:
            _add_to(graph, layer, params)
        return graph.softmax().to_bytes()

    def _load(self, params: Mapping[str, Array]) -> None:
        for name, variable in self._variables.items():
            variable.assign(params[name])

    def _forget(self, task: Task) -> None:
        """A new training: momentum and step count at zero, dropout drawn from the task's seed."""
        for variable in self._optimiser.variables:
            variable.assign(np.zeros(variable.shape, variable.dtype))
        self._optimiser.learning_rate.assign(task.hyper.u)
        self._mu.assign(task.proximal)
        for name, anchor in self._anchors.items():
            anchor.assign(task.params[name])
        for number, state in enumerate(self._chances):
            state.assign(np.array([task.seed % _WORD, number], np.uint32))

    def _descend_all(self, images: Any, labels: Any, ends: Any, class_weights: Any, *, drawn: bool = False) -> Any:
        """A step for each batch of a group, one after another as they would be alone, and the sum of their losses.

        Args:
            ends: where the batches begin and end in images and labels, (batches + 1,).
        """
        losses = tf.constant(0.0)
        for number in tf.range(tf.size(ends) - 1):
            first, last = ends[number], ends[number + 1]
            losses += self._descend(images[first:last], labels[first:last], class_weights, drawn=drawn)
        return losses

    def _descend(self, images: Any, labels: Any, class_weights: Any, *, drawn: bool = False) -> Any:
        """One step; `drawn` back to where the training began, by FedProx's mu (Li et al. 2020)."""
        loss, gradients = self._slopes(images, labels, class_weights)
        wanted = {name: self._variables[name] for name in self._anchors}
        if drawn:
            gradients = {
                name: g + self._mu * (wanted[name] - self._anchors[name]) for name, g in gradients.items()
            }
        self._optimiser.apply_gradients((gradients[name], variable) for name, variable in wanted.items())
        return loss

    def _slopes(self, images: Any, labels: Any, class_weights: Any) -> tuple[Any, dict[str, Any]]:
        with tf.GradientTape() as tape:
            losses = self._loss(labels, self._model(images, training=True))
            loss = tf.reduce_mean(losses * tf.gather(class_weights, labels))
        return loss, tape.gradient(loss, {name: self._variables[name] for name in self._anchors})


def batches_in(task: Task, data: Labelled) -> int:
    """How many batches the task has, in all passes."""
    return task.hyper.e * math.ceil(len(data) / task.hyper.b)


def batches(task: Task, data: Labelled, augment: Augment) -> Iterator[Batch]:
    """Images and labels of all passes, in batches of nearly equal size, as the task's seed draws them."""
    chance = np.random.default_rng(task.seed)
    count = math.ceil(len(data) / task.hyper.b)
    for _ in range(task.hyper.e):
        for rows in np.array_split(chance.permutation(len(data)), count):
            yield augment(data.x[rows], chance), data.y[rows]


def convolution(name: str, filters: int, dropout: float = 0.0) -> list[Any]:
    """3x3 convolution, max-pooling to half the size, batch normalisation, ReLU, dropout.

    Pooled first, three quarters of the numbers need not be normalised: 1.4 times as fast.
    """
    convolve = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=name)
    return [convolve, layers.MaxPool2D(name=f"{name}_pool"), *_normalised(name, dropout)]


def dense(name: str, units: int, dropout: float = 0.0) -> list[Any]:
    """Dense layer, batch normalisation, ReLU, dropout.

    Without the normalisation all units were seen to die in the first round.
    """
    return [layers.Dense(units, use_bias=False, name=name), *_normalised(name, dropout)]


def _normalised(name: str, dropout: float) -> list[Any]:
    """The moving statistics follow quickly (0.9 a batch): a round may have no more than a dozen batches."""
    stack = [layers.BatchNormalization(momentum=0.9, name=f"{name}_norm"), layers.ReLU(name=f"{name}_relu")]
    return [*stack, layers.Dropout(dropout, name=f"{name}_drop")] if dropout else stack


def _add_to(graph: OnnxGraph, layer: Any, params: Mapping[str, Array]) -> None:
    """One layer of those that the trainers use; dropout does nothing once training is over."""

    def weight(name: str) -> Array:
        return params[f"{layer.name}/{name}"]

    match type(layer).__name__:
        case "Rescaling":
            graph.scale(-layer.offset / layer.scale, 1 / layer.scale)
        case "Conv2D":
            graph.conv(weight("kernel").transpose(3, 2, 0, 1), None, pad=1, name=layer.name)
        case "MaxPooling2D":
            graph.max_pool(2)
        case "BatchNormalization":
            stored = (weight(name) for name in ("gamma", "beta", "moving_mean", "moving_variance"))
            graph.batch_norm(*stored, epsilon=layer.epsilon, name=layer.name)
        case "ReLU":
            graph.relu()
        case "Flatten":
            graph.channels_last().flatten()
        case "Dense":
            bias = weight("bias") if layer.use_bias else np.zeros(layer.units, np.float32)
            graph.dense(weight("kernel"), bias, name=layer.name)
        case "Dropout":
            pass
        case other:
            raise TrainerError(
                text("layer {name} is a {kind}, which has no place in the ONNX file", layer.name, other)
            )


def shifted(images: Array, chance: np.random.Generator, pixels: int) -> Array:
    """Each image moved by up to so many pixels down or up, right or left; its border is drawn out."""
    count, height, width = images.shape[:3]
    margins = ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0))
    padded = np.pad(images, margins, mode="edge")
    top, left = chance.integers(0, 2 * pixels + 1, (2, count))
    rows, columns = top[:, None] + np.arange(height), left[:, None] + np.arange(width)
    moved: Array = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved


def mirrored(images: Array, chance: np.random.Generator) -> Array:
    """Every second image, by chance, with left and right exchanged."""
    turn = chance.random(len(images)) < 0.5
    return np.where(turn[:, None, None, None], images[:, :, ::-1], images)
