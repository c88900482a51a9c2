"""Gradient descent on named arrays: the steps that flnet does itself, where a method changes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.params import Array

MOMENTUM = 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-7


class Descent:
    """Plain descent, descent with momentum, or Adam (Kingma, Ba 2015); one object for one training."""

    def __init__(self, optimiser: str, rate: float) -> None:
        """Args:
        optimiser: "sgd", "momentum" (0.9) or "adam".
        rate: of learning.
        """
        self._optimiser, self._rate, self._steps = optimiser, rate, 0
        self._first: dict[str, Array] = {}
        self._second: dict[str, Array] = {}

    def step(self, params: Mapping[str, Array], gradients: Mapping[str, Array]) -> None:
        """One step, in place; arrays without a gradient stay as they are."""
        self._steps += 1
        for name, gradient in gradients.items():
            param = params[name]
            param -= self._change(name, gradient).astype(param.dtype, copy=False)

    def _change(self, name: str, gradient: Array) -> Array:
        if self._optimiser == "sgd":
            return np.asarray(gradient * self._rate)
        if self._optimiser == "momentum":
            speed = self._kept(self._first, name, gradient)
            speed *= MOMENTUM
            speed += gradient
            return np.asarray(speed * self._rate)
        mean, square = self._kept(self._first, name, gradient), self._kept(self._second, name, gradient)
        mean += (1 - BETAS[0]) * (gradient - mean)
        square += (1 - BETAS[1]) * (gradient * gradient - square)
        first, second = (1 - beta**self._steps for beta in BETAS)
        return np.asarray(self._rate / first * mean / (np.sqrt(square / second) + EPSILON))

    def _kept(self, moments: dict[str, Array], name: str, gradient: Array) -> Array:
        if name not in moments:
            moments[name] = np.zeros_like(gradient)
        return moments[name]
