"""Several labels a row, each node with labels of its own: MLFedAvg in PyTorch.

D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados", master's thesis, Universidad de
Sevilla, 2024. The core V -> 100 -> 20 (ReLU) is shared and averaged; the output layer 20 -> M, with a sigmoid
for each of the node's own M labels, is private: it stays on the node from round to round and never travels.
Labels that several nodes have (not in the thesis) are averaged over these nodes: `MultiLabelNet._own`.
How the cores are weighed (agg0, agg1, agg2) is the node's setting FLNET_AGGREGATION.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from flnet.compute.export import OnnxGraph
from flnet.datasets.metrics import label_counts, multi_label_figures
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    EvaluationCounts,
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

from . import _dense
from ._dense import Learner, Learnt, gradients_of, loss, train
from ._multi_label import NodeData, Side, as_in_the_file, load_node_data, standardised
from ._philox import uniform
from ._stacked import train_together
from ._torch import CPU, Steps, chosen_device

DATA_PLACE = "multi-label"  # below FLNET_DATASETS_PATH
DATA_OPTIONS = "multi_label.toml"  # next to the data
DATA_READER = "_multi_label:load_node_data"  # which needs no framework
LABEL = "Multi-label Dataset"
HIDDEN = (100, 20)
LEAST_HELD = 1e-6  # a smaller share of the weights of a mean says nothing
LAYERS = ("core.0", "core.1", "head")
CORE = ("core.0.weight", "core.0.bias", "core.1.weight", "core.1.bias")
HEAD = ("head.weight", "head.bias")
SEVERAL = ("several.weight", "several.bias", "several.held")


class Part:
    """One side of the split as tensors."""

    def __init__(self, side: Side, device: torch.device) -> None:
        self.x, self.y = torch.from_numpy(side.x).to(device), torch.from_numpy(side.y).to(device)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def rows(self) -> Rows:
        """The same, with the first label of each row: what the argmax accuracy compares."""
        return Rows(self.x.cpu().numpy(), self.y.argmax(1).cpu().numpy())


class MultiLabelNet(Trainer):
    """The network with one node's labels and rows."""

    label = LABEL
    predicts = "any_of"
    defaults = HyperParams(e=1, u=0.0008, b=30)
    limits = MappingProxyType({"learning_rate": 0.0024})  # accuracy holds up to there
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "row-privacy"})
    shared: tuple[str, ...] = CORE

    def __init__(self, data: NodeData, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        self._device = device
        self._info, self.agreement, self._features = data.info, data.agreement, data.features
        self._train, self._validation, self._test = (
            Part(data.sides[name], device) for name in ("train", "validation", "test")
        )
        self._common = Part(data.common, device)
        self._weights, self._scales, self._ignored = data.weights, data.scales, data.ignored
        self._widths = (data.common.x.shape[1], *HIDDEN, data.common.y.shape[1])
        self._several = data.of_several
        if self._several:
            self.shared = (*CORE, *SEVERAL)
        places = {name: place for place, name in enumerate(self._info.classes)}
        here = [(places[name], place) for place, name in enumerate(self._several) if name in places]
        # Places in the own head, and among `_several`.
        self._own_several = np.array(here, np.int64).reshape(-1, 2).T

    def data_info(self) -> DataInfo:
        """The data set, and this node's labels."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Uniform weights (Glorot, Bengio 2010), biases 0.

        The core is equal on all nodes, the head differs with the labels: two nodes that begin with one head pull
        the core to one place for different labels, and need twice the rounds. With the draws of the author's
        program they are its first weights, which follow from the seed of the data.
        """
        if self._weights is not None:
            return self._drawn(self._weights)
        params: dict[str, Array] = {}
        own = zlib.crc32("\n".join(self._info.classes).encode())
        common, private = (torch.Generator().manual_seed(number) for number in (seed, seed + own))
        for layer, inputs, outputs in zip(LAYERS, self._widths, self._widths[1:], strict=False):
            chance = private if layer == "head" else common
            bound = (6 / (inputs + outputs)) ** 0.5
            params[f"{layer}.weight"] = (
                torch.empty(outputs, inputs).uniform_(-bound, bound, generator=chance).numpy()
            )
            params[f"{layer}.bias"] = torch.zeros(outputs).numpy()
        return {**params, **self._begun(seed)}

    def _begun(self, seed: int) -> dict[str, Array]:
        """The first weights of labels of several nodes, equal on all."""
        if not self._several:
            return {}
        count = len(self._several)
        bound = (6 / (HIDDEN[-1] + count)) ** 0.5  # heads have unlike widths, but all nodes begin alike
        weight = np.random.default_rng([seed, 1]).uniform(-bound, bound, (count, HIDDEN[-1])).astype(np.float32)
        return dict(zip(SEVERAL, (weight, np.zeros(count, np.float32), np.ones(count, np.float32)), strict=True))

    def _own(self, params: Mapping[str, Array]) -> Mapping[str, Array]:
        """Core and head with the averages of the labels that this node shares with others.

        A node tells the weights of a label that it has, and 1 in `several.held`; of one that it has not, zeros. Whatever
        the weights p of the nodes in the mean, sum p held W / sum p held is then the mean over the nodes that have
        the label. Where none of them took part, what the own head has stays; so does what was just learnt.
        """
        if "several.held" not in params:
            return params
        own, several = self._own_several
        held = params["several.held"][several]
        there = held > LEAST_HELD
        head = {name: np.array(params[name]) for name in HEAD}
        head["head.weight"][own[there]] = params["several.weight"][several[there]] / held[there, None]
        head["head.bias"][own[there]] = params["several.bias"][several[there]] / held[there]
        return {**params, **head}

    def _told(self, learned: Mapping[str, Array]) -> dict[str, Array]:
        """What a head tells the mesh of the labels that several nodes have."""
        if not self._several:
            return {}
        own, several = self._own_several
        weight = np.zeros((len(self._several), HIDDEN[-1]), np.float32)
        bias, held = (np.zeros(len(self._several), np.float32) for _ in range(2))
        weight[several], bias[several], held[several] = learned["head.weight"][own], learned["head.bias"][own], 1
        return dict(zip(SEVERAL, (weight, bias, held), strict=True))

    def _drawn(self, seeds: Sequence[int]) -> dict[str, Array]:
        params: dict[str, Array] = {}
        for layer, inputs, outputs, seed in zip(LAYERS, self._widths, self._widths[1:], seeds, strict=False):
            weights = uniform(seed, (inputs, outputs), (6 / (inputs + outputs)) ** 0.5)
            params[f"{layer}.weight"] = np.ascontiguousarray(weights.T)  # Keras has inputs first
            params[f"{layer}.bias"] = np.zeros(outputs, np.float32)
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, with a fresh Adam optimiser.

        The weight in the average counts the rows of validation too, as the thesis has it.
        """
        if task.row_privacy is not None:
            learner = self._learner(task)
            return self._steps(learner).descended(learner.task)
        return self._fit(task, train(self._learner(task)))

    def gradients(self, task: Task) -> Steps[Tensor] | None:
        """The same, batch by batch; not where several nodes have a label, whose weights are composed of two arrays."""
        return None if self._several else self._steps(self._learner(task))

    def _steps(self, learner: Learner) -> Steps[Tensor]:
        return gradients_of(learner, lambda learned: self._fit(learner.task, learned))

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """The same for many nodes: where their features are alike, their networks train as one computation."""
        if any(task.row_privacy is not None for _, task in jobs):
            return super().fit_many(jobs)
        fits = train_together([trainer._learner(task) for trainer, task in jobs])
        return [trainer._fit(task, learned) for (trainer, task), learned in zip(jobs, fits, strict=True)]

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Figures on this node's test and, as `global_...`, on the test common to all nodes, for its own labels.

        The accuracy that nodes compare is the argmax accuracy: what the thesis' tables give as SA.
        """
        tensors = self._tensors(params)
        figures, counts = _figures(tensors, self._test), self._counts(tensors, self._test)
        if len(self._common):
            figures |= {f"global_{name}": value for name, value in _figures(tensors, self._common).items()}
        return Score(figures["argmax_accuracy"], len(self._test), figures, counts=counts)

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Figures on this node's validation rows, for its own labels."""
        if not len(self._validation):
            return None
        tensors, part = self._tensors(params), self._validation
        figures = _figures(tensors, part)
        return Score(figures["argmax_accuracy"], len(part), figures, counts=self._counts(tensors, part))

    def input_spec(self) -> InputSpec:
        """One row, as in the data set."""
        names = self._features if len(set(self._features)) == self._widths[0] else ()
        hint = text("one row, with the columns of the data set")
        return InputSpec(
            "features",
            self._widths[:1],
            names=names,
            hint=hint,
            ignored=self._ignored,
            scale=()
            if self._scales is None
            else tuple((float(mean), float(spread)) for mean, spread in self._scales),
            scale_is_own="standardise" in self.agreement,
        )

    @torch.inference_mode()
    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """The probability of each of this node's labels."""
        rows = torch.tensor(standardised(inputs, self._scales), device=self._device)
        scores = _dense.outputs(self._tensors(params), LAYERS, rows)
        return Prediction(torch.sigmoid(scores).cpu().numpy(), "any_of")

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers, with this node's own head."""
        graph, params = OnnxGraph("MULTI_LABEL", self._widths[:1]), self._own(params)
        if self._scales is not None:
            graph.scale(self._scales[:, 0], self._scales[:, 1])
        for layer in ("core.0", "core.1"):
            graph.dense(params[f"{layer}.weight"].T, params[f"{layer}.bias"], name=layer).relu()
        return graph.dense(params["head.weight"].T, params["head.bias"], name="head").sigmoid().to_bytes()

    def inputs(self) -> Array:
        """The training rows."""
        return self._rows(self._train).inputs

    def tests(self) -> Mapping[str, Rows]:
        """The test rows, and those common to all nodes."""
        common = {"global_argmax_accuracy": self._rows(self._common)} if len(self._common) else {}
        return {"accuracy": self._rows(self._test), **common}

    @torch.inference_mode()
    def _counts(self, params: Mapping[str, Tensor], part: Part) -> EvaluationCounts:
        truth = part.y.cpu().numpy()
        chances = torch.sigmoid(_dense.outputs(params, LAYERS, part.x)).cpu().numpy()
        right = int((truth.argmax(axis=1) == chances.argmax(axis=1)).sum())  # by the argmax accuracy
        return label_counts(truth, chances >= 0.5, self._info.classes, right, chances)

    def _rows(self, part: Part) -> Rows:
        """Rows as `predict` takes them."""
        return replace(part.rows, inputs=as_in_the_file(part.rows.inputs, self._scales))

    def _learner(self, task: Task) -> Learner:
        params = {name: array for name, array in self._own(task.params).items() if name in (*CORE, *HEAD)}
        return Learner(LAYERS, self._train.x, self._train.y, replace(task, params=params))

    def _fit(self, task: Task, learned: Learnt) -> Fit:
        """What was learnt, with the figures of validation."""
        return Fit(
            {**learned.params, **self._told(learned.params)},
            examples=min(len(self._train), learned.batches * task.hyper.b) + len(self._validation),
            labels=self._widths[-1],
            metrics={"loss": learned.loss, **self._validated(self._tensors(learned.params))},
        )

    def _tensors(self, params: Mapping[str, Array]) -> dict[str, Tensor]:
        own = self._own(params)
        return {name: torch.tensor(own[name], device=self._device) for name in (*CORE, *HEAD)}

    @torch.inference_mode()
    def _validated(self, params: Mapping[str, Tensor]) -> dict[str, float]:
        part = self._validation
        figures = _figures(params, part)
        return {
            "validation_loss": float(loss(params, LAYERS, part.x, part.y)),
            "validation_accuracy": figures["argmax_accuracy"],
            "validation_f1_macro": figures["f1_macro"],
        }


@torch.inference_mode()
def _figures(params: Mapping[str, Tensor], part: Part) -> dict[str, float]:
    scores = torch.sigmoid(_dense.outputs(params, LAYERS, part.x))
    return multi_label_figures(part.y.cpu().numpy(), scores.cpu().numpy())


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's labels and rows, and the network for them."""
    device = chosen_device(settings.device)
    return MultiLabelNet(load_node_data(settings), settings.threads, device)
