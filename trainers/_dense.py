"""A chain of dense layers with ReLU between them and yes or no at each output, trained by Adam, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.trainer import Array, Fit, Task

from ._descent import BETAS, EPSILON, Proximal
from ._torch import Steps, shuffled


@dataclass(frozen=True)
class Learner:
    """One network and what it is to learn.

    Attributes:
        layers: names in order; layer "a" has "a.weight" (outputs, inputs) and "a.bias" (outputs,).
        x: training rows (n, V), float32.
        y: their labels (n, M), 0 or 1.
        task: parameters, hyper-parameters and seed.
    """

    layers: Sequence[str]
    x: Tensor
    y: Tensor
    task: Task


@dataclass(frozen=True)
class Learnt:
    """The result of training one network.

    Attributes:
        params: by name.
        loss: mean over its batches.
        batches: after which it ended.
    """

    params: dict[str, Array]
    loss: float
    batches: int


class Adam:
    """Adam (Kingma, Ba 2015) by hand: the first optimiser of torch.optim costs a second and 80 MB to import."""

    def __init__(self, params: Sequence[Tensor], rate: float) -> None:
        self._params, self._rate, self._steps = params, rate, 0
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step against these gradients."""
        self._steps += 1
        first, second = (1 - beta**self._steps for beta in BETAS)
        for param, gradient, (mean, square) in zip(self._params, gradients, self._moments, strict=True):
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            param.addcdiv_(mean, (square / second).sqrt_().add_(EPSILON), value=-self._rate / first)


def train(learner: Learner) -> Learnt:
    """`e` passes over the rows, each in a new order, with a fresh Adam optimiser."""
    task = learner.task
    params = {name: value.requires_grad_() for name, value in as_tensors(task.params, learner).items()}
    optimiser = Adam(list(params.values()), task.hyper.u)
    drawn = Proximal(params.values(), task.proximal)
    steps, loss_sum = shuffled(len(learner.y), task), 0.0
    for done, rows in enumerate(steps, start=1):
        error = loss(params, learner.layers, learner.x[rows], learner.y[rows])
        optimiser.step(drawn(params.values(), torch.autograd.grad(error, list(params.values()))))
        loss_sum += float(error.detach())
        task.progress(done, len(steps))
        if task.is_over():
            break
    arrays = {name: value.detach().cpu().numpy() for name, value in params.items()}
    return Learnt(arrays, loss_sum / done, done)


def gradients_of(learner: Learner, fit: Callable[[Learnt], Fit]) -> Steps[Tensor]:
    """The same training, batch by batch.

    Args:
        fit: what the trainer says of what was learnt.
    """

    def read(rows: Tensor) -> tuple[Tensor, Tensor]:
        return learner.x[rows], learner.y[rows]

    def error(params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return loss(params, learner.layers, x, y)

    def end(params: Mapping[str, Array], steps: int, mean: float) -> Fit:
        return fit(Learnt(dict(params), mean, steps))

    return Steps(shuffled(len(learner.y), learner.task), read, error, end, learner.x.device, "adam")


def as_tensors(params: Mapping[str, Array], learner: Learner) -> dict[str, Tensor]:
    """Copies of the parameters where the rows are, in the order of the layers."""
    names = [f"{layer}.{kind}" for layer in learner.layers for kind in ("weight", "bias")]
    return {name: torch.tensor(params[name], device=learner.x.device) for name in names}


def outputs(params: Mapping[str, Tensor], layers: Sequence[str], x: Tensor) -> Tensor:
    """One score per label before the sigmoid, (n, M)."""
    for layer in layers[:-1]:
        x = F.relu(F.linear(x, params[f"{layer}.weight"], params[f"{layer}.bias"]))
    return F.linear(x, params[f"{layers[-1]}.weight"], params[f"{layers[-1]}.bias"])


def loss(params: Mapping[str, Tensor], layers: Sequence[str], x: Tensor, y: Tensor) -> Tensor:
    """Mean binary cross-entropy over rows and labels."""
    return F.binary_cross_entropy_with_logits(outputs(params, layers, x), y.float())
