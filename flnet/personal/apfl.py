"""A second model beside the common one, and a share that learns how much of each to mix.

Y. Deng, M. Kamani, M. Mahdavi, "Adaptive Personalized Federated Learning", arXiv 2003.13461, 2020, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.params import Array


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
