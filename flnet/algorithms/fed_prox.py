"""FedProx: local training with a proximal term, which keeps the model near its start.

T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import replace

from flnet.algorithms.wrapper import Wrapped
from flnet.trainer import Task, Trainer


class Proximal(Wrapped):
    """A trainer that adds mu (w - w at the start) to its gradients."""

    def __init__(self, inner: Trainer, seed: int, mu: float) -> None:
        """Args:
        mu: how strongly it is held.
        """
        super().__init__(inner, seed)
        self._mu = mu

    def added(self, task: Task) -> Task:
        """The task with mu in it."""
        return replace(super().added(task), proximal=self._mu)
