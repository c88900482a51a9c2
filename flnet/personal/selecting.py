"""Which model is to answer for an input: the local one for what resembles the own data, else the common one.

After FLProtector (Martínez Enríquez et al., Algorithm 2). Its known limit: an autoencoder that was trained on a
broad domain rebuilds a narrow foreign one well, and then takes it for its own.
"""

from __future__ import annotations

import numpy as np

from flnet.params import Array

SPREADS = 3.0


def threshold(errors: Array) -> float:
    """The error up to which an input counts as known: mean plus three standard deviations (of the population).

    Args:
        errors: of the autoencoder on the own training inputs; -1 without any, so that nothing is known.
    """
    return float(errors.mean() + SPREADS * errors.std()) if len(errors) else -1.0


def known(errors: Array, limit: float) -> Array:
    """Whether the local model is to answer, for each input."""
    return np.asarray(errors <= limit)
