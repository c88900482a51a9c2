"""Bottom and top models of vertical trainers in PyTorch: any network that is a function of its weights, on any device.

It is no trainer by itself, as its name says: a vertical plug-in brings the columns and imports these models. With the
same dense layers and weights they train as `flnet.algorithms.vertical.numpy_models` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.algorithms.vertical.numpy_models import Layers, restored, saved
from flnet.algorithms.vertical.optimisers import PureDescent
from flnet.trainer import Array, Meaning, Optimiser
from flnet.vertical_trainer import BottomModel, ModelState, Params, SplitModel, TopModel, TopStep

from ._torch import CPU

Weights = Mapping[str, Tensor]
Network = Callable[[Weights, Tensor], Tensor]


def dense(layers: Layers) -> Network:
    """Dense layers as a function of weights and inputs."""

    def outputs(weights: Weights, x: Tensor) -> Tensor:
        for layer in range(layers.count):
            x = F.linear(x, weights[f"{layer}.weight"], weights.get(f"{layer}.bias"))
            if layer < layers.count - 1 or layers.relu_at_end:
                x = F.relu(x)
        return x

    return outputs


class _Torch(SplitModel):
    """Weights of a network and their optimiser. A step makes new tensors, so batches under way keep the old ones."""

    def __init__(
        self,
        network: Network,
        weights: Mapping[str, Array],
        optimiser: Optimiser = "adam",
        rate: float = 0.001,
        device: torch.device = CPU,
    ) -> None:
        """Args:
        network: from weights and inputs (b, ...) to outputs (b, q). It must not change weights itself.
        weights: to begin with; their dtype is that of all computations.
        optimiser: "sgd", "momentum" or "adam".
        rate: of learning.
        device: where it works.
        """
        self._network, self._device = network, device
        self._optimiser, self._rate = optimiser, rate
        self._descent = PureDescent(optimiser, rate)
        self._weights = {name: self._leaf(value) for name, value in weights.items()}

    def state(self) -> ModelState:
        """Copies of the weights and of what the optimiser remembers, as numpy arrays."""
        moments = {name: _array(value) for name, value in self._descent.moments.items()}
        weights = Params({name: _array(value) for name, value in self._weights.items()})
        return ModelState(weights, saved(self._descent.steps, moments))

    def load(self, state: ModelState) -> None:
        """Take over a state."""
        weights = state.weights_like(self.state().weights)
        self._weights = {name: self._leaf(weights[name]) for name in self._weights}
        steps, moments = restored(state.optimiser)
        self._descent = PureDescent(self._optimiser, self._rate)
        self._descent.load(steps, {name: self._tensor(value) for name, value in moments.items()})

    @torch.no_grad()
    def _descend(self, gradients: tuple[Tensor, ...]) -> None:
        by_name = dict(zip(self._weights, gradients, strict=True))
        stepped = self._descent.step(self._weights, by_name)
        self._weights = {name: value.detach().requires_grad_() for name, value in stepped.items()}

    def _leaf(self, value: Array) -> Tensor:
        return self._tensor(value).requires_grad_()

    def _tensor(self, value: Array) -> Tensor:
        return torch.tensor(value, device=self._device)

    def _inputs(self, values: Array) -> Tensor:
        """Inputs in the dtype of the weights; whole numbers, such as those of words, stay what they are."""
        inputs = self._tensor(values)
        return inputs.to(next(iter(self._weights.values())).dtype) if inputs.is_floating_point() else inputs


class TorchBottom(_Torch, BottomModel):
    """A bottom model in PyTorch."""

    def __init__(
        self,
        network: Network,
        width: int,
        weights: Mapping[str, Array],
        optimiser: Optimiser = "adam",
        rate: float = 0.001,
        device: torch.device = CPU,
    ) -> None:
        super().__init__(network, weights, optimiser, rate, device)
        self.width = width
        self._under_way: dict[int, tuple[list[Tensor], Tensor]] = {}

    @torch.no_grad()
    def outputs(self, features: Array) -> Array:
        """Outputs of rows that are not trained on."""
        return _array(self._network(self._weights, self._inputs(features)))

    def forward(self, step: int, features: Array) -> Array:
        """Outputs of a batch; the graph is kept."""
        outputs = self._network(self._weights, self._inputs(features))
        self._under_way[step] = list(self._weights.values()), outputs
        return _array(outputs)

    def backward(self, step: int, gradient: Array) -> None:
        """One step by the gradient at the weights of `forward`."""
        weights, outputs = self._under_way.pop(step)
        self._descend(torch.autograd.grad(outputs, weights, self._inputs(gradient)))

    def load(self, state: ModelState) -> None:
        """Take over a state; batches under way are dropped."""
        super().load(state)
        self._under_way.clear()


class TorchTop(_Torch, TopModel):
    """A top model in PyTorch, for one of several classes; one output stands for two classes."""

    def __init__(
        self,
        network: Network,
        weights: Mapping[str, Array],
        optimiser: Optimiser = "adam",
        rate: float = 0.001,
        device: torch.device = CPU,
        *,
        shared: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(network, weights, optimiser, rate, device)
        self.shared = shared

    def step(self, inputs: Array, labels: Array) -> TopStep:
        """One step by the gradient of the mean loss."""
        x, weights = self._inputs(inputs).requires_grad_(), list(self._weights.values())
        loss = self._loss(self._network(self._weights, x), labels)
        *gradients, back = torch.autograd.grad(loss, [*weights, x])
        self._descend(tuple(gradients))
        return TopStep(float(loss.detach()), _array(back))

    @torch.no_grad()
    def loss(self, inputs: Array, labels: Array) -> float:
        """Mean loss of these rows."""
        return float(self._loss(self._network(self._weights, self._inputs(inputs)), labels))

    @torch.no_grad()
    def predict(self, inputs: Array) -> Array:
        """Probabilities (b, k)."""
        scores = self._network(self._weights, self._inputs(inputs))
        if scores.shape[1] == 1:
            return _array(torch.hstack([torch.sigmoid(-scores), torch.sigmoid(scores)]))
        return _array(scores.softmax(1))

    def _loss(self, scores: Tensor, labels: Array) -> Tensor:
        if scores.shape[1] == 1:
            return self._yes_or_no(scores, labels)
        return F.cross_entropy(scores, self._tensor(np.asarray(labels, np.int64)))

    def _yes_or_no(self, scores: Tensor, labels: Array) -> Tensor:
        truth = self._tensor(np.asarray(labels)).reshape(scores.shape).to(scores.dtype)
        return F.binary_cross_entropy_with_logits(scores, truth)


class TorchMultiLabelTop(TorchTop):
    """A top model in PyTorch for labels of which a row may have any."""

    meaning: ClassVar[Meaning] = "any_of"

    @torch.no_grad()
    def predict(self, inputs: Array) -> Array:
        """The probability of each label by itself."""
        return _array(torch.sigmoid(self._network(self._weights, self._inputs(inputs))))

    def _loss(self, scores: Tensor, labels: Array) -> Tensor:
        return self._yes_or_no(scores, labels)


def _array(tensor: Tensor) -> Array:
    """A copy that later steps cannot change."""
    return np.array(tensor.detach().cpu().numpy())
