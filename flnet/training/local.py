"""Trainers at work in this very process: inside the child, in the lane's thread, or right in a test."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from flnet.errors import NotOffered, TrainerError
from flnet.events import Declaration
from flnet.params import Params
from flnet.training.api import Fit, Prediction, Score, Task, Trainer
from flnet.training.backend import TOLD, Assignment, FitOrder, Inputs, Report
from flnet.training.checks import checked_fit, checked_params, checked_private, checked_score, declared
from flnet.training.faults import in_words
from flnet.training.findings import fields_of
from flnet.training.inputs import check_inputs
from flnet.training.loader import import_trainer
from flnet.training.offers import checked_prediction
from flnet.training.pictures import picture_input
from flnet.training.taking import file_of

log = logging.getLogger(__name__)
T = TypeVar("T")
MakeIt = Callable[[Assignment], Trainer]
_BETWEEN_REPORTS_S = 0.1


class _Stop(BaseException):
    """Leaves a cancelled training; no Exception, so that a trainer's own `except Exception` lets it pass."""


class LocalBackend:
    """Makes each trainer once, when it is first needed, and checks all that it gives."""

    def __init__(
        self,
        make: MakeIt = lambda who: import_trainer(who.file, who.settings),
        *,
        reports_every_s: float | None = None,
        copies: bool = True,
    ) -> None:
        """Args:
        make: makes a trainer.
        reports_every_s: seconds between reports of progress, at least.
        copies: whether to copy what a training gave, because the trainer's arrays may change before it is read.
        """
        self._copies = copies
        self._make = make
        self._made: dict[str, Trainer] = {}
        self._between = _BETWEEN_REPORTS_S if reports_every_s is None else reports_every_s
        self._cancelled: set[int] = set()

    def prepare(self, who: Assignment, anew: bool = False) -> tuple[Declaration, Params]:
        """The trainer's declaration and initial parameters."""
        if anew:
            self._made.pop(who.file.id, None)  # first: two of them with their data may not fit into memory
        trainer = self._trainer(who)
        return self._guarded(who, "prepare", lambda: _prepared(trainer, who))

    def fit(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Fit, Score]:
        """Train and measure, unless it is cancelled."""
        with self._ordered(who, order, report) as (trainer, task):
            fit = self._guarded(who, "fit", lambda: self._fitted(trainer, task, who))
            return fit, self._measured(who, trainer, Params(fit.params))

    def personalise(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Params, Score]:
        """Let private parameters learn on from an average, and measure, unless it is cancelled."""
        with self._ordered(who, order, report) as (trainer, task):
            learnt = self._guarded(who, "personalise", lambda: self._personal(trainer, task, who))
            return learnt, self._measured(who, trainer, order.params.merged_with(learnt))

    @contextmanager
    def _ordered(self, who: Assignment, order: FitOrder, report: Report) -> Iterator[tuple[Trainer, Task]]:
        """The trainer, and what it is to do; a cancelled training leaves this in TrainerError."""
        try:
            trainer = self._trainer(who)
            progress = _Progress(report, lambda: order.number in self._cancelled, self._between)
            progress.stop_if_cancelled()
            limit = _limit(who.settings.max_seconds)
            yield trainer, Task(order.params, order.hyper, order.seed, progress, limit, round=order.round)
            progress.stop_if_cancelled()
        except _Stop as exc:
            raise TrainerError(f"the training of {who.file.id} was cancelled") from exc
        finally:
            self._cancelled.discard(order.number)

    def evaluate(self, who: Assignment, params: Params) -> Score:
        """Measure."""
        return self._measured(who, self._trainer(who), params)

    def predict(self, who: Assignment, params: Params, inputs: Inputs) -> Prediction:
        """Judge inputs."""
        trainer = self._trainer(who)
        return self._guarded(who, "predict", lambda: _predicted(trainer, who.file.id, params, inputs))

    def findings(self, who: Assignment, params: Params) -> dict[str, Any]:
        """What a model shows on the own rows."""
        trainer = self._trainer(who)
        return self._guarded(who, "findings", lambda: _found(trainer, who.file.id, params))

    def export(self, who: Assignment, params: Params, metadata: Mapping[str, str]) -> bytes:
        """The model as a file."""
        trainer = self._trainer(who)
        return self._guarded(who, "onnx", lambda: file_of(trainer, who.file.id, params, metadata))

    def cancel(self, number: int) -> None:
        """The next call of `progress` ends that training."""
        self._cancelled.add(number)

    def rest(self) -> None:
        """Keep the trainers: without a child to end, loading them again would cost more than they do."""

    def close(self) -> None:
        """Nothing to stop here: the lane cancels what runs."""

    def _trainer(self, who: Assignment) -> Trainer:
        name = who.file.id
        if name not in self._made:
            self._made[name] = self._make(who)  # one that fails is tried again: its data may have come
        return self._made[name]

    def _fitted(self, trainer: Trainer, task: Task, who: Assignment) -> Fit:
        return checked_fit(trainer.fit(task), task.params, who.file.id, copies=self._copies)

    def _personal(self, trainer: Trainer, task: Task, who: Assignment) -> Params:
        return checked_private(trainer.personalise(task), task.params, trainer.shared, who.file.id)

    def _measured(self, who: Assignment, trainer: Trainer, params: Params) -> Score:
        return self._guarded(who, "evaluate", lambda: checked_score(trainer.evaluate(params), who.file.id))

    def _guarded(self, who: Assignment, what: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except TOLD:
            raise
        except (Exception, SystemExit) as exc:
            log.warning("trainer %s failed in %s", who.file.id, what, exc_info=True)
            raise TrainerError(in_words(exc, f"trainer {who.file.id} failed in {what}")) from exc


class _Progress:
    """What a trainer calls after each batch: stops a cancelled training, and reports ten times a second."""

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


def _limit(seconds: float | None) -> Callable[[], bool]:
    """Says whether so many seconds from now are over."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _prepared(trainer: Trainer, who: Assignment) -> tuple[Declaration, Params]:
    params = checked_params(trainer.initial_params(who.settings.seed), f"initial_params of trainer {who.file.id}")
    return declared(trainer, who.file.id, params), params


def _predicted(trainer: Trainer, name: str, params: Params, inputs: Inputs) -> Prediction:
    spec = trainer.input_spec()
    if spec is None:
        raise NotOffered(f"{name} offers no predictions: its trainer says nothing of its inputs")
    judged = picture_input(inputs, spec) if isinstance(inputs, bytes) else check_inputs(inputs, spec)
    prediction = trainer.predict(params, judged)
    return checked_prediction(prediction, len(judged), len(trainer.data_info().classes), name)


def _found(trainer: Trainer, name: str, params: Params) -> dict[str, Any]:
    found = fields_of(trainer.findings(params) if trainer.finds else None, name)
    if found is None:
        raise NotOffered(f"{name} finds nothing to show on the rows that this node has")
    return found
