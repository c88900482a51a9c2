"""Trainers that work in this process: in the training child, or in the thread of the compute queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from flnet.compute.assignment import Assignment
from flnet.compute.loader import import_trainer
from flnet.compute.verbs import VERBS, PrepareRequest, Report, TrainerRequest, Work
from flnet.compute.vertical import VerticalHost
from flnet.errors import TrainerError
from flnet.text import text
from flnet.trainer import Trainer

Result = TypeVar("Result")
MakeIt = Callable[[Assignment], Trainer]
_BETWEEN_REPORTS_S = 0.1


class _Stop(BaseException):
    """Leaves a cancelled training; no Exception, so that a trainer's own `except Exception` lets it pass."""


class InProcessBackend:
    """Makes each trainer once, when it is first needed, and does calls with it."""

    def __init__(
        self,
        make: MakeIt = lambda assignment: import_trainer(assignment.file, assignment.settings),
        *,
        seconds_between_reports: float = _BETWEEN_REPORTS_S,
        copies: bool = True,
    ) -> None:
        """Args:
        make: makes a trainer.
        seconds_between_reports: of progress, at least.
        copies: whether to copy what a training gave, because the trainer's arrays may change before it is read.
        """
        self._make, self._copies = make, copies
        self._made: dict[str, Trainer] = {}
        self._between = seconds_between_reports
        self._cancelled: set[int] = set()

    def call(
        self,
        assignment: Assignment,
        request: TrainerRequest[Result],
        number: int = 0,
        report: Report = lambda done, total: None,
    ) -> Result:
        """Do what the request asks; see `flnet.compute.queue.Backend`."""
        name, settings = assignment.file.id, assignment.settings
        if isinstance(request, PrepareRequest) and request.reload:
            self._made.pop(name, None)  # first: two trainers with their data may not fit into memory
        progress = _Progress(report, lambda: number in self._cancelled, self._between)
        try:
            trainer = self._trainer(assignment)
            progress.stop_if_cancelled()
            over = _over_after(settings.max_seconds)
            work = Work(trainer, name, settings.seed, self._copies, progress, over)
            result: Result = VERBS[type(request)].perform(work, request)
            progress.stop_if_cancelled()
            return result
        except _Stop as exc:
            raise TrainerError(text("the training of {trainer} was cancelled", name)) from exc
        finally:
            self._cancelled.discard(number)

    def cancel(self, number: int, *, at_once: bool = False) -> None:
        """The next call of `progress` ends that training, also `at_once`: there is no process to end."""
        self._cancelled.add(number)

    def forget(self) -> None:
        """Give up all trainers, and their data with them."""
        self._made.clear()

    def rest(self) -> None:
        """Keep the trainers: without a child to end, loading them again would cost more than they do."""

    def close(self) -> None:
        """Nothing to stop here: the queue cancels what runs."""

    def _trainer(self, assignment: Assignment) -> Trainer:
        name = assignment.file.id
        if name not in self._made:
            self._made[name] = self._make(assignment)  # one that fails is tried again: its data may have come
        return self._made[name]


def import_beside_others(given: Assignment) -> Trainer:
    """A trainer that is to work in a process in which the node itself works, or other nodes do.

    Raises:
        TrainerError: it cannot be loaded, or would read ciphertexts of other nodes there.
    """
    trainer = import_trainer(given.file, given.settings)
    if isinstance(trainer, VerticalHost) and trainer.is_encrypted:
        raise TrainerError(
            text(
                "{trainer} reads ciphertexts of other nodes, which should only be done in a process of its own; set "
                "FLNET_COMPUTE=process",
                given.file.id,
            )
        )
    return trainer


def cancelled_early(trainer: str) -> TrainerError:
    """Why an order that waited for its turn is not done."""
    return TrainerError(text("the training of {trainer} was cancelled before it began", trainer))


class _Progress:
    """The progress callback of a training: stops it if it was cancelled, and reports ten times a second."""

    def __init__(self, report: Report, is_cancelled: Callable[[], bool], between_s: float) -> None:
        self._report, self._is_cancelled, self._between_s = report, is_cancelled, between_s
        self._next = float("-inf")

    def __call__(self, done: int, total: int) -> None:
        self.stop_if_cancelled()
        now = time.monotonic()
        if now >= self._next or done >= total:
            self._next = now + self._between_s
            self._report(int(done), int(total))

    def stop_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise _Stop


def _over_after(seconds: float | None) -> Callable[[], bool]:
    """Says whether so many seconds from now are over."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    return lambda: time.monotonic() >= end
