"""On which rows a model is measured: those that were asked for, or test rows, and the answer names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from flnet.aggregation.fed_avg import fed_avg
from flnet.compute.queue import ComputeQueue
from flnet.compute.tasks import ComputeTasks
from flnet.compute.verbs import EvaluateRequest
from flnet.errors import TrainerError
from flnet.params.params import Array, PeerId, TrainerId
from flnet.protocol.counts import EvaluationCounts, GroupAccuracy, Measured, Scored
from flnet.protocol.effects import Evaluate, Train
from flnet.protocol.events import Evaluated, EvaluationFailed, Split, Trained
from flnet.protocol.messages import HyperParams
from flnet.trainer import Fit, Score, Task, Trainer
from tests.compute.inline_queue import InlineQueue
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench

T = TrainerId("T")
MODEL = params(w=[1.0], own=[2.0])


class Plain(Trainer):
    """A trainer as it was before there was a validation score; measures 4 test rows."""

    shared = ("w",)
    personalises = True

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return dict(MODEL)

    def fit(self, task: Task) -> Fit:
        return Fit(task.params, 1)

    def personalise(self, task: Task) -> Mapping[str, Array]:
        return {"own": task.params["own"] + 1}

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 4)


class Validating(Plain):
    """Measures the validation rows that it is given, which get the own number in percent right."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        return Score(float(params["own"][0]) / 100, self.rows) if self.rows else None


def tasks(trainer: Trainer) -> ComputeTasks:
    queue = cast(ComputeQueue, InlineQueue({T: trainer}))
    return ComputeTasks(queue, fed_avg(), PeerId("b"), 0, cast(Any, None))


@pytest.mark.parametrize(
    ("trainer", "split", "measured"),
    [
        (Plain(), "test", ("test", 4)),
        (Plain(), "validation", ("test", 4)),
        (Validating(0), "validation", ("test", 4)),
        (Validating(3), "validation", ("validation", 3)),
        (Validating(3), "test", ("test", 4)),
    ],
)
async def test_the_event_names_the_rows_that_were_really_measured(
    trainer: Trainer, split: Split, measured: tuple[Split, int]
) -> None:
    event = await tasks(trainer).evaluate(T, Evaluate(key(), MODEL, MODEL.select(["w"]), split=split))
    assert isinstance(event, Evaluated)
    assert (event.split, event.examples) == measured


async def test_private_parameters_that_learnt_on_are_measured_on_the_rows_asked_for() -> None:
    effect = Evaluate(key(), MODEL, MODEL.select(["w"]), HYPER, "validation")
    event = await tasks(Validating(3)).evaluate(T, effect)
    assert isinstance(event, Evaluated)
    assert (event.split, event.accuracy, event.private) == ("validation", 0.03, params(own=[3.0]))


async def test_a_failure_names_the_rows_that_were_asked_for() -> None:
    event = await tasks(Validating(3)).evaluate(T, Evaluate(key(), params(w=[1.0]), MODEL, split="validation"))
    assert isinstance(event, EvaluationFailed)
    assert (event.split, "failed in validation_score" in event.reason) == ("validation", True)


async def test_a_validation_score_is_checked_as_one_on_test_rows() -> None:
    queue = InlineQueue({T: Validating(3)})
    with pytest.raises(TrainerError, match="validation_score of trainer T gave the accuracy 9; expected 0 to 1"):
        await queue.call(T, EvaluateRequest(params(w=[1.0], own=[900.0]), "validation"))
    nothing = np.float32("nan")
    with pytest.raises(TrainerError, match="validation_score of trainer T gave the accuracy nan"):
        await queue.call(T, EvaluateRequest(params(w=[1.0], own=[nothing]), "validation"))


@pytest.mark.parametrize("hyper", [None, HyperParams(e=1, u=1, b=1)])
async def test_validation_rows_are_measured_besides_if_that_is_asked_for(hyper: HyperParams | None) -> None:
    def asked(validates: bool) -> Evaluate:
        return Evaluate(key(), MODEL, MODEL.select(["w"]), hyper, validates=validates)

    # Private parameters have learnt before anything is measured.
    own = float(MODEL["own"][0]) + (hyper is not None)
    for trainer, expected in ((Validating(3), Scored(own / 100, 3)), (Validating(0), None), (Plain(), None)):
        event = await tasks(trainer).evaluate(T, asked(True))
        assert isinstance(event, Evaluated)
        assert (event.split, event.accuracy, event.examples, event.validation) == ("test", 0.5, 4, expected)
    event = await tasks(Validating(3)).evaluate(T, asked(False))
    assert isinstance(event, Evaluated) and event.validation is None


@pytest.mark.parametrize(("rows", "validates"), [(3, True), (3, False), (0, True)])
async def test_a_training_is_measured_with_its_rows_and_on_validation_rows_if_asked(
    rows: int, validates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counts(Validating):
        def evaluate(self, params: Mapping[str, Array]) -> Score:
            return Score(0.5, 4, counts=EvaluationCounts(right=2, examples=4))

    bench = Bench()
    made = ComputeTasks(
        cast(ComputeQueue, InlineQueue({T: Counts(rows)})), fed_avg(), PeerId("b"), 0, lambda trainer: bench.job
    )
    monkeypatch.setattr(made, "_to_send", lambda *args: None)
    event = await made.train(T, Train(key(), MODEL, HYPER, validates))
    assert isinstance(event, Trained)
    assert event.tested == Measured(accuracy=0.5, examples=4, counts=EvaluationCounts(right=2, examples=4))
    assert event.validation == (Scored(0.02, 3) if rows and validates else None)


async def test_counts_and_groups_reach_the_event() -> None:
    class Counts(Plain):
        def evaluate(self, params: Mapping[str, Array]) -> Score:
            counts = EvaluationCounts(right=2, examples=4)
            return Score(0.5, 4, counts=counts, groups=[GroupAccuracy(name="a", accuracy=1, examples=2)])

    event = await tasks(Counts()).evaluate(T, Evaluate(key(), MODEL, MODEL.select(["w"])))
    assert isinstance(event, Evaluated) and event.counts == EvaluationCounts(right=2, examples=4)
    assert event.groups == (GroupAccuracy(name="a", accuracy=1, examples=2),)


async def test_counts_that_contradict_the_accuracy_are_the_trainers_fault() -> None:
    class Wrong(Plain):
        def evaluate(self, params: Mapping[str, Array]) -> Score:
            return Score(0.75, 4, counts=EvaluationCounts(right=2, examples=4))

    event = await tasks(Wrong()).evaluate(T, Evaluate(key(), MODEL, MODEL.select(["w"])))
    assert isinstance(event, EvaluationFailed) and "2 right of 4 do not give the accuracy 0.7500" in event.reason
