"""Helpers of trainers in PyTorch: choice of the device, first weights, a step of gradient descent, digests of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from flnet.installing import install
from flnet.text import text
from flnet.trainer import Array, Fit, NoisySteps, Optimiser, RowPrivacy, Task, TrainerError

from ._batches import Batches, Drawn
from ._descent import MOMENTUM, Proximal

CPU = torch.device("cpu")
B = TypeVar("B")  # what a batch is told by: its row numbers


def chosen_device(wanted: str) -> torch.device:
    """The device that FLNET_DEVICE names; "auto" is a GPU if there is one.

    Raises:
        TrainerError: PyTorch cannot use it on this machine.
    """
    present: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if wanted == "auto":
        wanted = next((name for name, is_there in present.items() if is_there()), "cpu")
    elif wanted in present and not present[wanted]():
        what = {"cuda": "an NVIDIA GPU", "mps": "an Apple GPU"}[wanted]
        raise TrainerError(
            text(
                "FLNET_DEVICE={device} asks for {what}, but PyTorch {version} can use none here; set "
                "FLNET_DEVICE to auto or cpu",
                wanted,
                what,
                torch.__version__,
            )
        )
    return torch.device(wanted)


def fresh(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
    """Weights uniform within 1 / sqrt(inputs), biases 0; equal seeds give equal ones."""
    chance = torch.Generator().manual_seed(seed)
    params = {}
    for name, shape in shapes.items():
        tensor = torch.zeros(shape)
        if name.endswith("weight"):
            bound = tensor[0].numel() ** -0.5
            tensor.uniform_(-bound, bound, generator=chance)
        params[name] = tensor.numpy()
    return params


@torch.no_grad()
def descend(
    params: Mapping[str, Tensor], speed: Mapping[str, Tensor], gradients: tuple[Tensor, ...], rate: float
) -> None:
    """One step of gradient descent with momentum, in place.

    By hand: the first optimiser of torch.optim costs a second and 80 MB for its imports.
    """
    for (name, tensor), gradient in zip(params.items(), gradients, strict=True):
        tensor.sub_(speed[name].mul_(MOMENTUM).add_(gradient), alpha=rate)


class Steps(Generic[B]):
    """A training of a network in PyTorch, batch by batch: `flnet.trainer.Gradients`."""

    def __init__(
        self,
        batches: Sequence[B] | Batches[B],
        read: Callable[[B], tuple[Tensor, ...]],
        loss: Callable[..., Tensor],
        fit: Callable[[Mapping[str, Array], int, float], Fit],
        device: torch.device,
        optimiser: Optimiser = "momentum",
    ) -> None:
        """Args:
        batches: of all passes, in order.
        read: a batch as tensors with one entry for each row.
        loss: of parameters by name and these tensors: the mean over their rows, each of which counts alone.
        fit: what is said of a training: parameters, batches done, mean loss over them.
        device: where the rows are.
        optimiser: by which the network is trained usually.
        """
        self.steps, self.optimiser = len(batches), optimiser
        self._batches, self._read, self._loss, self._fit, self._device = batches, read, loss, fit, device

    def __call__(self, params: Mapping[str, Array], step: int) -> tuple[float, Mapping[str, Array]]:
        """Loss and gradient on the batch of this step."""
        tensors = {name: torch.tensor(value, device=self._device) for name, value in params.items()}
        leaves = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
        error = self._loss(leaves, *self._read(self._batches[step]))
        gradients = torch.autograd.grad(error, list(tensors.values()))
        return float(error.detach()), {n: g.cpu().numpy() for n, g in zip(tensors, gradients, strict=True)}

    def fit(self, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        """The result of a training that ended here."""
        return self._fit(params, steps, loss)

    def descended(self, task: Task) -> Fit:
        """All steps, by gradient descent with momentum, or so that single rows are hidden.

        Raises:
            TrainerError: rows are to be hidden, and are not drawn for that, or Opacus is not installed.
        """
        if task.row_privacy is not None:
            return self._hidden(task, task.row_privacy)
        tensors = {name: torch.tensor(value, device=self._device) for name, value in task.params.items()}
        params = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
        speed = {name: torch.zeros_like(tensor) for name, tensor in params.items()}
        drawn, losses = Proximal(params.values(), task.proximal), 0.0
        for done, batch in enumerate(self._batches, start=1):
            error = self._loss(params, *self._read(batch))
            gradients = torch.autograd.grad(error, list(params.values()))
            descend(params, speed, drawn(params.values(), gradients), task.hyper.u)
            losses += float(error.detach())
            task.progress(done, self.steps)
            if task.is_over():
                break
        learned = {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}
        return self._fit(learned, done, losses / done)

    def _hidden(self, task: Task, privacy: RowPrivacy) -> Fit:
        try:
            from ._row_privacy import descend_hidden  # noqa: PLC0415  it takes an extra that few nodes have
        except ModuleNotFoundError as exc:
            raise TrainerError(
                text("hiding single rows in PyTorch needs {module}: {command}", exc.name, install("privacy"))
            ) from exc
        if not isinstance(self._batches, Drawn):
            raise TrainerError(
                text("this training cannot hide single rows: its batches do not draw each row alone")
            )
        params = {
            name: torch.tensor(value, device=self._device, requires_grad=True)
            for name, value in task.params.items()
        }
        done, loss = descend_hidden(task, privacy, params, self._batches, self._read, self._loss, self.optimiser)
        learned = {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}
        return replace(self._fit(learned, done, loss), noisy=NoisySteps(self._batches.rate, done))


def shuffled(rows: int, task: Task) -> Batches[Tensor]:
    """Batches of so many rows, in a new order in each epoch, or drawn."""
    if task.row_privacy is not None:
        return Drawn(torch.arange(rows), task)

    def orders() -> Iterator[Tensor]:
        chance = torch.Generator().manual_seed(task.seed)
        while True:
            yield torch.randperm(rows, generator=chance)

    return Batches(orders, rows, task)


def digest(arrays: Mapping[str, Array]) -> bytes:
    """Sixteen bytes, equal for arrays of equal names and contents: what was measured need not be again."""
    checksum = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        checksum.update(f"{name} {arrays[name].shape} ".encode())
        checksum.update(arrays[name].tobytes())
    return checksum.digest()
