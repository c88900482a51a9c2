"""Trainers that work in this process, and the compute queue's twin in the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute import in_process as module
from flnet.compute.assignment import Assignment
from flnet.compute.in_process import InProcessBackend
from flnet.compute.verbs import (
    EvaluateRequest,
    ExportRequest,
    FitRequest,
    PersonaliseRequest,
    PredictRequest,
    PrepareRequest,
)
from flnet.errors import NotOffered, TrainerError
from flnet.params.params import Array, Params, TrainerId
from flnet.protocol.messages import HyperParams
from flnet.trainer import Fit, Score, Task, Trainer, TrainerFile, TrainerSettings
from tests.compute.bench import TINY
from tests.compute.inline_queue import InlineQueue
from tests.compute.plugins.TINY import Tiny, make_trainer
from tests.helpers import HYPER, params

START = params("float64", w=[0, 0], b=[0])


async def test_given_trainers_are_prepared_trained_and_measured() -> None:
    told: list[tuple[str, int, int]] = []
    queue = InlineQueue({"TINY": Tiny(seed=0)}, lambda *progress: told.append(progress))
    declaration, start = await queue.call(TINY, PrepareRequest())
    assert (declaration.label, start) == ("Points of a plane", START)
    fit, score = await queue.call(TINY, FitRequest(start, declaration.defaults, seed=1))
    assert (fit.examples, score.examples, score.accuracy > 0.9) == (100, 100, True)
    assert told == [("TINY", n, 5) for n in range(1, 6)]
    assert await queue.call(TINY, EvaluateRequest(start.merged_with(fit.params))) == score


def test_what_is_given_up_is_made_again_when_it_is_needed(tmp_path: Path) -> None:
    made: list[Tiny] = []

    def make(given: Assignment) -> Tiny:
        made.append(Tiny(seed=0))
        return made[-1]

    backend = InProcessBackend(make)
    given = Assignment(TrainerFile("TINY", "somewhere"), TrainerSettings(None, tmp_path))
    for _ in range(2):
        backend.call(given, PrepareRequest())
    assert len(made) == 1
    backend.forget()
    backend.call(given, PrepareRequest())
    assert len(made) == 2


async def test_a_training_can_be_cancelled_from_its_progress() -> None:
    queue = InlineQueue({"TINY": Tiny(seed=0)}, lambda *told: queue.cancel(TINY))
    with pytest.raises(TrainerError, match="the training of TINY was cancelled"):
        await queue.call(TINY, FitRequest(START, HYPER, seed=1))


async def test_unknown_trainers_failures_and_a_closed_pool_end_in_words() -> None:
    queue = InlineQueue({"TINY": Tiny(seed=0)})
    with pytest.raises(TrainerError, match="this node has no trainer 'X'; it has TINY"):
        await queue.call(TrainerId("X"), PrepareRequest())
    with pytest.raises(TrainerError, match="failed in evaluate: KeyError: 'w'"):
        await queue.call(TINY, EvaluateRequest(params(b=[0])))
    await queue.close()
    with pytest.raises(TrainerError, match="the node is stopping"):
        await queue.call(TINY, EvaluateRequest(START))


def test_the_smallest_trainer_is_complete() -> None:
    assert isinstance(make_trainer(TrainerSettings(None, Path())), Tiny)


async def test_a_trainer_is_loaded_again_only_when_that_is_asked_for() -> None:
    there = {"TINY": Tiny(seed=0)}
    queue = InlineQueue(there)
    await queue.call(TINY, PrepareRequest())
    there["TINY"] = Tiny(seed=0)
    there["TINY"].label = "Other points"
    assert (await queue.call(TINY, PrepareRequest()))[0].label == "Points of a plane"
    assert (await queue.call(TINY, PrepareRequest(reload=True)))[0].label == "Other points"


async def test_the_twin_says_the_same() -> None:
    queue = InlineQueue({"TINY": Tiny(seed=0)})
    with pytest.raises(NotOffered, match="TINY offers no predictions"):
        await queue.call(TINY, PredictRequest(START, np.zeros((1, 2), np.float32)))
    with pytest.raises(NotOffered, match="TINY cannot be exported"):
        await queue.call(TINY, ExportRequest(START, {}))


OWN = TrainerId("OWN")
AVERAGE = params(w=[3.0], own=[1.0])


class Personal(Trainer):
    """What it becomes is given."""

    shared = ("w",)
    personalises = True

    def __init__(self, learnt: Any) -> None:
        self.learnt = learnt

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32), "own": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit(task.params, 1)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 4)

    def personalise(self, task: Task) -> Mapping[str, Array]:
        task.progress(1, 1)
        found: Mapping[str, Array] = self.learnt
        return found


@pytest.mark.parametrize(
    ("learnt", "words"),
    [
        ({"w": np.ones(1)}, "personalise of trainer OWN gave w; expected private parameters only: own"),
        (
            {"own": np.array([np.nan])},
            "personalise of trainer OWN diverged: 'own' has numbers",
        ),
        ({"own": np.ones(2)}, "personalise of trainer OWN gave parameters that do not fit"),
        (None, "personalise of trainer OWN gave no parameters"),
    ],
)
async def test_what_is_no_private_parameter_is_refused(learnt: Any, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        await InlineQueue({"OWN": Personal(learnt)}).call(OWN, PersonaliseRequest(AVERAGE, HYPER, seed=1))


async def test_it_can_be_cancelled_as_a_training_can() -> None:
    queue = InlineQueue({"OWN": Personal({"own": np.ones(1)})}, lambda *told: queue.cancel(OWN))
    with pytest.raises(TrainerError, match="the training of OWN was cancelled"):
        await queue.call(OWN, PersonaliseRequest(AVERAGE, HYPER, seed=1))


async def test_a_trainer_that_does_not_say_how_is_asked_in_vain() -> None:
    class Silent(Personal):
        personalise = Trainer.personalise

    with pytest.raises(Exception, match="this trainer has no method personalise"):
        await InlineQueue({"OWN": Silent({})}).call(OWN, PersonaliseRequest(AVERAGE, HYPER, seed=1))


ROWS, EACH_S = 100, 1.0


class Clock:
    """Stands still but for what trainers take."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Slow(Trainer):
    """Takes a second for each batch of ten rows."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        w, batches = task.params["w"], task.hyper.e * ROWS // task.hyper.b
        done = 0
        for done in range(1, batches + 1):
            self.clock.now += EACH_S
            w = w + np.float32(1)
            task.progress(done, batches)
            if task.is_over():
                break
        return Fit({"w": w}, min(ROWS, done * task.hyper.b))

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        self.clock.now += 1000 * EACH_S  # measuring is not training
        return Score(0.5, 10)


@pytest.mark.parametrize(
    ("limit", "epochs", "batches", "examples"),
    [(None, 2, 20, 100), (2.5, 2, 3, 30), (0.001, 1, 1, 10), (15.0, 2, 15, 100), (99.0, 2, 20, 100)],
)
def test_the_time_ends_a_training_with_its_batch(
    limit: float | None, epochs: int, batches: int, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    who = Assignment(TrainerFile("SLOW", "given"), TrainerSettings(None, Path(), max_seconds=limit))
    backend = InProcessBackend(lambda _: Slow(clock))
    start = Params({"w": np.zeros(1, np.float32)})
    for number in (1, 2):  # every training has the whole time
        fit, _ = backend.call(who, FitRequest(start, HyperParams(e=epochs, u=0.1, b=10), 0), number)
        assert (float(fit.params["w"][0]), fit.examples) == (batches, examples)
