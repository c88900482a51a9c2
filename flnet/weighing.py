"""How one peer's update counted in an average, for people: its weight, and what the merging rule saw of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.params import PeerId


@dataclass(frozen=True)
class Weighed:
    """One update in one average.

    Attributes:
        weight: its share of the average, in [0, 1]; None where the rule gives none to a whole update (a median).
        norm: the L2 norm of what it changed, as a multiple of the median over the updates; None if not measured.
        cosine: between its change and the coordinate-wise median of all changes, in [-1, 1]; None likewise.
        consistency: how far it lies from what was predicted of it, as a share of all distances; None likewise.
        reason: why it does not count; empty if it does.
    """

    weight: float | None = None
    norm: float | None = None
    cosine: float | None = None
    consistency: float | None = None
    reason: str = ""

    def view(self) -> Mapping[str, Any]:
        """As JSON-ready data, without what is not known."""
        found = {name: value for name, value in vars(self).items() if value is not None and name != "reason"}
        return {**found, **({"reason": self.reason} if self.reason else {})}


def shares(weights: Mapping[PeerId, float]) -> Mapping[PeerId, float]:
    """Weights divided by their sum; all alike if they are all 0 (rule R5)."""
    total = sum(weights.values())
    return {name: weight / total if total > 0 else 1 / len(weights) for name, weight in weights.items()}
