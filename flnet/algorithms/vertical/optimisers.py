"""Gradient descent, with momentum, and Adam, written once for numpy arrays and for tensors.

`flnet.algorithms.wrapper.Descent` steps in place and ends with its training. Models of a split network cannot use
that: batches under way need the weights that their outputs were computed with, and a node that restarts goes on with
the optimiser's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flnet.algorithms.wrapper import BETAS, EPSILON, MOMENTUM
from flnet.trainer import Optimiser

Numbers = Any  # a numpy array or a tensor: only arithmetic operators are used on it
FIRST, SECOND = "first", "second"


class PureDescent:
    """Steps of one optimiser; each makes new weights and leaves the old ones as they were.

    Attributes:
        steps: how many were made.
        moments: {"first/NAME": ..., "second/NAME": ...}, as far as the optimiser has any.
    """

    def __init__(self, optimiser: Optimiser, rate: float) -> None:
        """Args:
        optimiser: "sgd", "momentum" (0.9), or "adam" (Kingma, Ba 2015, Algorithm 1).
        rate: of learning.
        """
        if optimiser not in ("sgd", "momentum", "adam") or not rate > 0:
            raise ValueError(f"optimiser={optimiser!r}, rate={rate!r}")
        self._optimiser, self._rate = optimiser, rate
        self.steps = 0
        self.moments: dict[str, Numbers] = {}

    def step(self, weights: Mapping[str, Numbers], gradients: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """The weights after one step; those without a gradient stay as they are."""
        self.steps += 1
        return {
            name: weight - self._change(name, gradients[name]) if name in gradients else weight
            for name, weight in weights.items()
        }

    def load(self, steps: int, moments: Mapping[str, Numbers]) -> None:
        """Go on from what an optimiser of the same kind remembered."""
        self.steps, self.moments = steps, dict(moments)

    def _change(self, name: str, gradient: Numbers) -> Numbers:
        if self._optimiser == "sgd":
            return self._rate * gradient
        if self._optimiser == "momentum":
            speed = MOMENTUM * self._moment(FIRST, name, gradient) + gradient
            self.moments[f"{FIRST}/{name}"] = speed
            return self._rate * speed
        mean, square = self._moment(FIRST, name, gradient), self._moment(SECOND, name, gradient)
        mean = mean + (1 - BETAS[0]) * (gradient - mean)
        square = square + (1 - BETAS[1]) * (gradient * gradient - square)
        self.moments[f"{FIRST}/{name}"], self.moments[f"{SECOND}/{name}"] = mean, square
        first, second = (1 - beta**self.steps for beta in BETAS)
        return self._rate / first * mean / ((square / second) ** 0.5 + EPSILON)

    def _moment(self, which: str, name: str, gradient: Numbers) -> Numbers:
        return self.moments.get(f"{which}/{name}", 0 * gradient)
