"""Digits of unlike domains with a small convolutional network in PyTorch: 28,474 parameters, trained by Adam.

Network and rates are those of Martínez Enríquez et al. (FLProtector, Table 8): four convolutions of 16, 32, 32 and
32 channels, each with ReLU and pooling, then dense layers of 64, 32, 16 and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import class_counts
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

from ._dense import Adam
from ._descent import Proximal
from ._domains import SIDE, Domain, info_of, load_domain
from ._torch import CPU, Steps, chosen_device, digest, shuffled

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_READER = "_domains:load_domain"  # which needs no framework
LABEL = text("Digits of unlike domains")
CHANNELS, DENSE = (3, 16, 32, 32, 32), (32, 64, 32, 16, 10)
SHAPES = {
    **{f"conv{i}.weight": (CHANNELS[i], CHANNELS[i - 1], 3, 3) for i in range(1, 5)},
    **{f"conv{i}.bias": (CHANNELS[i],) for i in range(1, 5)},
    **{f"dense{i}.weight": (DENSE[i], DENSE[i - 1]) for i in range(1, 5)},
    **{f"dense{i}.bias": (DENSE[i],) for i in range(1, 5)},
}
EVALUATION_BATCH = 512
CLASSES = tuple("0123456789")


class DigitDomains(Trainer):
    """The network with one node's domain."""

    label = LABEL
    predicts = "one_of"
    defaults = HyperParams(e=5, u=0.001, b=64)
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "row-privacy"})

    def __init__(self, domain: Domain, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        self._device, self._name = device, domain.name
        self._train, self._test, self._everything = domain.train, domain.test, domain.everything
        self._domains, self._validation = domain.domains, domain.validation
        self._images = self._tensor(domain.train.x)
        self._labels = torch.tensor(domain.train.y, device=device)
        self._shared = digest({"x": domain.everything.x, "y": domain.everything.y})

    def data_info(self) -> DataInfo:
        """Which domain this node has."""
        return info_of(self._name, self._train, self._test, self._validation)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Uniform weights as Glorot and Bengio (2010) have them, biases 0."""
        chance = torch.Generator().manual_seed(seed)
        params = {}
        for name, shape in SHAPES.items():
            tensor = torch.zeros(shape)
            if name.endswith("weight"):
                field = tensor[0, 0].numel()
                bound = (6 / (field * (shape[0] + shape[1]))) ** 0.5
                tensor.uniform_(-bound, bound, generator=chance)
            params[name] = tensor.numpy()
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, with a fresh Adam optimiser."""
        if task.row_privacy is not None:
            return self.gradients(task).descended(task)
        params = {name: tensor.requires_grad_() for name, tensor in self._tensors(task.params).items()}
        everything = list(params.values())
        optimiser, drawn = Adam(everything, task.hyper.u), Proximal(everything, task.proximal)
        batches, losses = shuffled(len(self._labels), task), 0.0
        for done, rows in enumerate(batches, start=1):
            error = _loss(params, *self._batch(rows))
            optimiser.step(drawn(everything, torch.autograd.grad(error, everything)))
            losses += float(error.detach())
            task.progress(done, len(batches))
            if task.is_over():
                break
        learnt = {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}
        return self._fit(task, learnt, done, losses / done)

    def gradients(self, task: Task) -> Steps[Tensor]:
        """The same training, batch by batch."""

        def fit(params: Mapping[str, Array], steps: int, loss: float) -> Fit:
            return self._fit(task, params, steps, loss)

        return Steps(shuffled(len(self._labels), task), self._batch, _loss, fit, self._device, "adam")

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Accuracy on the own test digits, on those of each domain, and the mean of these."""
        return self._score(params, {})

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Accuracy on the own digits that are held back, if some are."""
        return self._counted(params, self._validation, {}) if len(self._validation) else None

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """Likewise; a model that several nodes hold is measured once on the digits of all."""
        known: dict[tuple[bytes, bytes], dict[str, float]] = {}
        return [trainer._score(params, known) for trainer, params in jobs]

    def inputs(self) -> Array:
        """The own training digits."""
        return self._train.x.astype(np.float32)

    def tests(self) -> Mapping[str, Rows]:
        """The own test digits, and those of all domains."""
        own, everything = ((side.x.astype(np.float32), side.y) for side in (self._test, self._everything))
        return {"accuracy": Rows(*own), "global_accuracy": Rows(*everything, self._domains)}

    def change_rows(
        self, change: Callable[[Labelled], Labelled], side: Literal["train", "test"] = "train"
    ) -> None:
        """Go on with what becomes of the own training or test rows, for experiments."""
        if side == "test":
            self._test = change(self._test)
            return
        self._train = change(self._train)
        self._images = self._tensor(self._train.x)
        self._labels = torch.tensor(self._train.y, device=self._device)

    def input_spec(self) -> InputSpec:
        """One digit in colour."""
        return InputSpec("image", (SIDE, SIDE, 3), 0, 255, hint=text("one digit, in the middle"))

    @torch.inference_mode()
    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the ten digits."""
        tensors = self._tensors(params)
        starts = range(0, len(inputs), EVALUATION_BATCH)
        scores = [_outputs(tensors, self._tensor(inputs[at : at + EVALUATION_BATCH])) for at in starts]
        return Prediction(torch.cat(scores).softmax(1).cpu().numpy())

    def _score(self, params: Mapping[str, Array], known: dict[tuple[bytes, bytes], dict[str, float]]) -> Score:
        key = self._shared, digest(params)
        if key not in known:
            known[key] = self._by_domain(params)
        return self._counted(params, self._test, known[key])

    def _counted(self, params: Mapping[str, Array], rows: Labelled, figures: Mapping[str, float]) -> Score:
        chances = self.predict(params, rows.x).values
        counts = class_counts(rows.y, chances.argmax(1), CLASSES, chances)
        return Score(counts.right / counts.examples, counts.examples, figures, counts=counts)

    def _by_domain(self, params: Mapping[str, Array]) -> dict[str, float]:
        """The accuracy on each domain, whose numbers of digits may differ, and the mean of them."""
        is_right = self.predict(params, self._everything.x).values.argmax(1) == self._everything.y
        names = dict.fromkeys(self._domains.tolist())
        figures = {f"accuracy_{name}": float(is_right[self._domains == name].mean()) for name in names}
        return {**figures, "global_accuracy": sum(figures.values()) / len(figures)}

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self._images[rows], self._labels[rows]

    def _fit(self, task: Task, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        figures, validation = {"loss": loss}, self.validation_score(params)
        if validation is not None:
            figures["validation_accuracy"] = validation.accuracy
        return Fit(params, min(len(self._labels), steps * task.hyper.b), labels=10, metrics=figures)

    def _tensor(self, images: Array) -> Tensor:
        """Images (n, 16, 16, 3) in [0, 255] as (n, 3, 16, 16) in [0, 1]."""
        return (
            torch.tensor(images, dtype=torch.float32, device=self._device).permute(0, 3, 1, 2).contiguous() / 255
        )

    def _tensors(self, params: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: torch.tensor(params[name], device=self._device) for name in SHAPES}


def _outputs(params: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """One score per digit, (n, 10)."""
    x = images
    for number in range(1, 5):
        x = F.conv2d(x, params[f"conv{number}.weight"], params[f"conv{number}.bias"], padding=1)
        x = F.max_pool2d(F.relu(x), 2)
    x = x.flatten(1)
    for number in range(1, 5):
        x = F.linear(
            F.relu(x) if number > 1 else x, params[f"dense{number}.weight"], params[f"dense{number}.bias"]
        )
    return x


def _loss(params: Mapping[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(_outputs(params, images), labels)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's domain and the network for it."""
    return DigitDomains(load_domain(settings), settings.threads, chosen_device(settings.device))
