"""Healthy, bacterial or viral? Chest X-rays with a small convolutional network in PyTorch: 154,883 parameters.

The pictures are halved to 32x32, then come three blocks of convolution, ReLU and max-pooling, and a dense layer of
128; trained by gradient descent with momentum. It is for nodes that label differently: some tell only that a
child has pneumonia.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import balanced_accuracy, class_counts
from flnet.text import text
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

from ._chest import SIDE, SUBTYPES, XRays, load_subtypes
from ._fed_mt import taught_steps
from ._torch import CPU, Steps, chosen_device, digest, shuffled

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_PLACE = "chest_xray"  # below FLNET_DATASETS_PATH
DATA_READER = "_chest:load_subtypes"  # which needs no framework
LABEL = text("Chest X-Ray Pneumonia Dataset, with its causes")
SHAPES = {
    "conv1.weight": (16, 1, 3, 3),
    "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3),
    "conv2.bias": (32,),
    "conv3.weight": (64, 32, 3, 3),
    "conv3.bias": (64,),
    "dense.weight": (128, 64 * 4 * 4),
    "dense.bias": (128,),
    "output.weight": (3, 128),
    "output.bias": (3,),
}
EVALUATION_BATCH = 256


class ChestSubtypes(Trainer):
    """The network with one node's X-rays."""

    label = LABEL
    predicts = "one_of"
    note = text("a research model, no diagnosis")
    defaults = HyperParams(e=1, u=0.02, b=32)
    limits = MappingProxyType({"learning_rate": 0.05})  # accuracy holds up to there
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "labels", "row-privacy"})

    def __init__(self, data: XRays, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        self._data, self._device = data, device
        self._rows = self._pictures(data.train.x)
        self._labels = torch.tensor(data.train.y, device=device)

    def data_info(self) -> DataInfo:
        """Where the X-rays are from, and which could not be read."""
        return self._data.info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Uniform weights as He et al. (2015) have them, biases 0."""
        chance, params = torch.Generator().manual_seed(seed), {}
        for name, shape in SHAPES.items():
            tensor = torch.zeros(shape)
            if name.endswith("weight"):
                bound = (6 / tensor[0].numel()) ** 0.5
                tensor.uniform_(-bound, bound, generator=chance)
            params[name] = tensor.numpy()
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows; the kinds weigh as often as they occur."""
        return self.gradients(task).descended(task)

    def gradients(self, task: Task) -> Steps[Tensor]:
        """The same, batch by batch."""

        def fit(params: Mapping[str, Array], steps: int, loss: float) -> Fit:
            figures, validation = {"loss": loss}, self.validation_score(params)
            if validation is not None:
                figures["validation_accuracy"] = validation.accuracy
            return Fit(params, min(len(self._rows), steps * task.hyper.b), len(SUBTYPES), figures)

        if task.lesson is not None:
            return taught_steps(task, task.lesson, lambda rows: self._rows[rows], _outputs, fit, self._device)
        return Steps(shuffled(len(self._rows), task), self._batch, _loss, fit, self._device)

    def inputs(self) -> Array:
        """The own training X-rays."""
        return self._data.train.x[..., 0]

    def labels(self) -> Array:
        """What they show."""
        return self._data.train.y

    def tests(self) -> Mapping[str, Rows]:
        """The own test X-rays."""
        return {"accuracy": Rows(self._data.test.x[..., 0], self._data.test.y)}

    def validation_rows(self) -> Rows | None:
        """The own validation X-rays."""
        rows = self._data.validation
        return Rows(rows.x[..., 0], rows.y) if len(rows) else None

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Accuracy on the own test split; balanced there and on the published test part."""
        return self._score(params, {})

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Accuracy on the own validation rows."""
        rows = self._data.validation
        return _counted(rows.y, self._scores(params, rows.x[..., 0]), {}) if len(rows) else None

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """The same; a model that several nodes hold is measured once on the published test part."""
        known: dict[bytes, Array] = {}
        return [trainer._score(params, known) for trainer, params in jobs]

    def input_spec(self) -> InputSpec:
        """One X-ray."""
        return InputSpec("image", (SIDE, SIDE), 0, 255, hint=text("one X-ray of a chest, in grey"))

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the three kinds."""
        return Prediction(self._scores(params, inputs).softmax(1).cpu().numpy())

    def _score(self, params: Mapping[str, Array], known: dict[bytes, Array]) -> Score:
        """Figures; `known` is what models of these digests say of the published test part."""
        scores, key = self._scores(params, self._data.test.x[..., 0]), digest(params)
        own = scores.argmax(1).cpu().numpy()
        if key not in known:
            known[key] = self._judged(params, self._data.official)
        metrics = {
            "balanced_accuracy": balanced_accuracy(self._data.test.y, own),
            "official_accuracy": float((known[key] == self._data.official.y).mean()),
            "official_balanced_accuracy": balanced_accuracy(self._data.official.y, known[key]),
        }
        return _counted(self._data.test.y, scores, metrics)

    def _judged(self, params: Mapping[str, Array], rows: Labelled) -> Array:
        found: Array = self._scores(params, rows.x[..., 0]).argmax(1).cpu().numpy()
        return found

    @torch.inference_mode()
    def _scores(self, params: Mapping[str, Array], pictures: Array) -> Tensor:
        there = {name: torch.tensor(params[name], device=self._device) for name in SHAPES}
        shown = self._pictures(pictures)
        pieces = [shown[at : at + EVALUATION_BATCH] for at in range(0, len(shown), EVALUATION_BATCH)]
        return torch.cat([_outputs(there, some) for some in pieces])

    def _pictures(self, pictures: Array) -> Tensor:
        """(n, 1, 32, 32) from -1 to 1, each the mean of four pixels."""
        shown = torch.tensor(pictures.reshape(len(pictures), 1, SIDE, SIDE), device=self._device).float()
        return F.avg_pool2d(shown / 127.5 - 1, 2)

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self._rows[rows], self._labels[rows]


def _counted(truth: Array, scores: Tensor, metrics: Mapping[str, float]) -> Score:
    """Accuracy and counts of rows with these kinds and scores."""
    counts = class_counts(truth, scores.argmax(1).cpu().numpy(), SUBTYPES, scores.softmax(1).cpu().numpy())
    return Score(counts.right / counts.examples, counts.examples, metrics, counts=counts)


def _outputs(params: Mapping[str, Tensor], pictures: Tensor) -> Tensor:
    """One score for each kind, (n, 3)."""
    x = pictures
    for block in ("conv1", "conv2", "conv3"):
        x = F.max_pool2d(F.relu(F.conv2d(x, params[f"{block}.weight"], params[f"{block}.bias"], padding=1)), 2)
    x = F.relu(F.linear(x.flatten(1), params["dense.weight"], params["dense.bias"]))
    return F.linear(x, params["output.weight"], params["output.bias"])


def _loss(params: Mapping[str, Tensor], pictures: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(_outputs(params, pictures), labels)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's X-rays and the network for them."""
    device = chosen_device(settings.device)
    return ChestSubtypes(load_subtypes(settings), settings.threads, device)
