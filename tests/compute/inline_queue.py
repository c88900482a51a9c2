"""The compute queue's twin for tests: trainer objects work in the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TypeVar

from flnet.compute.assignment import Assignment
from flnet.compute.in_process import InProcessBackend
from flnet.compute.verbs import TrainerRequest
from flnet.errors import TrainerError
from flnet.params.params import TrainerId
from flnet.text import text
from flnet.trainer import Progress, Trainer, TrainerFile, TrainerSettings

Result = TypeVar("Result")


class InlineQueue:
    """Does calls without thread or process.

    A call has done its work when it first gives control back.
    """

    def __init__(
        self,
        trainers: Mapping[str, Trainer],
        on_progress: Progress = lambda trainer, done, total: None,
    ) -> None:
        """Take the trainers.

        Args:
            trainers: by id.
            on_progress: told of every batch, (trainer id, batches done, batches in all).
        """
        self._trainers, self._on_progress = trainers, on_progress
        self._backend = InProcessBackend(lambda given: trainers[given.file.id], seconds_between_reports=0.0)
        self._numbers = count(1)
        self._running: dict[str, int] = {}
        self._closed = False

    async def call(self, trainer: TrainerId, request: TrainerRequest[Result]) -> Result:
        """Do what the request asks, at once."""
        if self._closed:
            raise TrainerError(text("the node is stopping"))
        if trainer not in self._trainers:
            known = ", ".join(self._trainers) or text("none")
            raise TrainerError(text("this node has no trainer {trainer}; it has {known}", repr(trainer), known))
        number = self._running[trainer] = next(self._numbers)
        given = Assignment(TrainerFile(trainer, "given"), TrainerSettings(None, Path()))
        return self._backend.call(
            given, request, number, lambda done, total: self._on_progress(trainer, done, total)
        )

    def cancel(self, trainer: TrainerId, *, at_once: bool = False) -> None:
        """Stop the training at its next batch; only a callback of `on_progress` can be in time for that."""
        if trainer in self._running:
            self._backend.cancel(self._running[trainer])

    async def close(self) -> None:
        """Refuse further work."""
        self._closed = True
