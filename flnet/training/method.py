"""How a node trains beyond what its trainer does by itself: what its settings ask for, read into numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Personal = Literal["none", "apfl", "increment"]
Choice = Literal["by-input", "local", "global"]
MU = 0.01  # of "proximal" without a number
SHARE, SHARE_RATE = 0.5, 1e-4  # of "apfl" without numbers: as published


@dataclass(frozen=True)
class Method:
    """What is done around a trainer's own training.

    Attributes:
        local: "plain", or "proximal:0.01" for FedProx with that mu. The same on all nodes.
        personal: "none"; "apfl:0.5:0.0001", a second model that is mixed with the common one, with the share that
            it begins with, the rate at which that share learns and, if a third word is there, the optimiser (sgd,
            momentum or adam; the trainer's own if absent); or "increment:5", what is added to the common model,
            with the epochs of its own training (those of the round if absent). Each node's own business.
        choice: which model answers: "by-input", "local" or "global".
        controls: whether local steps are corrected by SCAFFOLD's control variates. The same on all nodes.
    """

    local: str = "plain"
    personal: str = "none"
    choice: Choice = "by-input"
    controls: bool = False

    @property
    def mu(self) -> float:
        """Of FedProx; 0 for plain training."""
        name, *numbers = self.local.split(":")
        return 0.0 if name == "plain" else float(numbers[0]) if numbers else MU

    @property
    def kind(self) -> Personal:
        """Of the personal model."""
        name = self.personal.split(":")[0]
        return "apfl" if name == "apfl" else "increment" if name == "increment" else "none"

    @property
    def share(self) -> tuple[float, float]:
        """APFL's alpha at the beginning, and its rate."""
        _, *numbers = self.personal.split(":")
        begin = float(numbers[0]) if numbers else SHARE
        return begin, float(numbers[1]) if len(numbers) > 1 else SHARE_RATE

    @property
    def optimiser(self) -> str:
        """Of APFL's steps; empty for the trainer's own."""
        words = self.personal.split(":")
        return words[3] if len(words) > 3 else ""

    @property
    def epochs(self) -> int | None:
        """Of the increment's training; None for those of the round."""
        _, *numbers = self.personal.split(":")
        return int(numbers[0]) if numbers else None

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return dict(vars(self))
