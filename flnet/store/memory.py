"""Remembers jobs for as long as the process lives: the twin of a store on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flnet.errors import LocalError
from flnet.params import Digest, Params, TrainerId
from flnet.store.base import KEPT_AVERAGES, KeptModel, SavedJob

KEPT_BYTES = 128 * 1024 * 1024  # of models for each trainer: of very large ones fewer are kept


class MemoryStore:
    """Keeps jobs in memory.

    Snapshots are kept as JSON text, so that nothing is shared with the job by accident and what a store on
    disk could not keep is noticed here too. Closing forgets nothing: a test restarts a node by handing the
    same store to the next one.
    """

    def __init__(self) -> None:
        self._jobs: dict[TrainerId, tuple[str, Params | None, Params | None]] = {}
        self._models: dict[TrainerId, dict[Digest, tuple[str, Params, Params]]] = {}  # newest last

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

    async def keep_model(
        self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params
    ) -> None:
        """Keep this model as the newest; of those before it, as many as count and size allow.

        Raises:
            LocalError: the figures hold something that is not plain JSON data.
        """
        text = _as_text(figures)
        kept = self._models.setdefault(trainer, {})
        kept.pop(shared.digest, None)
        kept[shared.digest] = (text, shared, private)
        while len(kept) > 1 and (len(kept) > KEPT_AVERAGES + 1 or _size(kept) > KEPT_BYTES):
            del kept[next(iter(kept))]

    async def models(self, trainer: TrainerId) -> Sequence[KeptModel]:
        """All that are kept, newest first, without their parameters."""
        kept = reversed(self._models.get(trainer, {}).items())
        return [replace(_model(*one), shared=None, private=None) for one in kept]

    async def load_model(self, trainer: TrainerId, digest: Digest) -> KeptModel | None:
        """The model with its parameters, or None if it is not kept (any more)."""
        found = self._models.get(trainer, {}).get(digest)
        return None if found is None else _model(digest, found)

    async def close(self) -> None:
        """Nothing to write and nothing to let go of."""


def _as_text(snapshot: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(snapshot), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise LocalError(f"what is kept of a job must be plain JSON data: {exc}") from exc


def _model(digest: Digest, kept: tuple[str, Params, Params]) -> KeptModel:
    text, shared, private = kept
    return KeptModel(digest, json.loads(text), shared.nbytes + private.nbytes, shared, private)


def _size(kept: Mapping[Digest, tuple[str, Params, Params]]) -> int:
    return sum(shared.nbytes + private.nbytes for _, shared, private in kept.values())
