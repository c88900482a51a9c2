"""SCAFFOLD on one node: plain steps, corrected by control variates; see `flnet.personal.controls`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flnet.params import MergeRule
from flnet.personal import Descent, corrected, renewed
from flnet.training.api import Fit, Task, Trainer
from flnet.training.methods.base import Model, Wrapped, drawn, no_clash, opened, walked

COMMON, OWN = "control/", "own control/"


class Controlled(Wrapped):
    """A trainer whose shared arrays are trained by corrected steps of plain gradient descent.

    What is sent as "control/..." is this node's new control variate; the merging rule makes the common one of all.
    """

    def __init__(self, inner: Trainer, seed: int, mu: float = 0.0) -> None:
        """Args:
        mu: of FedProx's term.
        """
        super().__init__(inner, seed)
        no_clash(self.names, (COMMON, OWN))
        self._mu = mu
        self._controlled = tuple(name for name in self.trained if name in self.sent)
        control: MergeRule = "control"
        self.shared = (*self.sent, *(COMMON + name for name in self._controlled))
        self.merge = {**inner.merge, **{COMMON + name: control for name in self._controlled}}

    def initial_params(self, seed: int) -> Model:
        """Control variates begin at 0."""
        first = self.inner.initial_params(seed)
        zeros = {name: np.zeros_like(first[name]) for name in self._controlled}
        return {**first, **{COMMON + n: v for n, v in zeros.items()}, **{OWN + n: v for n, v in zeros.items()}}

    def fit(self, task: Task) -> Fit:
        """All steps, each by g - own + common."""
        start = self.inside(task.params)
        common, own = ({n: task.params[side + n] for n in self._controlled} for side in (COMMON, OWN))
        gradients = opened(self.inner, replace(task, params=start))
        params = {name: np.array(value) for name, value in start.items()}
        descent = Descent("sgd", task.hyper.u)

        def step(number: int) -> float:
            loss, slope = gradients(params, number)
            slope = drawn(slope, params, start, self._mu)
            descent.step(params, {**slope, **corrected({n: slope[n] for n in self._controlled}, own, common)})
            return loss

        done, loss = walked(gradients, task, step)
        new = renewed(own, common, start, params, max(1, done), task.hyper.u)
        fit = gradients.fit(params, done, loss)
        sides = {side + name: value for side in (COMMON, OWN) for name, value in new.items()}
        return replace(fit, params={**task.params, **fit.params, **sides})
