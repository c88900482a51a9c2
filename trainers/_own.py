"""Trainers without code: the data that a TOML file names, with a small network; PyTorch.

A file `<ID>.toml` in FLNET_TRAINERS_PATH makes one: see flnet/datasets/no_code.py for what may stand in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.compute.export import OnnxGraph
from flnet.datasets.metrics import class_counts, figures_of
from flnet.datasets.no_code import OwnImages, OwnTable
from flnet.datasets.no_code_images import ImageData, load_images
from flnet.datasets.no_code_table import load_table, standardised
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

from ._batches import shuffled
from ._fed_mt import noisy, shifted, taught_steps
from ._own_nets import Net, mlp, small_cnn
from ._torch import Steps, chosen_device, fresh

EVALUATION_BATCH = 512
MIDDLE, SPREAD = 0.5, 0.25  # of pixels in [0, 1], roughly, and the same on all nodes

Batch = Callable[[Array], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Side:
    """Row numbers, and what reads these rows: inputs, and class numbers or numbers.

    The sides are train, validation, test and, if there is a common test, common.

    Attributes:
        raw: reads inputs as `predict` takes them.
        targets: of these rows; class -1 where nodes label differently and a row has no label of the desired space.
    """

    rows: Array
    batch: Batch
    raw: Callable[[Array], Array]
    targets: Array

    def __len__(self) -> int:
        return len(self.rows)


class OwnTrainer(Trainer):
    """One node's data and a network; classes, or one number (`target_scale` is set)."""

    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "labels", "row-privacy"})

    def __init__(
        self,
        own: OwnImages | OwnTable,
        net: Net,
        sides: Mapping[str, Side],
        info: DataInfo,
        spec: InputSpec,
        inputs: Callable[[Array], Tensor],
        prepared: Callable[[OnnxGraph], OnnxGraph],
        device: torch.device,
        coarse: Mapping[str, Array] | None = None,
    ) -> None:
        """Args:
        spec: what a person may have judged.
        inputs: turns those into what the network takes.
        prepared: does the same at the head of an ONNX graph.
        coarse: by side the labels in the node's own space, where nodes label differently.
        """
        self.label = own.label
        self.defaults = HyperParams(e=own.epochs, u=own.rate, b=own.batch)
        # Networks for images diverge at three times a sound rate, with momentum.
        self.limits = {"learning_rate": 2 * own.rate} if isinstance(own, OwnImages) else {}
        self.licence, self.note = own.licence, own.note
        self._net, self._sides, self._info = net, sides, info
        self._scale = own.target_scale if isinstance(own, OwnTable) else None
        self.predicts = "one_of" if self._scale is None else "scores"
        self._spec, self._inputs, self._prepared = spec, inputs, prepared
        targets = np.unique(sides["train"].targets)
        self._labels = 1 if self._scale is not None else int((targets >= 0).sum())
        self._device, self._coarse = device, coarse or {}

    def data_info(self) -> DataInfo:
        """Description of the data, with what was left out."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Small uniform weights, biases 0."""
        return fresh(self._net.shapes, seed)

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, by gradient descent with momentum."""
        return self.gradients(task).descended(task)

    def gradients(self, task: Task) -> Steps[Any]:
        """The same, batch by batch."""
        side = self._sides["train"]

        def read(rows: Array) -> tuple[Tensor, Tensor]:
            x, y = side.batch(rows)
            return x.to(self._device), y.to(self._device)

        def loss(params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return self._loss(self._net.outputs(params, x), y)

        def fit(params: Mapping[str, Array], steps: int, mean: float) -> Fit:
            figures, seen = {"loss": mean}, min(len(side), steps * task.hyper.b)
            validation = self.validation_score(params)
            if validation is not None:
                figures["validation_accuracy"] = validation.accuracy
            return Fit(params, seen, self._labels, figures)

        if task.lesson is not None:
            changed = shifted if self._spec.kind == "image" else noisy

            def shown(rows: Tensor) -> Tensor:
                return side.batch(side.rows[rows.cpu().numpy()])[0].to(self._device)

            return taught_steps(task, task.lesson, shown, self._net.outputs, fit, self._device, changed)
        return Steps(shuffled(side.rows, task), read, loss, fit, self._device)

    def inputs(self) -> Array:
        """The training rows."""
        side = self._sides["train"]
        return side.raw(side.rows)

    def labels(self) -> Array:
        """Their classes; -1 for a row that is labelled in the node's own space alone."""
        return self._sides["train"].targets

    def own_labels(self) -> Mapping[str, tuple[Array, Array]]:
        """Labels in both spaces, where nodes label differently."""
        return {
            side: (self._sides[side].targets, self._coarse[side])
            for side in ("train", "test", "validation")
            if side in self._coarse
        }

    def tests(self) -> Mapping[str, Rows]:
        """The test rows, where classes are told."""
        side = self._sides["test"]
        if self._scale is not None:
            return {}
        return {"accuracy": Rows(side.raw(side.rows), side.targets)}

    def validation_rows(self) -> Rows | None:
        """The validation rows, where classes are told."""
        side = self._sides["validation"]
        return Rows(side.raw(side.rows), side.targets) if len(side) and self._scale is None else None

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Share of test rows put into the right class; for numbers R squared, 0 where it is below.

        With the figures of the common test, if there is one.
        """
        tensors = self._tensors(params)
        score, common = self._score(tensors, self._sides["test"]), self._sides.get("common")
        if common is None:
            return score
        also = self._score(tensors, common)
        figures = {f"common_test_{name}": value for name, value in also.metrics.items()}
        return replace(score, metrics={"common_test_accuracy": also.accuracy, **score.metrics, **figures})

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """The same for validation rows; None where none has a label of the desired space."""
        side = self._sides["validation"]
        has_targets = self._scale is not None or (side.targets >= 0).any()
        return self._score(self._tensors(params), side) if len(side) and has_targets else None

    def input_spec(self) -> InputSpec:
        """One image, or one row of the table."""
        return self._spec

    @torch.inference_mode()
    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the classes; for numbers the target in its own unit."""
        tensors = self._tensors(params)
        starts = range(0, len(inputs), EVALUATION_BATCH)
        batches = [self._inputs(inputs[start : start + EVALUATION_BATCH]) for start in starts]
        outputs = torch.cat([self._net.outputs(tensors, batch.to(self._device)).cpu() for batch in batches])
        if self._scale is None:
            return Prediction(outputs.softmax(1).numpy())
        mean, spread = self._scale
        return Prediction(outputs.numpy() * spread + mean, "scores")

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers, from what a person has to the classes' probabilities, or the target in its own unit."""
        graph = self._net.layers(self._prepared(OnnxGraph(self.label or "model", self._spec.shape)), params)
        if self._scale is None:
            return graph.softmax().to_bytes()
        mean, spread = self._scale
        return graph.scale(-mean / spread, 1 / spread).to_bytes()

    def _tensors(self, params: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: torch.tensor(params[name], device=self._device) for name in self._net.shapes}

    def _loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], y) if self._scale else F.cross_entropy(outputs, y)

    @torch.inference_mode()
    def _score(self, params: Mapping[str, Tensor], side: Side) -> Score:
        guesses, truths = [], []
        for start in range(0, len(side), EVALUATION_BATCH):
            x, y = side.batch(side.rows[start : start + EVALUATION_BATCH])
            guesses.append(self._net.outputs(params, x.to(self._device)).cpu())
            truths.append(y)
        guess, truth = torch.cat(guesses), torch.cat(truths)
        if self._scale is None:
            known = truth >= 0  # the others are labelled in the node's own space alone
            scores, labels = guess[known], truth[known].numpy()
            guessed, chances = scores.argmax(1).numpy(), scores.softmax(1).numpy()
            counts = class_counts(labels, guessed, self._info.classes, chances)
            figures = {name: value for name, value in figures_of(counts).items() if name != "accuracy"}
            return Score(counts.right / max(1, counts.examples), counts.examples, figures, counts=counts)
        return _regression(guess[:, 0].double().numpy(), truth.double().numpy(), self._scale[1])


class OwnNumbers(OwnTrainer):
    """The same for a number: there are no labels that could differ."""

    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "row-privacy"})


def _regression(guess: Array, truth: Array, spread: float) -> Score:
    """R squared, clipped at 0, and the errors in the target's own unit."""
    errors = guess - truth
    around_mean = float(((truth - truth.mean()) ** 2).sum())
    r2 = 1 - float((errors**2).sum()) / around_mean if around_mean > 0 else 0.0
    accuracy = max(0.0, r2) if np.isfinite(r2) else 0.0
    rmse, mae = float(np.sqrt((errors**2).mean())), float(np.abs(errors).mean())
    return Score(accuracy, len(truth), {"r2": r2, "rmse": rmse * spread, "mae": mae * spread})


def on_images(own: OwnImages, data: ImageData, settings: TrainerSettings) -> OwnTrainer:
    """A trainer on images from any source."""
    channels = 1 if own.colour == "grey" else 3

    def inputs(images: Array) -> Tensor:
        x = torch.tensor(images).float().div_(255).sub_(MIDDLE).div_(SPREAD)
        return x.unsqueeze(1) if channels == 1 else x.permute(0, 3, 1, 2)

    def batch(rows: Array) -> tuple[Tensor, Tensor]:
        """Only these rows are read from the mapped file: a large folder needs no memory."""
        return inputs(data.images[rows]), torch.from_numpy(data.labels[rows])

    def prepared(graph: OnnxGraph) -> OnnxGraph:
        graph.scale(255 * MIDDLE, 255 * SPREAD)
        return graph.reshape(1, own.size, own.size) if channels == 1 else graph.channels_first()

    outputs = len(data.classes)
    linear = own.model == "linear"
    net = mlp(channels * own.size**2, (), outputs) if linear else small_cnn(own.size, channels, outputs)
    sides = {
        side: Side(rows, batch, lambda some: data.images[some], data.labels[rows])
        for side, rows in data.sides.items()
    }
    coarse = None if data.coarse is None else {side: data.coarse[rows] for side, rows in data.sides.items()}
    if (common := data.common) is not None:

        def of_common(rows: Array) -> tuple[Tensor, Tensor]:
            return inputs(common.x[rows]), torch.from_numpy(common.y[rows])

        sides["common"] = Side(np.arange(len(common.y)), of_common, lambda some: common.x[some], common.y)
    spec = InputSpec(
        "image", data.images.shape[1:], 0, 255, hint=text("one image, {size}; any size as a file", own.colour)
    )
    device = chosen_device(settings.device)
    trainer = OwnTrainer(own, net, sides, data.info, spec, inputs, prepared, device, coarse)
    trainer.agreement = own.agreement(data.classes)
    return trainer


def _table(own: OwnTable, settings: TrainerSettings) -> OwnTrainer:
    data = load_table(own, settings)
    sides = {name: _in_memory(x, y, data.scales) for name, (x, y) in data.sides.items()}
    outputs = 1 if own.task == "regress" else len(data.table.classes)
    net = mlp(data.table.x.shape[1], own.hidden if own.model == "mlp" else (), outputs)
    names = own.inputs(data.table.features)
    spec = InputSpec(
        "table",
        (len(names),),
        names=names,
        hint=text("one row as it stands in the table"),
        ignored=data.table.others,
        gaps=own.missing == "mean",
        no_value=tuple(own.no_value),
        decimal=own.decimal,
        scale=tuple((float(mean), float(spread)) for mean, spread in data.scales),
        scale_is_own=bool(np.isnan(data.table.scales).any()),
    )
    device = chosen_device(settings.device)

    def inputs(x: Array) -> Tensor:
        return torch.tensor(standardised(x, data.scales))

    def prepared(graph: OnnxGraph) -> OnnxGraph:
        filled = graph.fill(data.scales[:, 0]) if spec.gaps else graph
        return filled.scale(data.scales[:, 0], data.scales[:, 1])

    kind = OwnNumbers if own.task == "regress" else OwnTrainer
    trainer = kind(own, net, sides, data.info, spec, inputs, prepared, device, data.coarse)
    trainer.agreement = own.agreement(data.table.features, data.table.classes)
    return trainer


def _in_memory(x: Array, y: Array, scales: Array) -> Side:
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)

    def raw(rows: Array) -> Array:
        return np.asarray(x[rows] * scales[:, 1] + scales[:, 0], np.float32)

    return Side(np.arange(len(y)), lambda rows: (inputs[rows], targets[rows]), raw, y)


def make_own(own: OwnImages | OwnTable, settings: TrainerSettings) -> Trainer:
    """The trainer that this file describes, with this node's data."""
    torch.set_num_threads(settings.threads)
    if isinstance(own, OwnImages):
        return on_images(own, load_images(own, settings), settings)
    return _table(own, settings)
