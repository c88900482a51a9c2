"""DP-SGD (Abadi et al. 2016) for networks in PyTorch, by Opacus: each single row is hidden in what a training gives.

Opacus' optimiser clips the gradients of rows, adds them up, and scales the noisy sum. Its own way to gradients of rows
needs networks as modules; those here are functions of their parameters, for which it takes gradients that PyTorch's
`vmap` made. Noise and draws of rows come from the system's source for secrets and not from PyTorch's generator, which
can be foreseen. For that, Opacus needs the package torchcsprng, of which there is none for the PyTorch of today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from torch import Tensor
from torch.func import grad_and_value, vmap

from flnet.security.noise import system_noise
from flnet.trainer import Optimiser, RowPrivacy, Task

from ._batches import Drawn
from ._descent import BETAS, EPSILON, MOMENTUM, Proximal

PIECE = 2**23  # numbers in the gradients of the rows that are in memory at once: 32 MB


class SecretNoise(DPOptimizer):  # type: ignore[misc]
    """Opacus' optimiser, with noise that nobody can foresee."""

    def add_noise(self) -> None:
        """Give each parameter the sum of its clipped gradients with noise, as Opacus does it."""
        for param in self.params:
            noise = self.noise_multiplier * self.max_grad_norm * system_noise(param.numel()).reshape(param.shape)
            param.grad = param.summed_grad + torch.tensor(noise, dtype=param.dtype, device=param.device)


def descend_hidden(
    task: Task,
    privacy: RowPrivacy,
    params: Mapping[str, Tensor],
    batches: Drawn[Any],
    read: Callable[[Any], tuple[Tensor, ...]],
    loss: Callable[..., Tensor],
    optimiser: Optimiser,
) -> tuple[int, float]:
    """All steps of a training, in place.

    Args:
        params: leaves that require gradients, in float32.
        read: rows by number as tensors with one entry each.
        loss: of parameters by name and these tensors, for any number of rows the mean of what each costs alone.

    Returns:
        How many steps were done, and the mean loss of the rows that were drawn, before each step.
    """
    tensors, rows_at_once = list(params.values()), max(1, PIECE // sum(map(Tensor.numel, params.values())))
    private = SecretNoise(
        _plain(optimiser, tensors, task.hyper.u),
        noise_multiplier=privacy.noise_multiplier,
        max_grad_norm=privacy.clip,
        expected_batch_size=batches.expected,
    )
    private.attach_step_hook(_pulled(tensors, task.proximal))
    losses, drawn = 0.0, 0
    for done, batch in enumerate(batches, start=1):
        rows, drawn = len(batch), drawn + len(batch)
        for start in range(0, max(1, rows), rows_at_once):
            slopes, errors = row_gradients(params, loss, read(batch[start : start + rows_at_once]))
            for tensor, slope in zip(tensors, slopes, strict=True):
                tensor.grad_sample = slope  # type: ignore[attr-defined]  # where Opacus looks
            private.signal_skip_step(start + rows_at_once < rows)
            private.step()
            private.zero_grad()
            losses += float(errors.sum())
        task.progress(done, len(batches))
        if task.is_over():
            break
    return done, losses / max(1, drawn)


def row_gradients(
    params: Mapping[str, Tensor], loss: Callable[..., Tensor], rows: tuple[Tensor, ...]
) -> tuple[list[Tensor], Tensor]:
    """The gradient of each row, (n, *shape) for each parameter in their order, and its loss, (n,).

    Args:
        rows: tensors with one entry for each row, n of them, which may be 0.
    """
    if not len(rows[0]):
        return [tensor.new_zeros(0, *tensor.shape) for tensor in params.values()], torch.zeros(0)

    def of_one(held: Mapping[str, Tensor], *row: Tensor) -> Tensor:
        return loss(held, *(part.unsqueeze(0) for part in row))

    held = {name: tensor.detach() for name, tensor in params.items()}
    slopes, errors = vmap(grad_and_value(of_one), in_dims=(None, *(0 for _ in rows)))(held, *rows)
    return [slopes[name] for name in params], errors


def _plain(optimiser: Optimiser, tensors: list[Tensor], rate: float) -> torch.optim.Optimizer:
    """What does with noisy gradients what the trainer does with others."""
    if optimiser == "adam":
        return torch.optim.Adam(tensors, rate, BETAS, EPSILON)
    return torch.optim.SGD(tensors, rate, momentum=MOMENTUM if optimiser == "momentum" else 0.0)


def _pulled(tensors: list[Tensor], mu: float) -> Callable[[DPOptimizer], None]:
    """Adds FedProx's term to noisy gradients; it depends on no row."""
    drawn = Proximal(tensors, mu)

    def pull(optimiser: DPOptimizer) -> None:
        slopes = tuple(tensor.grad for tensor in tensors if tensor.grad is not None)
        for tensor, slope in zip(tensors, drawn(tensors, slopes), strict=True):
            tensor.grad = slope

    return pull
