"""Remembers jobs for as long as the process lives: the twin of a store on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flnet.errors import LocalError
from flnet.params import Params, TrainerId
from flnet.store.base import SavedJob


class MemoryStore:
    """Keeps jobs in memory.

    Snapshots are kept as JSON text, so that nothing is shared with the job by accident and what a store on
    disk could not keep is noticed here too. Closing forgets nothing: a test restarts a node by handing the
    same store to the next one.
    """

    def __init__(self) -> None:
        self._jobs: dict[TrainerId, tuple[str, Params | None, Params | None]] = {}

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one; parameters that are None stay as they were.

        Raises:
            LocalError: the snapshot holds something that is not plain JSON data.
        """
        _, params, private = self._jobs.get(trainer, ("", None, None))
        self._jobs[trainer] = (
            _as_text(job.snapshot),
            params if job.params is None else job.params,
            private if job.private is None else job.private,
        )

    async def load(self, trainer: TrainerId) -> SavedJob | None:
        """The last saved state, or None if there is none."""
        if trainer not in self._jobs:
            return None
        text, params, private = self._jobs[trainer]
        return SavedJob(json.loads(text), params, private)

    async def close(self) -> None:
        """Nothing to write and nothing to let go of."""


def _as_text(snapshot: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(snapshot), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise LocalError(f"the snapshot of a job must be plain JSON data: {exc}") from exc
