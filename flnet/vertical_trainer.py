"""The public contract of vertical trainers: plug-ins for nodes that hold different columns of the same rows.

The nodes train one network that is cut in two (split network). Each node that holds features has a bottom model,
which turns its columns into outputs at the cut layer. A node that holds labels has a top model, which turns the
outputs of all bottom models into a prediction. Rows, labels and weights stay where they are; outputs and their
gradients travel (`flnet.algorithms.vertical.split_network`).

A plug-in defines one function:

    def make_vertical_trainer(settings: TrainerSettings) -> VerticalTrainer

All arrays are numpy. Models are trained where they are made, one batch after another, and remember their optimiser
between batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from flnet.datasets.metrics import auc
from flnet.params.params import Array, Digest, Params, Schema
from flnet.text import text
from flnet.trainer import DataInfo, HyperParams, Meaning, NotOffered, Score, TrainerSettings

__all__ = [
    "BottomModel",
    "GradientDefence",
    "KeyHolderTrainer",
    "MakeVerticalTrainer",
    "ModelState",
    "OutputDefence",
    "Params",
    "TopModel",
    "TopStep",
    "VerticalTrainer",
]

Method = Literal["split-network", "encrypted-regression"]
GradientRule = Literal["isotropic", "max-norm"]


@dataclass(frozen=True)
class OutputDefence:
    """Setting of a node with features: noise on the outputs that it sends, so that they say less of its columns.

    Attributes:
        clip: largest Euclidean norm of the outputs of one row, above 0.
        multiplier: standard deviation of the noise, as a multiple of `clip`; 0 for clipping alone.
    """

    clip: float
    multiplier: float

    def __post_init__(self) -> None:
        if not 0 < self.clip < np.inf or not 0 <= self.multiplier < np.inf:
            raise ValueError(f"clip={self.clip!r}, multiplier={self.multiplier!r}")


@dataclass(frozen=True)
class GradientDefence:
    """Setting of a node with labels: noise on the gradients that it sends, so that they say less of its labels.

    Attributes:
        rule: "isotropic" adds noise; "max-norm" stretches each gradient by a random factor, and needs no scale.
        scale: of isotropic noise: its expected squared length, as a multiple of that of the longest gradient of the
            batch; above 0.
    """

    rule: GradientRule
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.rule not in get_args(GradientRule) or not 0 < self.scale < np.inf:
            raise ValueError(f"rule={self.rule!r}, scale={self.scale!r}")


@dataclass(frozen=True)
class ModelState:
    """All that a bottom or top model needs to go on as if nothing had happened.

    Attributes:
        weights: what is trained. Of these, top models share some with other label holders.
        optimiser: what the optimiser remembers, such as Adam's moments; empty for a fresh one.
    """

    weights: Params
    optimiser: Params = field(default_factory=Params)

    @property
    def digest(self) -> Digest:
        """The digest of both, by which a restarted node proves that it goes on from the common epoch."""
        parts = {"weights": self.weights, "optimiser": self.optimiser}
        return Params({f"{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}).digest

    def weights_like(self, example: Mapping[str, Array]) -> Params:
        """The weights, if they can stand for those of a model.

        Args:
            example: weights of that model.

        Raises:
            ParamsRefused: names, shapes or dtypes differ, or a number is not finite.
        """
        return Schema.of(example).conform(self.weights)


class TopStep(NamedTuple):
    """The result of one training step of a top model.

    Attributes:
        loss: mean over the rows of the batch, before the step.
        gradient: (b, q) of that loss by the inputs, at the weights before the step.
    """

    loss: float
    gradient: Array


class SplitModel(ABC):
    """What bottom and top models have in common: weights that can be saved, compared and averaged."""

    @abstractmethod
    def state(self) -> ModelState:
        """The weights and the optimiser's memory; later steps do not change these arrays."""

    @abstractmethod
    def load(self, state: ModelState) -> None:
        """Take over a state; batches that are under way are dropped.

        Raises:
            ParamsRefused: names or shapes are not those of this model.
        """


class BottomModel(SplitModel):
    """The lower part of a split network: from this node's columns to outputs at the cut layer.

    Several batches may be under way at once. The gradient of a batch is taken at the weights that its outputs were
    computed with, and the step is made from the newest weights.

    Attributes:
        width: q, the number of outputs for each row.
    """

    width: int

    @abstractmethod
    def outputs(self, features: Array) -> Array:
        """Outputs (b, q) of rows that are not trained on.

        Args:
            features: (b, ...), as `VerticalTrainer.features` gives them.
        """

    @abstractmethod
    def forward(self, step: int, features: Array) -> Array:
        """Outputs (b, q) of a training batch; what `backward` needs is kept under the number of the step."""

    @abstractmethod
    def backward(self, step: int, gradient: Array) -> None:
        """Train on the batch of this step, and forget it.

        Args:
            gradient: (b, q) of the loss by the outputs of that step.
        """


class TopModel(SplitModel):
    """The upper part of a split network: from the outputs of all bottom models to a prediction.

    Its inputs are the outputs of all feature holders side by side, in sorted order of the nodes' ids.

    Attributes:
        shared: names of the weights that are averaged over several label holders; None: all. The others stay
            private, as output layers for different labels have to.
    """

    meaning: ClassVar[Meaning] = "one_of"
    shared: tuple[str, ...] | None = None

    @abstractmethod
    def step(self, inputs: Array, labels: Array) -> TopStep:
        """Train on one batch.

        Args:
            inputs: (b, q).
            labels: (b,) class numbers, or (b, k) of 0 and 1 where `meaning` is "any_of".
        """

    @abstractmethod
    def loss(self, inputs: Array, labels: Array) -> float:
        """Mean loss over rows that are not trained on."""

    @abstractmethod
    def predict(self, inputs: Array) -> Array:
        """Probabilities (b, k) of the classes or labels; two classes have two columns."""

    def evaluate(self, inputs: Array, labels: Array) -> Score:
        """Loss, accuracy, and AUC where it is defined, on hold-out rows.

        The AUC is that of the second of two classes, or the mean over labels. Of labels, the accuracy is the mean
        over rows and labels.
        """
        values = self.predict(inputs)
        metrics = {"loss": self.loss(inputs, labels)}
        if self.meaning == "any_of":
            right = (values >= 0.5) == labels.astype(bool)
            areas = [auc(labels[:, at], values[:, at]) for at in range(labels.shape[1])]
        else:
            right = values.argmax(axis=1) == labels
            areas = [auc(labels == 1, values[:, 1])] if values.shape[1] == 2 else []
        defined = [area for area in areas if np.isfinite(area)]
        if defined:
            metrics["auc"] = float(np.mean(defined))
        return Score(float(right.mean()), len(labels), metrics)


class VerticalTrainer(ABC):
    """One node's columns or labels, or both, with the models for them.

    With the method "encrypted-regression" there are no models: columns and labels are enough. Columns have to be
    standardised then, and labels are 0 and 1. A node without columns and labels holds the key (`KeyHolderTrainer`).

    Attributes:
        label: the name for people; the id if empty.
        defaults: epochs, learning rate and batch size; they are the same on all nodes.
        several_labels: whether more than one node may hold labels; each then trains a top model of its own.
        output_noise: protects the outputs that this node sends, those of hold-out rows too; None: they are sent as
            they are. For nodes with features.
        gradient_noise: protects the gradients that this node sends; its own bottom model gets them as they are.
            None: they are sent as they are. For nodes with labels.
        tells_score: whether the other nodes are told how good the model is on hold-out rows. For nodes with labels.
        in_flight: how many batches this node lets be under way at once, 1 to 64; the smallest number of all nodes
            counts. With 1, training is that of the whole network in one place; with more, waiting for the network
            overlaps with computing, and gradients are up to `in_flight` - 1 steps late.
        method: how the nodes train; it is the same on all nodes.
        hides_matches: whether only the key holder of an encrypted regression learns which rows match; it is the same on
            all nodes.
        allows_predictions: whether other holders may ask for predictions of common rows, and this node too. Without the
            owners of all holders there is no prediction.
    """

    label: str = ""
    defaults: HyperParams = HyperParams(e=10, u=0.001, b=256)
    several_labels: bool = False
    output_noise: OutputDefence | None = None
    gradient_noise: GradientDefence | None = None
    tells_score: bool = True
    in_flight: int = 1
    method: Method = "split-network"
    hides_matches: bool = False
    allows_predictions: bool = False

    @abstractmethod
    def identifiers(self) -> Sequence[str]:
        """The identifier of each of this node's rows, each once; rows are numbered in this order."""

    def columns(self) -> Sequence[str]:
        """Names of this node's feature columns; their number is told to the other nodes."""
        return ()

    def shared_columns(self) -> Sequence[str]:
        """Those of them whose names the owner of the data shares with the other nodes; never their values."""
        return ()

    def features(self, rows: Array) -> Array:
        """The features (b, ...) of these rows, for nodes that hold some.

        Scale them here, by this node's own rows: the other nodes cannot.
        """
        raise NotOffered(text("this trainer has no features"))

    def labels(self, rows: Array) -> Array:
        """The labels of these rows, as `TopModel.step` takes them, for nodes that hold some."""
        raise NotOffered(text("this trainer has no labels"))

    def bottom_model(self, seed: int, hyper: HyperParams) -> BottomModel | None:
        """A new bottom model; None where this node holds no features.

        Args:
            seed: of its first weights; another one on each node.
            hyper: of the job, of which a model needs the learning rate u.
        """
        return None

    def top_model(self, width: int, seed: int, hyper: HyperParams) -> TopModel | None:
        """A new top model; None where this node holds no labels.

        Args:
            width: of its inputs: the outputs of all bottom models together.
            seed: of its first weights; the same on all label holders.
            hyper: of the job.
        """
        return None

    def class_names(self) -> Sequence[str]:
        """Names of the classes of the labels; holders that ask for a prediction are told them."""
        return self.data_info().classes

    def data_info(self) -> DataInfo:
        """Description of this node's columns and labels."""
        return DataInfo(source=text("not described"), rows={})


class KeyHolderTrainer(VerticalTrainer):
    """A node that holds the key of an encrypted regression, and no data of the job.

    Its defaults bound what other nodes may ask for, as those of any trainer do.
    """

    method = "encrypted-regression"
    defaults: HyperParams = HyperParams(e=1, u=0.05, b=256)

    def identifiers(self) -> Sequence[str]:
        """None: this node has no rows."""
        return ()

    def data_info(self) -> DataInfo:
        """There are no data."""
        return DataInfo(source=text("none: this node holds the key"), rows={})


MakeVerticalTrainer = Callable[[TrainerSettings], VerticalTrainer]
