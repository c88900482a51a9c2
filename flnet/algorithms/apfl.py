"""APFL: a second, personal model next to the common one, and a learnt share by which the two are mixed.

Y. Deng, M. Kamani, M. Mahdavi, "Adaptive Personalized Federated Learning", arXiv 2003.13461, 2020, Algorithm 1. The
second model descends plainly, as printed there, whatever optimiser trains the common one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from flnet.algorithms.wrapper import Descent, Model, TwoModels, drawn, no_clash, opened, walked
from flnet.params.params import Array
from flnet.trainer import Fit, Method, Task, Trainer


def mixed(own: Mapping[str, Array], common: Mapping[str, Array], share: float) -> dict[str, Array]:
    """share x own + (1 - share) x common; arrays that only the common model has are taken from there.

    Args:
        share: alpha, in [0, 1].
    """
    return {
        name: (share * own[name] + (1 - share) * array).astype(array.dtype) if name in own else array
        for name, array in common.items()
    }


def moved_share(
    share: float, rate: float, own: Mapping[str, Array], common: Mapping[str, Array], slope: Mapping[str, Array]
) -> float:
    """The share after a step along its own gradient, within [0, 1].

    Args:
        own, common: as they were before the step.
        slope: gradient of the loss at their mixture.
    """
    along = sum(float(np.vdot(own[name] - common[name], slope[name])) for name in sorted(slope) if name in own)
    return float(min(max(share - rate * along, 0.0), 1.0))


OWN, SHARE = "personal/", "personal-share"


class Adaptive(TwoModels):
    """A trainer with a private second model and a private share of it in the mixture."""

    def __init__(self, inner: Trainer, seed: int, method: Method) -> None:
        """Args:
        method: with what the share begins, how it learns, by which optimiser, which model answers.
        """
        super().__init__(inner, seed)
        no_clash(self.names, (OWN, SHARE))
        self._begin, self._rate = method.share
        self._optimiser, self._mu = method.optimiser, method.mu
        self.takes_local = method.choice != "global"
        self.shared = self.sent

    def initial_params(self, seed: int) -> Model:
        """The second model begins as the common one."""
        first = self.inner.initial_params(seed)
        own = {OWN + name: np.array(first[name]) for name in self.trained}
        return {**first, **own, SHARE: np.array([self._begin])}

    def local_model(self, params: Model) -> dict[str, Array]:
        """The mixture with the common model."""
        return mixed(self._own(params), self.inside(params), float(params[SHARE][0]))

    def fit(self, task: Task) -> Fit:
        """All steps, each of both models and the share at once, by gradients at the old values."""
        start, share = self.inside(task.params), float(task.params[SHARE][0])
        gradients = opened(self.inner, replace(task, params=start))
        common = {name: np.array(value) for name, value in start.items()}
        own = {name: np.array(value) for name, value in self._own(task.params).items()}
        # The second model's gradient has the share as a factor, which Adam would divide out again: plain descent.
        rules = (self._optimiser or gradients.optimiser, self._optimiser or "sgd")
        descents = [Descent(rule, task.hyper.u) for rule in rules]

        def step(number: int) -> float:
            nonlocal share
            loss, slope = gradients(common, number)
            _, at_mixture = gradients(mixed(own, common, share), number)
            moved = moved_share(share, self._rate, own, common, at_mixture)
            descents[0].step(common, drawn(slope, common, start, self._mu))
            descents[1].step(own, {name: share * at_mixture[name] for name in own if name in at_mixture})
            share = moved
            return loss

        done, loss = walked(gradients, task, step)
        fit = gradients.fit(common, done, loss)
        private = {**{OWN + name: value for name, value in own.items()}, SHARE: np.array([share])}
        metrics = {**fit.metrics, "personal_share": share}
        return replace(fit, params={**task.params, **fit.params, **private}, metrics=metrics)

    def _own(self, params: Model) -> dict[str, Array]:
        return {name: params[OWN + name] for name in self.trained}
