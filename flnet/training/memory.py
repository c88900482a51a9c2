"""The lane's twin for tests: given trainers work at once, in the event loop, without thread or process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from flnet.errors import FlnetError, TrainerError
from flnet.events import Declaration
from flnet.messages import HyperParams
from flnet.params import Params, TrainerId
from flnet.training.api import Fit, Prediction, Progress, Score, Trainer, TrainerFile, TrainerSettings
from flnet.training.backend import Assignment, FitOrder, Inputs, Report
from flnet.training.faults import in_words
from flnet.training.local import LocalBackend

T = TypeVar("T")


class InlinePool:
    """A Pool over trainer objects; a call has done its work when it first gives control back."""

    def __init__(
        self,
        trainers: Mapping[str, Trainer],
        on_progress: Progress = lambda trainer, done, total: None,
        seed: int = 0,
    ) -> None:
        """Take the trainers by id.

        Args:
            trainers: by id.
            on_progress: told of every batch, (trainer id, batches done, batches in all).
            seed: of the initial parameters.
        """
        self._trainers = trainers
        self._on_progress = on_progress
        self._seed = seed
        self._local = LocalBackend(lambda who: self._trainers[who.file.id], reports_every_s=0.0)
        self._numbers = count(1)
        self._running: dict[str, int] = {}
        self._closed = False

    async def prepare(self, trainer: TrainerId, *, anew: bool = False) -> tuple[Declaration, Params]:
        """The declaration and initial parameters."""
        return self._local.prepare(self._assigned(trainer), anew)

    async def fit(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int, number: int = 0
    ) -> tuple[Fit, Score]:
        """Train, then measure."""
        return self._local.fit(self._assigned(trainer), *self._ordered(trainer, params, hyper, seed, number))

    async def personalise(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int
    ) -> tuple[Params, Score]:
        """Let private parameters learn on, then measure."""
        return self._local.personalise(self._assigned(trainer), *self._ordered(trainer, params, hyper, seed))

    async def evaluate(self, trainer: TrainerId, params: Params) -> Score:
        """Measure."""
        return self._local.evaluate(self._assigned(trainer), params)

    async def predict(self, trainer: TrainerId, params: Params, inputs: Inputs) -> Prediction:
        """Judge inputs."""
        return self._local.predict(self._assigned(trainer), params, inputs)

    async def findings(self, trainer: TrainerId, params: Params) -> Mapping[str, Any]:
        """Look at the own rows."""
        return self._local.findings(self._assigned(trainer), params)

    async def export(self, trainer: TrainerId, params: Params, metadata: Mapping[str, str]) -> bytes:
        """The model as an ONNX file."""
        return self._local.export(self._assigned(trainer), params, metadata)

    async def run(self, work: Callable[[], T]) -> T:
        """Run it; what it raises comes as TrainerError."""
        self._refuse_if_closed()
        try:
            return work()
        except TrainerError:
            raise
        except FlnetError as exc:
            raise TrainerError(exc.message) from exc
        except Exception as exc:
            raise TrainerError(in_words(exc, "the work failed")) from exc

    def cancel(self, trainer: TrainerId) -> None:
        """Stop the training at its next batch; only a callback of `on_progress` can be in time for that."""
        if trainer in self._running:
            self._local.cancel(self._running[trainer])

    async def close(self) -> None:
        """Refuse further work."""
        self._closed = True

    def _ordered(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int, number: int = 0
    ) -> tuple[FitOrder, Report]:
        order = FitOrder(next(self._numbers), params, hyper, seed, number)
        self._running[trainer] = order.number
        return order, lambda done, total: self._on_progress(trainer, done, total)

    def _assigned(self, trainer: str) -> Assignment:
        self._refuse_if_closed()
        if trainer not in self._trainers:
            known = ", ".join(self._trainers) or "none"
            raise TrainerError(f"this node has no trainer {trainer!r}; it has {known}")
        return Assignment(TrainerFile(trainer, "given"), TrainerSettings(None, Path(), seed=self._seed))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise TrainerError("the node is stopping")
