"""What the settings of a node promise of its updates, and what it takes to keep that.

The cost of what was spent and the noise that a budget needs are computed by functions that the plan contains: they need
a library, which the layers below `compute` do not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flnet.algorithms.differential_privacy import Privacy, row_schedule
from flnet.algorithms.noised_sum import SumNoise
from flnet.protocol.events import Declaration
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import NoisyRelease
from flnet.text import text

DEFAULT_BUDGET = "main"  # the budget of a node whose settings name none
Spent = tuple[tuple[NoisyRelease, int], ...]  # releases, each with how often it was made, sorted


@dataclass(frozen=True)
class PrivacyPlan:
    """What the settings of a node promise, and what it takes to keep it.

    Attributes:
        rounds: trainings that the budget is planned for.
        budget: its name.
        cost: the epsilon of what was spent, at the delta of the promise.
        calibrate: the least noise multiplier at which so many trainings of a sampling rate and a number of steps cost the
            epsilon of the promise.
    """

    privacy: Privacy
    rounds: int
    cost: Callable[[Spent], float]
    calibrate: Callable[[float, int], float]
    budget: str = DEFAULT_BUDGET

    def release(self, hyper: HyperParams, rows: int) -> NoisyRelease:
        """What a training is to add.

        Args:
            rows: training rows of this node.

        Raises:
            ValueError: there are no rows, for a promise about rows.
        """
        schedule = row_schedule(rows, hyper.b, hyper.e) if self.privacy.level == "rows" else (1.0, 1)
        return NoisyRelease(self.privacy.level, self.calibrate(*schedule), *schedule)

    @property
    def in_sums(self) -> SumNoise | None:
        """The noise that all members of a secure sum add up; None if the sum needs none.

        The multiplier is rounded up to four decimals: all nodes must use the same one, and other versions of the library
        find slightly other ones.
        """
        if self.privacy.level != "node":
            return None
        return SumNoise(self.privacy.clip, math.ceil(self.calibrate(1.0, 1) * 10_000) / 10_000)

    @property
    def stated_of_sums(self) -> str:
        """What all members of a secure sum must promise alike, as nodes state it to each other; empty for nothing."""
        noise, privacy = self.in_sums, self.privacy
        if noise is None:
            return ""
        return (
            f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, clip {noise.clip!r}, {self.rounds} rounds, "
            f"noise {noise.multiplier:.4f}"
        )

    def refusal(self, declared: Declaration) -> str:
        """Why the trainer cannot train under this promise; empty if it can."""
        if declared.merging:
            return text(
                "its updates are made for the aggregation rule {rule}, and FLNET_PRIVACY protects changes of a model "
                "only; leave one of the two away",
                declared.merging,
            )
        return ""
