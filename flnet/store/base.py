"""What a node remembers of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flnet.params import Params, TrainerId


@dataclass(frozen=True)
class SavedJob:
    """The last saved state of a job: figures, the shared model that it holds, and its private parameters."""

    snapshot: Mapping[str, Any] = field(default_factory=dict)
    params: Params | None = None
    private: Params | None = None


class Store(Protocol):
    """Keeps jobs. A call that has returned is kept for as long as the store promises."""

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one; parameters that are None stay as they were."""
        ...

    async def load(self, trainer: TrainerId) -> SavedJob | None:
        """The last saved state, or None if there is none."""
        ...

    async def close(self) -> None:
        """Write what is not written yet, and let go of files."""
        ...
