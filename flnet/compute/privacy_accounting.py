"""What releases with noise cost together, and how much noise a budget needs, by the library dp-accounting.

The library (extra "privacy") is imported only by nodes and experiments that use it. The sum is kept by Rényi
differential privacy (Mironov 2017), whose bounds hold for discrete Gaussian noise too. Privacy loss distributions
("pld") give a smaller number, for continuous noise only; it is shown for comparison, and never spent.

Participation is not counted as sampling: which nodes train in a round follows from a hash that everybody can compute,
so nobody is hidden by it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.differential_privacy import parse_privacy
from flnet.errors import SettingsError
from flnet.installing import install
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.privacy_plan import PrivacyPlan, Spent
from flnet.settings import Settings

Accountant = Literal["rdp", "pld"]
_TOLERANCE = 1e-6  # of the search for a noise multiplier, in which one below the least may be found


def plan_of(settings: Settings) -> PrivacyPlan | None:
    """What the settings promise; None if they promise nothing.

    Raises:
        SettingsError: the library that counts the cost is not installed.
    """
    privacy = parse_privacy(settings.privacy)
    if privacy is None:
        return None
    if importlib.util.find_spec("dp_accounting") is None:
        raise SettingsError(
            f"FLNET_PRIVACY={settings.privacy} needs dp-accounting, which is not installed here: "
            f"{install('privacy')}"
        )
    calibrate = partial(_calibrated, privacy.epsilon, privacy.delta, settings.privacy_rounds)
    cost = partial(epsilon, delta=privacy.delta)
    return PrivacyPlan(privacy, settings.privacy_rounds, cost, calibrate, settings.privacy_budget)


@lru_cache(maxsize=4096)
def epsilon(spent: Spent, delta: float, accountant: Accountant = "rdp") -> float:
    """The epsilon of all these releases together at this delta; 0 for none, infinity if one has no noise.

    Raises:
        ValueError: a noise multiplier is negative, or a sampling rate is not in [0, 1].
    """
    if not spent:
        return 0.0
    if accountant == "pld":
        counting = _accountants()["pld"]()
        for release, count in spent:
            counting.compose(_event(release), count)
        return float(counting.get_epsilon(delta))
    divergence = sum(count * renyi_divergence(release) for release, count in spent)
    orders = _accountants()["rdp"]().orders
    return float(importlib.import_module("dp_accounting.rdp").compute_epsilon(orders, divergence, delta)[0])


@lru_cache(maxsize=256)
def renyi_divergence(release: NoisyRelease) -> NDArray[np.float64]:
    """The Rényi divergence of one release at each order that the library looks at, (orders,); it adds up over releases.

    To compute it is nearly all of the work of an epsilon, and the releases of a node are mostly alike.

    Raises:
        ValueError: see `epsilon`.
    """
    counting = _accountants()["rdp"]()
    counting.compose(_event(release))
    divergence: NDArray[np.float64] = counting.rdp
    return divergence


def multiplier_for(epsilon: float, delta: float, rounds: int, sampling_rate: float = 1.0, steps: int = 1) -> float:
    """The least noise multiplier at which so many rounds cost at most this epsilon, within 2e-6."""
    from dp_accounting import LowerEndpointAndGuess, SelfComposedDpEvent, calibrate_dp_mechanism  # noqa: PLC0415

    def event(multiplier: float) -> Any:
        return SelfComposedDpEvent(_event(NoisyRelease("rows", multiplier, sampling_rate, steps)), rounds)

    fresh, bracket = _accountants()["rdp"], LowerEndpointAndGuess(0, 1.0)
    found = calibrate_dp_mechanism(fresh, event, epsilon, delta, bracket, tol=_TOLERANCE)
    return float(found) + _TOLERANCE


@lru_cache(maxsize=256)
def _calibrated(epsilon: float, delta: float, rounds: int, sampling_rate: float, steps: int) -> float:
    return multiplier_for(epsilon, delta, rounds, sampling_rate, steps)


def _accountants() -> dict[Accountant, Callable[[], Any]]:
    # It warns of each fractional order that does not converge, hundreds of times, and goes on without it: that is safe.
    logging.getLogger("absl").setLevel(logging.ERROR)
    return {
        "rdp": importlib.import_module("dp_accounting.rdp").RdpAccountant,
        "pld": importlib.import_module("dp_accounting.pld").PLDAccountant,
    }


def _event(release: NoisyRelease) -> Any:
    """The release in the terms of the library: Gaussian noise, in steps that draw rows independently of each other."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent  # noqa: PLC0415

    event: Any = GaussianDpEvent(release.noise_multiplier)
    if release.sampling_rate < 1:
        event = PoissonSampledDpEvent(release.sampling_rate, event)
    return SelfComposedDpEvent(event, release.steps)
