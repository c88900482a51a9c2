"""How networks in PyTorch descend: what trainings with and without hidden rows have in common."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

MOMENTUM = 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-7  # of Adam


class Proximal:
    """The term mu (w - w at the start) of FedProx (Li et al. 2020, section 3.2), added to gradients."""

    def __init__(self, params: Iterable[Tensor], mu: float) -> None:
        """Args:
        params: as they are at the start.
        mu: 0 for no such term.
        """
        self._mu = mu
        self._start = [param.detach().clone() for param in params] if mu else []

    @torch.no_grad()
    def __call__(self, params: Iterable[Tensor], gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The gradients with it; without such a term they themselves."""
        if not self._mu:
            return gradients
        triples = zip(params, self._start, gradients, strict=True)
        return tuple(gradient + self._mu * (param - start) for param, start, gradient in triples)
