"""The calls of a trainer: one entry of `VERBS` for each verb, with its request, its result and its implementation.

The compute queue, the training child and the twins in this process pass requests on without looking at them. A new verb
therefore needs a method in `flnet.trainer.Trainer`, a request and an entry here, and somebody who calls
`queue.call(trainer, request)`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from flnet.compute.checks import checked_fit, checked_params, checked_private, checked_score, declared, in_words
from flnet.compute.confusion import confusion_of
from flnet.compute.export import file_of
from flnet.compute.leakage import membership_of
from flnet.compute.prediction import check_inputs, checked_prediction, picture_input
from flnet.compute.vertical import (
    AskedOutputs,
    AskedPrediction,
    FoundOutputs,
    HolderAnswer,
    Opened,
    VerticalHost,
    VerticalTurn,
)
from flnet.errors import AlignmentRefused, InputRefused, NotOffered, TrainerError
from flnet.params.params import Array, Params
from flnet.protocol.events import Declaration, Split
from flnet.protocol.messages import HyperParams
from flnet.text import text
from flnet.trainer import Fit, Prediction, RowPrivacy, Score, Task, Trainer, fields_of

log = logging.getLogger(__name__)

CALL_ERRORS = (TrainerError, InputRefused, NotOffered)  # all that a call may raise
Inputs = Array | bytes  # of a prediction: numbers as `read_inputs` gives them, or a PNG or JPEG file
Report = Callable[[int, int], None]  # (batches done, batches in all)
Result = TypeVar("Result", covariant=True)  # noqa: PLC0105  named as everywhere in this package
Asked = TypeVar("Asked", bound="TrainerRequest[Any]")


class TrainerRequest(Generic[Result]):
    """A request to a trainer; the type parameter is the type of the result."""


class PrepareResult(NamedTuple):
    """The declaration of a trainer, and its initial parameters."""

    declaration: Declaration
    params: Params


class FitResult(NamedTuple):
    """A finished training, and its score on the test split."""

    fit: Fit
    score: Score


class PersonaliseResult(NamedTuple):
    """The private parameters after they learned from a new average, and the score of the model with them."""

    params: Params
    score: Score


@dataclass(frozen=True)
class PrepareRequest(TrainerRequest[PrepareResult]):
    """Load a trainer and its data.

    Attributes:
        reload: whether to forget a trainer that is loaded already, because its data have changed.
        seconds: after which the training child is ended, if it has not loaded them by then; None for never. A
            trainer that works in the node's own process cannot be ended.
    """

    reload: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class TrainingRequest(TrainerRequest[Result]):
    """One local training; the only kind of request that reports progress and can be cancelled while it runs.

    Attributes:
        params: all parameters to start from, private ones included.
        hyper: epochs, learning rate, batch size.
        seed: of this training.
        round: its number on the mesh, from 0.
    """

    params: Params
    hyper: HyperParams
    seed: int
    round: int = 0


@dataclass(frozen=True)
class FitRequest(TrainingRequest[FitResult]):
    """Train on the own rows, then measure.

    Attributes:
        row_privacy: how the training is to hide each single row; None for no noise.
        validates: whether to measure on validation rows too.
    """

    row_privacy: RowPrivacy | None = None
    validates: bool = False


@dataclass(frozen=True)
class PersonaliseRequest(TrainingRequest[PersonaliseResult]):
    """Let private parameters learn from a new average, then measure on this split, and on validation rows if asked to."""

    split: Split = "test"
    validates: bool = False


@dataclass(frozen=True)
class EvaluateRequest(TrainerRequest[Score]):
    """Measure parameters on this split; on test rows where there are no validation rows.

    Attributes:
        validates: whether to measure on validation rows too.
    """

    params: Params
    split: Split = "test"
    validates: bool = False


@dataclass(frozen=True)
class PredictRequest(TrainerRequest[Prediction]):
    """Predict from inputs (n, ...), or from one picture."""

    params: Params
    inputs: Inputs


@dataclass(frozen=True)
class DiagnoseRequest(TrainerRequest[Mapping[str, Any]]):
    """Diagnose a model on this node's rows; the result is JSON-ready data (`flnet.trainer.Findings`)."""

    params: Params


@dataclass(frozen=True)
class MembershipRequest(TrainerRequest[Mapping[str, Any]]):
    """Measure how well a model tells this node's training rows from its test rows; JSON-ready data."""

    params: Params


@dataclass(frozen=True)
class ConfusionRequest(TrainerRequest[Mapping[str, Any]]):
    """Count which classes a model mistakes for which on this node's test rows; JSON-ready data."""

    params: Params


@dataclass(frozen=True)
class ExportRequest(TrainerRequest[bytes]):
    """The model as a file, with text `metadata` in it; `metadata["format"]` says which format."""

    params: Params
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class OpenEpochRequest(TrainerRequest[VerticalTurn]):
    """Begin an epoch of a vertical job."""

    opened: Opened


@dataclass(frozen=True)
class TurnRequest(TrainerRequest[VerticalTurn]):
    """Go on with an epoch of a vertical job.

    Attributes:
        received: from other holders, {"sender", "part", "arrays"} each.
    """

    session: str
    received: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class OutputsRequest(TrainerRequest[FoundOutputs]):
    """Compute this node's part in a prediction of a vertical job."""

    asked: AskedOutputs


@dataclass(frozen=True)
class VerticalPredictRequest(TrainerRequest[HolderAnswer]):
    """Predict from the outputs of all feature holders of a vertical job."""

    asked: AskedPrediction


@dataclass(frozen=True)
class Work:
    """The trainer that does a call, and what it needs in addition to the request.

    Attributes:
        name: id of the trainer, for messages.
        seed: of its initial parameters.
        copies: whether to copy what a training gave, because the trainer's arrays may change before it is read.
        progress: called after each batch.
        is_over: whether the time for this training is over.
    """

    trainer: Trainer
    name: str
    seed: int = 0
    copies: bool = True
    progress: Report = field(default=lambda done, total: None)
    is_over: Callable[[], bool] = lambda: False

    def task(self, request: TrainingRequest[Any]) -> Task:
        """The request as the trainer gets it."""
        return Task(request.params, request.hyper, request.seed, self.progress, self.is_over, round=request.round)

    @contextmanager
    def failing_in(self, method: str) -> Iterator[None]:
        """Turn whatever the trainer raises in this method into TrainerError, with its place in the trainer's source."""
        try:
            yield
        except CALL_ERRORS:
            raise
        except (Exception, SystemExit) as exc:
            log.warning("trainer %s failed in %s", self.name, method, exc_info=True)
            raise TrainerError(
                in_words(exc, text("trainer {trainer} failed in {what}", self.name, method))
            ) from exc


def _prepare(work: Work, request: PrepareRequest) -> PrepareResult:
    with work.failing_in("prepare"):
        if isinstance(work.trainer, VerticalHost):
            try:
                return PrepareResult(work.trainer.declared(work.seed), Params())
            except AlignmentRefused as exc:
                raise TrainerError(exc.message) from exc
        initial = work.trainer.initial_params(work.seed)
        params = checked_params(initial, text("initial_params of trainer {trainer}", work.name))
        return PrepareResult(declared(work.trainer, work.name, params), params)


def _fit(work: Work, request: FitRequest) -> FitResult:
    with work.failing_in("fit"):
        task = replace(work.task(request), row_privacy=request.row_privacy)
        fit = checked_fit(work.trainer.fit(task), task.params, work.name, request.row_privacy, copies=work.copies)
    return FitResult(fit, _score(work, Params(fit.params), validates=request.validates))


def _personalise(work: Work, request: PersonaliseRequest) -> PersonaliseResult:
    with work.failing_in("personalise"):
        learned = work.trainer.personalise(work.task(request))
        private = checked_private(learned, request.params, work.trainer.shared, work.name)
    return PersonaliseResult(
        private, _score(work, request.params.merged_with(private), request.split, request.validates)
    )


def _evaluate(work: Work, request: EvaluateRequest) -> Score:
    return _score(work, request.params, request.split, request.validates)


def _score(work: Work, params: Params, split: Split = "test", validates: bool = False) -> Score:
    validation = None
    if split == "validation" or validates:
        with work.failing_in("validation_score"):
            score = work.trainer.validation_score(params)
            validation = score and checked_score(score, work.name, "validation")
    if split == "validation" and validation is not None:
        return validation
    with work.failing_in("evaluate"):
        return replace(checked_score(work.trainer.evaluate(params), work.name), validation=validation)


def _predict(work: Work, request: PredictRequest) -> Prediction:
    with work.failing_in("predict"):
        spec = work.trainer.input_spec()
        if spec is None:
            raise NotOffered(
                text("{trainer} offers no predictions: its trainer says nothing of its inputs", work.name)
            )
        given = request.inputs
        inputs = picture_input(given, spec) if isinstance(given, bytes) else check_inputs(given, spec)
        prediction = work.trainer.predict(request.params, inputs)
        classes = len(work.trainer.data_info().classes)
        return checked_prediction(prediction, len(inputs), classes, work.name, work.trainer)


def _diagnose(work: Work, request: DiagnoseRequest) -> Mapping[str, Any]:
    with work.failing_in("findings"):
        findings = fields_of(work.trainer.findings(request.params) if work.trainer.finds else None, work.name)
        if findings is None:
            raise NotOffered(text("{trainer} finds nothing to show on the rows that this node has", work.name))
        return findings


def _membership(work: Work, request: MembershipRequest) -> Mapping[str, Any]:
    with work.failing_in("predict"):
        return membership_of(work.trainer, request.params, work.name)


def _confusion(work: Work, request: ConfusionRequest) -> Mapping[str, Any]:
    with work.failing_in("predict"):
        return confusion_of(work.trainer, request.params, work.name)


def _open_epoch(work: Work, request: OpenEpochRequest) -> VerticalTurn:
    with work.failing_in("open"):
        return _vertical(work).open(request.opened)


def _turn(work: Work, request: TurnRequest) -> VerticalTurn:
    with work.failing_in("turn"):
        return _vertical(work).go_on(request.session, request.received)


def _outputs(work: Work, request: OutputsRequest) -> FoundOutputs:
    with work.failing_in("outputs"):
        return _vertical(work).outputs(request.asked)


def _predict_rows(work: Work, request: VerticalPredictRequest) -> HolderAnswer:
    with work.failing_in("predict"):
        return _vertical(work).prediction(request.asked)


def _vertical(work: Work) -> VerticalHost:
    if not isinstance(work.trainer, VerticalHost):
        raise NotOffered(text("{trainer} is no trainer for different columns of the same rows", work.name))
    return work.trainer


def _export(work: Work, request: ExportRequest) -> bytes:
    with work.failing_in("onnx"):
        return file_of(work.trainer, work.name, request.params, request.metadata)


@dataclass(frozen=True)
class Verb(Generic[Asked, Result]):
    """One thing that a trainer can be asked for.

    Attributes:
        request: class of the requests.
        result: class of the results.
        perform: asks the trainer, and checks what it gives; runs where the trainer is.
    """

    request: type[Asked]
    result: type[Any]
    perform: Callable[[Work, Asked], Result]


VERBS: Mapping[type[TrainerRequest[Any]], Verb[Any, Any]] = {
    verb.request: verb
    for verb in (
        Verb(PrepareRequest, PrepareResult, _prepare),
        Verb(FitRequest, FitResult, _fit),
        Verb(PersonaliseRequest, PersonaliseResult, _personalise),
        Verb(EvaluateRequest, Score, _evaluate),
        Verb(PredictRequest, Prediction, _predict),
        Verb(DiagnoseRequest, dict, _diagnose),
        Verb(MembershipRequest, dict, _membership),
        Verb(ConfusionRequest, dict, _confusion),
        Verb(ExportRequest, bytes, _export),
        Verb(OpenEpochRequest, VerticalTurn, _open_epoch),
        Verb(TurnRequest, VerticalTurn, _turn),
        Verb(OutputsRequest, FoundOutputs, _outputs),
        Verb(VerticalPredictRequest, HolderAnswer, _predict_rows),
    )
}
