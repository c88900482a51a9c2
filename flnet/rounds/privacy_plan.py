"""What the settings of a node promise of its updates, and what it takes to keep that.

The cost of what was spent and the noise that a budget needs are computed by functions that the plan contains: they need
a library, which the layers below `compute` do not use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flnet.algorithms.differential_privacy import Privacy, row_schedule
from flnet.protocol.events import Declaration
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import Release
from flnet.text import text

FIRST = "main"  # the budget of a node whose settings name none
Spent = tuple[tuple[Release, int], ...]  # releases, each with how often it was made, sorted


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
    budget: str = FIRST

    def release(self, hyper: HyperParams, rows: int) -> Release:
        """What a training is to add.

        Args:
            rows: training rows of this node.

        Raises:
            ValueError: there are no rows, for a promise about rows.
        """
        schedule = row_schedule(rows, hyper.b, hyper.e) if self.privacy.level == "rows" else (1.0, 1)
        return Release(self.privacy.level, self.calibrate(*schedule), *schedule)

    def refusal(self, declared: Declaration) -> str:
        """Why the trainer cannot train under this promise; empty if it can."""
        if declared.merging:
            return text(
                "its updates are made for the aggregation rule {rule}, and FLNET_PRIVACY protects changes of a model "
                "only; leave one of the two away",
                declared.merging,
            )
        return ""
