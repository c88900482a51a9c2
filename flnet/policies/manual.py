"""The manual policy: rounds start when a person asks, never by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flnet.params import Rng

Snapshot = Mapping[str, Any]
Policy = Callable[[Snapshot, Rng], bool]


def manual(snapshot: Snapshot, rng: Rng) -> bool:
    """Never; a person decides."""
    return False
