"""Bottom and top models of dense layers in numpy: enough for tables, and what other implementations are compared with.

Layers have ReLU between them. Layer i has "i.weight" (outputs, inputs) and, with a bias, "i.bias" (outputs,), as in
PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flnet.algorithms.vertical.optimisers import PureDescent
from flnet.labels.losses import cross_entropy
from flnet.params.params import Array, Params
from flnet.trainer import Meaning, Optimiser
from flnet.vertical_trainer import BottomModel, ModelState, SplitModel, TopModel, TopStep

STEPS = "steps"  # of the optimiser, in a saved state


@dataclass(frozen=True)
class Layers:
    """The shape of a chain of dense layers.

    Attributes:
        widths: of the inputs, of each hidden layer, and of the outputs.
        bias: whether layers have one.
        relu_at_end: whether ReLU follows the last layer too.
    """

    widths: tuple[int, ...]
    bias: bool = True
    relu_at_end: bool = False

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ValueError(f"widths={self.widths}")

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self.widths) - 1

    def initial(self, seed: int, dtype: DTypeLike = np.float32) -> dict[str, Array]:
        """Weights uniform within sqrt(6 / inputs) (He et al. 2015, for ReLU), biases 0; equal seeds give equal ones."""
        chance, weights = np.random.default_rng(seed), {}
        for layer, (ins, outs) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            bound = (6 / ins) ** 0.5
            weights[f"{layer}.weight"] = chance.uniform(-bound, bound, (outs, ins)).astype(dtype)
            if self.bias:
                weights[f"{layer}.bias"] = np.zeros(outs, dtype)
        return weights

    def names(self, layer: int) -> tuple[str, ...]:
        """Names of the arrays of one layer."""
        return (f"{layer}.weight", f"{layer}.bias") if self.bias else (f"{layer}.weight",)

    def forward(self, weights: Mapping[str, Array], x: Array) -> list[Array]:
        """The inputs, what comes out of each hidden layer, and the outputs (b, widths[-1])."""
        passed = [x]
        for layer in range(self.count):
            x = x @ weights[f"{layer}.weight"].T
            if self.bias:
                x = x + weights[f"{layer}.bias"]
            if layer < self.count - 1 or self.relu_at_end:
                x = np.maximum(x, 0)
            passed.append(x)
        return passed

    def backward(
        self, weights: Mapping[str, Array], passed: Sequence[Array], gradient: Array
    ) -> tuple[dict[str, Array], Array]:
        """Gradients by weights, and by the inputs.

        Args:
            passed: as `forward` gave it with these weights.
            gradient: (b, widths[-1]) by the outputs.
        """
        found: dict[str, Array] = {}
        for layer in reversed(range(self.count)):
            if layer < self.count - 1 or self.relu_at_end:
                gradient = gradient * (passed[layer + 1] > 0)
            found[f"{layer}.weight"] = gradient.T @ passed[layer]
            if self.bias:
                found[f"{layer}.bias"] = gradient.sum(axis=0)
            gradient = gradient @ weights[f"{layer}.weight"]
        return found, gradient


class _Dense(SplitModel):
    """Weights of some layers and their optimiser."""

    def __init__(
        self, layers: Layers, weights: Mapping[str, Array], optimiser: Optimiser = "adam", rate: float = 0.001
    ) -> None:
        """Args:
        layers: their shape.
        weights: to begin with, such as `layers.initial(seed)`; their dtype is that of all computations.
        optimiser: "sgd", "momentum" or "adam".
        rate: of learning.
        """
        self.layers = layers
        self._weights: dict[str, Array] = dict(ModelState(Params(weights)).weights_like(weights))
        self._optimiser, self._rate = optimiser, rate
        self._descent = PureDescent(optimiser, rate)
        self._dtype = weights["0.weight"].dtype

    def state(self) -> ModelState:
        """The weights, and the optimiser's moments and number of steps; steps make new arrays."""
        return ModelState(Params(self._weights), saved(self._descent.steps, self._descent.moments))

    def load(self, state: ModelState) -> None:
        """Take over a state."""
        self._weights = dict(state.weights_like(self._weights))
        self._descent = PureDescent(self._optimiser, self._rate)
        self._descent.load(*restored(state.optimiser))


def saved(steps: int, moments: Mapping[str, Array]) -> Params:
    """What an optimiser remembers, as named arrays; none before its first step."""
    return Params({**moments, STEPS: np.array(steps)}) if steps else Params()


def restored(optimiser: Params) -> tuple[int, dict[str, Array]]:
    """Steps and moments from these arrays."""
    moments = {name: array for name, array in optimiser.items() if name != STEPS}
    return int(optimiser[STEPS]) if STEPS in optimiser else 0, moments


class DenseBottom(_Dense, BottomModel):
    """A bottom model of dense layers."""

    def __init__(
        self, layers: Layers, weights: Mapping[str, Array], optimiser: Optimiser = "adam", rate: float = 0.001
    ) -> None:
        super().__init__(layers, weights, optimiser, rate)
        self.width = layers.widths[-1]
        self._under_way: dict[int, tuple[dict[str, Array], list[Array]]] = {}

    def outputs(self, features: Array) -> Array:
        """Outputs of rows that are not trained on."""
        return self.layers.forward(self._weights, np.asarray(features, self._dtype))[-1]

    def forward(self, step: int, features: Array) -> Array:
        """Outputs of a batch; the weights and the activations are kept."""
        passed = self.layers.forward(self._weights, np.asarray(features, self._dtype))
        self._under_way[step] = self._weights, passed
        return passed[-1]

    def backward(self, step: int, gradient: Array) -> None:
        """One step by the gradient at the weights of `forward`."""
        weights, passed = self._under_way.pop(step)
        found, _ = self.layers.backward(weights, passed, np.asarray(gradient, self._dtype))
        self._weights = self._descent.step(self._weights, found)

    def load(self, state: ModelState) -> None:
        """Take over a state; batches under way are dropped."""
        super().load(state)
        self._under_way.clear()


class DenseTop(_Dense, TopModel):
    """A top model of dense layers, for one of several classes."""

    def __init__(
        self,
        layers: Layers,
        weights: Mapping[str, Array],
        optimiser: Optimiser = "adam",
        rate: float = 0.001,
        *,
        private_output: bool = False,
    ) -> None:
        """Args:
        layers: with as many outputs as there are classes; with one output for two classes.
        weights: to begin with.
        optimiser: "sgd", "momentum" or "adam".
        rate: of learning.
        private_output: whether the last layer is kept back when several label holders average their models.
        """
        super().__init__(layers, weights, optimiser, rate)
        private = layers.names(layers.count - 1) if private_output else ()
        self.shared = tuple(name for name in weights if name not in private)

    def step(self, inputs: Array, labels: Array) -> TopStep:
        """One step by the gradient of the mean loss."""
        passed = self.layers.forward(self._weights, np.asarray(inputs, self._dtype))
        loss, gradient = self._loss(passed[-1], labels)
        found, back = self.layers.backward(self._weights, passed, gradient.astype(self._dtype))
        self._weights = self._descent.step(self._weights, found)
        return TopStep(loss, back)

    def loss(self, inputs: Array, labels: Array) -> float:
        """Mean loss of these rows."""
        return self._loss(self._scores(inputs), labels)[0]

    def predict(self, inputs: Array) -> Array:
        """Probabilities (b, k)."""
        scores = self._scores(inputs)
        if scores.shape[1] == 1:
            return np.hstack([sigmoid(-scores), sigmoid(scores)])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _scores(self, inputs: Array) -> NDArray[np.float64]:
        return self.layers.forward(self._weights, np.asarray(inputs, self._dtype))[-1].astype(np.float64)

    def _loss(self, scores: Array, labels: Array) -> tuple[float, Array]:
        if scores.shape[1] == 1:
            return yes_or_no_loss(scores, np.asarray(labels).reshape(-1, 1))
        loss = cross_entropy(scores.astype(np.float64), np.asarray(labels, np.int64))
        return loss.value, loss.gradient


class DenseMultiLabelTop(DenseTop):
    """A top model of dense layers for labels of which a row may have any, as in MLFedAvg."""

    meaning: ClassVar[Meaning] = "any_of"

    def predict(self, inputs: Array) -> Array:
        """The probability of each label by itself."""
        return sigmoid(self._scores(inputs))

    def _loss(self, scores: Array, labels: Array) -> tuple[float, Array]:
        return yes_or_no_loss(scores, np.asarray(labels).reshape(scores.shape))


def yes_or_no_loss(scores: Array, truth: Array) -> tuple[float, Array]:
    """Binary cross-entropy, mean over rows and columns, and its gradient by the scores.

    Args:
        scores: (b, k) before the sigmoid.
        truth: (b, k) of 0 and 1.
    """
    scores, truth = scores.astype(np.float64), truth.astype(np.float64)
    each = np.log1p(np.exp(-np.abs(scores))) + np.maximum(scores, 0) - scores * truth
    return float(each.mean()), (sigmoid(scores) - truth) / scores.size


def sigmoid(scores: Array) -> Array:
    """1 / (1 + exp(-scores)) without an overflow."""
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1, small) / (1 + small))
