"""Handwritten digits with a small convolutional network in PyTorch: 110,154 parameters.

Two blocks of convolution, ReLU and max-pooling, then a dense layer of 32 and one output per digit; trained
by gradient descent with momentum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.compute.export import OnnxGraph
from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import class_counts
from flnet.trainer import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    InputSpec,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

from ._digits import DIGIT, Digits, load_digits
from ._fed_mt import taught_steps
from ._torch import CPU, Steps, chosen_device, digest, fresh, shuffled

DATA_PLACE = "mnist"  # below FLNET_DATASETS_PATH
DATA_READER = "_digits:load_digits"  # which needs no framework
LABEL = "MNIST Dataset"
SHAPES = {
    "conv1.weight": (16, 1, 3, 3),
    "conv1.bias": (16,),
    "conv2.weight": (64, 16, 3, 3),
    "conv2.bias": (64,),
    "dense.weight": (32, 64 * 7 * 7),
    "dense.bias": (32,),
    "output.weight": (10, 32),
    "output.bias": (10,),
}
MEAN, SPREAD = 0.1307, 0.3081  # of MNIST's pixels, in [0, 1]
EVALUATION_BATCH = 512
DIGITS = tuple("0123456789")


class Part:
    """One side of the split as tensors; bytes, so that 60,000 images take 47 MB and not 188."""

    def __init__(self, data: Labelled, device: torch.device) -> None:
        self.images = torch.tensor(data.x, device=device).unsqueeze(1)
        self.labels = torch.tensor(data.y, device=device)

    def batch(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Normalised images (n, 1, 28, 28) and labels (n,)."""
        return _normalised(self.images[rows].float()), self.labels[rows]

    @property
    def rows(self) -> Rows:
        """The same as `predict` takes them, still as bytes."""
        return Rows(self.images[:, 0].cpu().numpy(), self.labels.cpu().numpy())


class Mnist(Trainer):
    """The network with one node's digits."""

    label = LABEL
    predicts = "one_of"
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "labels", "row-privacy"})

    def __init__(self, digits: Digits, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        # A shard of the bundled digits has some 300 rows: one pass over them would hardly be a step.
        self.defaults = HyperParams(e=8, u=0.02, b=16) if digits.bundled else HyperParams(e=1, u=0.05, b=64)
        # On the published files training with momentum diverges at three times the default.
        self.limits = {} if digits.bundled else {"learning_rate": 0.1}
        self._info, self._device = digits.info, device
        sides = (digits.train, digits.validation, digits.test)
        self._train, self._validation, self._test = (Part(side, device) for side in sides)
        official = digits.official
        self._official = Part(official, device) if official else None
        self._official_digest = digest({"x": official.x, "y": official.y}) if official else b""

    def data_info(self) -> DataInfo:
        """MNIST, or the bundled digits."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Small uniform weights, biases 0.

        The bound is 1 / sqrt(inputs). The larger one of He et al. 2015 let the dense layer of 32 die in some
        rounds of four nodes with 300 rows each.
        """
        return fresh(SHAPES, seed)

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order."""
        return self.gradients(task).descended(task)

    def gradients(self, task: Task) -> Steps[Tensor]:
        """The same, batch by batch."""
        rows = len(self._train.labels)

        def fit(params: Mapping[str, Array], steps: int, loss: float) -> Fit:
            accuracy = _accuracy(self._tensors(params), self._validation)
            figures = {"loss": loss, "validation_accuracy": accuracy}
            return Fit(params, min(rows, steps * task.hyper.b), len(self._info.classes), figures)

        if task.lesson is not None:
            return taught_steps(task, task.lesson, self._shown, _outputs, fit, self._device)
        return Steps(shuffled(rows, task), self._train.batch, _loss, fit, self._device)

    def inputs(self) -> Array:
        """The training digits."""
        return self._train.rows.inputs

    def labels(self) -> Array:
        """Which digits they are."""
        return self._train.rows.labels

    def tests(self) -> Mapping[str, Rows]:
        """The test digits, and where nodes have unlike parts all published ones."""
        official = {} if self._official is None else {"official_accuracy": self._official.rows}
        return {"accuracy": self._test.rows, **official}

    def validation_rows(self) -> Rows | None:
        """The validation digits."""
        return self._validation.rows if len(self._validation.labels) else None

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test digits read rightly; where nodes have unlike parts, of all published test digits too."""
        return self._score(params, {})

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Share of validation digits read rightly."""
        if not len(self._validation.labels):
            return None
        return _counted(self._tensors(params), self._validation, {})

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """The same; the average that many nodes have is measured once on all published test digits.

        There is no `fit_many`: on one processor ten of these networks at once, by grouped convolutions, take 0.75
        times as long as one by one in batches of 16, and 1.3 times as long in batches of 64.
        """
        known: dict[tuple[bytes, bytes], float] = {}
        return [trainer._score(params, known) for trainer, params in jobs]

    def input_spec(self) -> InputSpec:
        """One digit."""
        return DIGIT

    @torch.inference_mode()
    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the ten digits."""
        tensors, images = self._tensors(params), torch.tensor(inputs, device=self._device).unsqueeze(1)
        batches = [images[at : at + EVALUATION_BATCH] for at in range(0, len(images), EVALUATION_BATCH)]
        scores = torch.cat([_outputs(tensors, _normalised(batch)) for batch in batches])
        return Prediction(scores.softmax(1).cpu().numpy())

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers."""
        graph = OnnxGraph("MNIST", DIGIT.shape).scale(255 * MEAN, 255 * SPREAD).reshape(1, *DIGIT.shape)
        for block in ("conv1", "conv2"):
            graph.conv(params[f"{block}.weight"], params[f"{block}.bias"], pad=1, name=block).relu().max_pool(2)
        graph.flatten().dense(params["dense.weight"].T, params["dense.bias"], name="dense").relu()
        return graph.dense(params["output.weight"].T, params["output.bias"], name="output").softmax().to_bytes()

    def _shown(self, rows: Tensor) -> Tensor:
        """These training digits as the network takes them."""
        return self._train.batch(rows)[0]

    def _score(self, params: Mapping[str, Array], known: dict[tuple[bytes, bytes], float]) -> Score:
        """Figures; what is known of a model on the digits that several trainers share is not measured again."""
        tensors, metrics = self._tensors(params), {}
        if self._official is not None:
            key = (self._official_digest, digest(params))
            if key not in known:
                known[key] = _accuracy(tensors, self._official)
            metrics["official_accuracy"] = known[key]
        return _counted(tensors, self._test, metrics)

    def _tensors(self, params: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: torch.tensor(params[name], device=self._device) for name in SHAPES}


def _normalised(images: Tensor) -> Tensor:
    return images.div_(255).sub_(MEAN).div_(SPREAD)


def _outputs(params: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """One score per digit, (n, 10)."""
    x = images
    for block in ("conv1", "conv2"):
        x = F.conv2d(x, params[f"{block}.weight"], params[f"{block}.bias"], padding=1)
        x = F.max_pool2d(F.relu(x), 2)
    x = F.relu(F.linear(x.flatten(1), params["dense.weight"], params["dense.bias"]))
    return F.linear(x, params["output.weight"], params["output.bias"])


def _loss(params: Mapping[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(_outputs(params, images), labels)


@torch.inference_mode()
def _counted(params: Mapping[str, Tensor], part: Part, metrics: Mapping[str, float]) -> Score:
    """Accuracy and counts on these digits."""
    batches = [
        part.batch(slice(start, start + EVALUATION_BATCH))
        for start in range(0, len(part.labels), EVALUATION_BATCH)
    ]
    scores = torch.cat([_outputs(params, images) for images, _ in batches])
    truth = torch.cat([labels for _, labels in batches]).cpu().numpy()
    counts = class_counts(truth, scores.argmax(1).cpu().numpy(), DIGITS, scores.softmax(1).cpu().numpy())
    return Score(counts.right / counts.examples, counts.examples, metrics, counts=counts)


@torch.inference_mode()
def _accuracy(params: Mapping[str, Tensor], part: Part) -> float:
    right = 0
    for start in range(0, len(part.labels), EVALUATION_BATCH):
        images, labels = part.batch(slice(start, start + EVALUATION_BATCH))
        right += int((_outputs(params, images).argmax(1) == labels).sum())
    return right / len(part.labels)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's digits and the network for them."""
    device = chosen_device(settings.device)
    return Mnist(load_digits(settings), settings.threads, device)
