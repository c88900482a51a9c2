"""The local side of SCAFFOLD: steps corrected by the difference between the common control variate and the own.

S. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020, Algorithm 1,
option II. How the common one is made of those of all nodes is a merging rule's business.
"""

from __future__ import annotations

from collections.abc import Mapping

from flnet.params import Array


def corrected(
    gradients: Mapping[str, Array], own: Mapping[str, Array], common: Mapping[str, Array]
) -> dict[str, Array]:
    """g - own + common, for each array that has a gradient."""
    return {name: gradient - own[name] + common[name] for name, gradient in gradients.items()}


def renewed(
    own: Mapping[str, Array],
    common: Mapping[str, Array],
    start: Mapping[str, Array],
    end: Mapping[str, Array],
    steps: int,
    rate: float,
) -> dict[str, Array]:
    """The own control variate after a training: own - common + (start - end) / (steps x rate).

    Args:
        start, end: parameters before and after.
        steps: that were done, of all epochs together.
        rate: of learning.
    """
    return {
        name: (own[name] - common[name] + (start[name] - end[name]) / (steps * rate)).astype(own[name].dtype)
        for name in own
    }
