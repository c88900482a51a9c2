"""The lane: a single thread in which all CPU-bound work of a node waits its turn."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from flnet.errors import FlnetError, TrainerError
from flnet.events import Declaration
from flnet.messages import HyperParams
from flnet.params import Params, TrainerId
from flnet.postponing import postponed
from flnet.settings import Settings
from flnet.training.api import Fit, Prediction, Progress, Score, TrainerFile
from flnet.training.backend import (
    TOLD,
    Assignment,
    Backend,
    FitOrder,
    Inputs,
    Report,
    assignment,
    partition_of,
    thread_bounds,
    threads_of,
)
from flnet.training.base import Pool
from flnet.training.faults import in_words
from flnet.training.loader import find_trainers
from flnet.training.process import ProcessBackend

with postponed("flnet.training.local"):  # where trainers work in the node's own process
    from flnet.training import local

T = TypeVar("T")
log = logging.getLogger(__name__)
_STOPPING = "the node is stopping"
_CLOSE_S = 5.0  # a trainer in the lane's own thread ends at its next batch, or is left behind
_SWITCH_S = 0.0005  # of the interpreter lock, beside a trainer in the same process: keeps answers prompt


def make_pool(
    settings: Settings,
    on_progress: Progress = lambda trainer, done, total: None,
    found: Iterable[TrainerFile] | None = None,
) -> Pool:
    """The lane that the settings ask for, with all trainers that there are.

    Args:
        settings: of the node.
        on_progress: called in the event loop with (trainer id, batches done, batches in all), about ten
            times a second while a training runs.
        found: the trainers, where they are known; else they are looked for.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, or the partition's number is out of range.
    """
    partition_of(settings)
    files = {file.id: file for file in (find_trainers(settings) if found is None else found)}

    def assigned(trainer: str) -> Assignment:
        if trainer not in files:
            raise TrainerError(f"this node has no trainer {trainer!r}; it has {', '.join(files) or 'none'}")
        if files[trainer].error:
            raise TrainerError(files[trainer].error)
        return assignment(settings, files[trainer])

    if settings.compute == "process":
        return Lane(
            ProcessBackend(threads_of(settings), settings.fork_server),
            assigned,
            on_progress,
            settings.worker_idle_seconds,
        )
    sys.setswitchinterval(_SWITCH_S)
    for name, value in thread_bounds(threads_of(settings)).items():
        os.environ.setdefault(name, value)
    return Lane(local.LocalBackend(), assigned, on_progress, settings.worker_idle_seconds)


class Lane:
    """A Pool over one backend; see there for what each call promises."""

    def __init__(
        self,
        backend: Backend,
        assigned: Callable[[str], Assignment],
        on_progress: Progress = lambda trainer, done, total: None,
        idle_seconds: float = 60.0,
    ) -> None:
        self.backend = backend
        self._assigned = assigned
        self._on_progress = on_progress
        self._idle_seconds = idle_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="flnet-lane")
        self._answers: set[asyncio.Future[Any]] = set()
        self._numbers = count(1)
        self._fits: dict[int, str] = {}  # trainings that wait or run -> trainer
        self._cancelled: set[int] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._closed = False

    async def prepare(self, trainer: TrainerId, *, anew: bool = False) -> tuple[Declaration, Params]:
        """Load the trainer and its data."""
        return await self.run(lambda: self.backend.prepare(self._assigned(trainer), anew))

    async def fit(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int, number: int = 0
    ) -> tuple[Fit, Score]:
        """Train in round `number`, then measure; a caller that stops waiting cancels the training."""
        order = FitOrder(next(self._numbers), params, hyper, seed, number)
        return await self._trained(trainer, order, self.backend.fit)

    async def personalise(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int
    ) -> tuple[Params, Score]:
        """Let private parameters learn on, then measure; likewise."""
        order = FitOrder(next(self._numbers), params, hyper, seed)
        return await self._trained(trainer, order, self.backend.personalise)

    async def _trained(
        self, trainer: TrainerId, order: FitOrder, train: Callable[[Assignment, FitOrder, Report], T]
    ) -> T:
        loop = asyncio.get_running_loop()

        def report(done: int, total: int) -> None:
            _later(loop, self._on_progress, trainer, done, total)

        def work() -> T:
            if order.number in self._cancelled:
                raise TrainerError(f"the training of {trainer} was cancelled before it began")
            return train(self._assigned(trainer), order, report)

        self._fits[order.number] = trainer
        try:
            return await self.run(work)
        except asyncio.CancelledError:
            self._cancel(order.number)
            raise
        finally:
            del self._fits[order.number]
            self._cancelled.discard(order.number)

    async def evaluate(self, trainer: TrainerId, params: Params) -> Score:
        """Measure on the test split."""
        return await self.run(lambda: self.backend.evaluate(self._assigned(trainer), params))

    async def predict(self, trainer: TrainerId, params: Params, inputs: Inputs) -> Prediction:
        """Judge inputs."""
        return await self.run(lambda: self.backend.predict(self._assigned(trainer), params, inputs))

    async def findings(self, trainer: TrainerId, params: Params) -> Mapping[str, Any]:
        """Look at the own rows."""
        return await self.run(lambda: self.backend.findings(self._assigned(trainer), params))

    async def export(self, trainer: TrainerId, params: Params, metadata: Mapping[str, str]) -> bytes:
        """The model as an ONNX file."""
        return await self.run(lambda: self.backend.export(self._assigned(trainer), params, metadata))

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function of this process in the lane; what it raises comes as TrainerError."""
        if self._closed:
            raise TrainerError(_STOPPING)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._answers.add(answer)
        self._stop_resting()
        ticket = self._thread.submit(self._work, work, loop, answer)
        try:
            return await answer
        finally:
            ticket.cancel()
            self._answers.discard(answer)
            if not self._answers and not self._closed:
                self._stop_resting()
                self._resting = loop.call_later(self._idle_seconds, self._rest)

    def cancel(self, trainer: TrainerId) -> None:
        """Stop the trainings of this trainer, the one that runs and those that wait."""
        for number, name in list(self._fits.items()):
            if name == trainer:
                self._cancel(number)

    async def close(self) -> None:
        """End the worker; all that waits or runs ends in TrainerError."""
        if self._closed:
            return
        self._closed = True
        self._stop_resting()
        for answer in self._answers:
            _settle(answer, TrainerError(_STOPPING), None)
        for number in self._fits:
            self._cancel(number)
        await asyncio.to_thread(self.backend.close)
        last = asyncio.wrap_future(self._thread.submit(self.backend.rest))
        _, running = await asyncio.wait({last}, timeout=_CLOSE_S)
        if running:
            log.warning("a trainer does not stop; its thread is left behind")
        self._thread.shutdown(wait=False)

    def _work(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]) -> None:
        """In the lane's thread: do it, and hand over whatever comes of it."""
        if self._closed:
            return
        result: T | None = None
        error: FlnetError | None = None
        try:
            result = work()
        except TOLD as exc:
            error = exc
        except BaseException as exc:  # whatever it is, somebody waits for an answer
            error = TrainerError(exc.message if isinstance(exc, FlnetError) else in_words(exc, "the work failed"))
            error.__cause__ = exc
        _later(loop, _settle, answer, error, result)

    def _cancel(self, number: int) -> None:
        self._cancelled.add(number)
        self.backend.cancel(number)

    def _rest(self) -> None:
        self._resting = None
        self._thread.submit(self.backend.rest)

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None


def _settle(answer: asyncio.Future[Any], error: FlnetError | None, result: Any) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _later(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Call in the event loop, out of the lane's thread; a loop that is gone wants nothing any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)
