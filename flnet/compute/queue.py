"""The compute queue: all calls of a node's trainers, one at a time, first come first served."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, Protocol, TypeVar

from flnet.compute.assignment import Assignment, assignment, partition_of, thread_bounds, threads_of
from flnet.compute.checks import in_words
from flnet.compute.in_process import InProcessBackend, cancelled_early, import_beside_others
from flnet.compute.loader import find_trainers
from flnet.compute.training_child import ProcessBackend
from flnet.compute.verbs import CALL_ERRORS, Report, TrainerRequest, TrainingRequest
from flnet.errors import FlnetError, TrainerError, without_frames
from flnet.params.params import TrainerId
from flnet.settings import Settings
from flnet.text import text
from flnet.trainer import Progress, TrainerFile

Result = TypeVar("Result")
log = logging.getLogger(__name__)
_CLOSE_S = 5.0  # a trainer in the queue's own thread ends at its next batch, or is left behind
_SWITCH_S = 0.0005  # of the interpreter lock, if a trainer runs in the same process: keeps answers prompt


class ComputeQueue(Protocol):
    """Calls of trainers wait here for their turn; see `flnet.compute.verbs` for what can be asked."""

    async def call(self, trainer: TrainerId, request: TrainerRequest[Result]) -> Result:
        """Do what the request asks, when its turn comes. A caller that stops waiting cancels its training.

        Raises:
            TrainerError: it failed, its data are missing, or its process died; the queue survives all of these.
            InputRefused: the inputs of a prediction do not fit the trainer.
            NotOffered: the trainer does not offer what was asked.
        """
        ...

    def cancel(self, trainer: TrainerId, *, at_once: bool = False) -> None:
        """Stop the trainings of this trainer, the one that runs and those that wait; they end in TrainerError.

        Args:
            at_once: whether a training that does not stop within a moment is ended with its process.
        """
        ...

    async def close(self) -> None:
        """End the worker; all that waits or runs ends in TrainerError."""
        ...


class Backend(Protocol):
    """Does calls, in this process or in a child. The queue's thread calls it; `cancel` and `close` come from others."""

    def call(
        self, assignment: Assignment, request: TrainerRequest[Result], number: int = 0, report: Report = ...
    ) -> Result:
        """Do what the request asks; raises `flnet.compute.verbs.CALL_ERRORS` only.

        Args:
            assignment: the trainer.
            request: what it is asked.
            number: under which a training can be cancelled.
            report: called now and then while it trains, from any thread.
        """
        ...

    def cancel(self, number: int, *, at_once: bool = False) -> None:
        """End this training at its next batch; called from any thread, returns at once.

        Args:
            at_once: whether to end it with its process, if there is one, unless it ends within a moment.
        """
        ...

    def rest(self) -> None:
        """There has been no work for a while: give memory back."""
        ...

    def close(self) -> None:
        """Stop whatever runs, as soon as it can be stopped; called from another thread."""
        ...


def make_queue(
    settings: Settings,
    on_progress: Progress = lambda trainer, done, total: None,
    trainers: Mapping[TrainerId, TrainerFile] | None = None,
) -> ComputeQueue:
    """The queue that the settings ask for, over all trainers of this node.

    Args:
        settings: of the node.
        on_progress: called in the event loop with (trainer id, batches done, batches in all), about ten
            times a second while a training runs.
        trainers: by id, where they are known already; others may come later. Else they are looked for.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, or the partition's number is out of range.
    """
    partition_of(settings)
    files = {TrainerId(file.id): file for file in find_trainers(settings)} if trainers is None else trainers

    @cache  # of what does not change while the node runs; an error is not kept
    def assigned(trainer: TrainerId) -> Assignment:
        if trainer not in files:
            known = ", ".join(files) or text("none")
            raise TrainerError(text("this node has no trainer {trainer}; it has {known}", repr(trainer), known))
        if files[trainer].error:
            raise TrainerError(files[trainer].error)
        return assignment(settings, files[trainer])

    backend: Backend
    if settings.compute != "thread":
        shares = settings.compute == "shared"
        backend = ProcessBackend(threads_of(settings), settings.fork_server, shares=shares)
    else:
        backend = InProcessBackend(import_beside_others)
        sys.setswitchinterval(_SWITCH_S)
        for name, value in thread_bounds(threads_of(settings)).items():
            os.environ.setdefault(name, value)
    return BackendQueue(backend, assigned, on_progress, settings.worker_idle_seconds)


class BackendQueue:
    """A compute queue over one backend, which it calls in a thread of its own."""

    def __init__(
        self,
        backend: Backend,
        assigned: Callable[[TrainerId], Assignment],
        on_progress: Progress,
        idle_seconds: float,
    ) -> None:
        """Args:
        backend: does the calls.
        assigned: the assignment of a trainer; raises TrainerError where there is none.
        on_progress: see `make_queue`.
        idle_seconds: without a call, after which the backend is told to give memory back.
        """
        self.backend = backend
        self._assigned, self._on_progress, self._idle_seconds = assigned, on_progress, idle_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="flnet-compute")
        self._answers: set[asyncio.Future[Any]] = set()
        self._numbers = count(1)
        self._trainings: dict[int, str] = {}  # that wait or run, by number -> trainer
        self._cancelled: set[int] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._closed = False

    async def call(self, trainer: TrainerId, request: TrainerRequest[Result]) -> Result:
        """Wait for a turn, then let the backend do it."""
        loop, number = asyncio.get_running_loop(), next(self._numbers)

        def report(done: int, total: int) -> None:
            _call_soon(loop, self._on_progress, trainer, done, total)

        def work() -> Result:
            if number in self._cancelled:
                raise cancelled_early(trainer)
            return self.backend.call(self._assigned(trainer), request, number, report)

        if not isinstance(request, TrainingRequest):
            return await self._in_turn(work)
        self._trainings[number] = trainer
        try:
            return await self._in_turn(work)
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            del self._trainings[number]
            self._cancelled.discard(number)

    def cancel(self, trainer: TrainerId, *, at_once: bool = False) -> None:
        """Stop the trainings of this trainer."""
        self._cancel(*(n for n, name in self._trainings.items() if name == trainer), at_once=at_once)

    async def close(self) -> None:
        """End the worker."""
        if self._closed:
            return
        self._closed = True
        self._stop_resting()
        for answer in self._answers:
            _settle(answer, _stopping(), None)
        self._cancel(*self._trainings)
        await asyncio.to_thread(self.backend.close)
        last = asyncio.wrap_future(self._thread.submit(self.backend.rest))
        _, running = await asyncio.wait({last}, timeout=_CLOSE_S)
        if running:
            log.warning("a trainer does not stop; its thread is left behind")
        self._thread.shutdown(wait=False)

    async def _in_turn(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise _stopping()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
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
            del answer  # its error holds this call

    def _work(
        self, work: Callable[[], Result], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Result]
    ) -> None:
        """Do a call in the queue's thread, and hand over the result or the error."""
        if self._closed:
            return
        result: Result | None = None
        error: FlnetError | None = None
        try:
            result = work()
        except CALL_ERRORS as exc:
            error = without_frames(exc)
        except BaseException as exc:  # whatever it is, somebody waits for an answer
            error = TrainerError(
                exc.message if isinstance(exc, FlnetError) else in_words(exc, text("the work failed"))
            )
            error.__cause__ = exc
        _call_soon(loop, _settle, answer, error, result)

    def _cancel(self, *numbers: int, at_once: bool = False) -> None:
        self._cancelled.update(numbers)  # first: when the running one ends, the next one must not begin
        for number in numbers:
            self.backend.cancel(number, at_once=at_once)

    def _rest(self) -> None:
        self._resting = None
        self._thread.submit(self.backend.rest)

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None


def _stopping() -> TrainerError:
    return TrainerError(text("the node is stopping"))


def _settle(answer: asyncio.Future[Any], error: FlnetError | None, result: Any) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Call in the event loop, from the queue's thread; a loop that is gone wants nothing any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)
