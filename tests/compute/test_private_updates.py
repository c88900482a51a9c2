"""What leaves a node that promises privacy: noise before rounding, the release that was made, and no way around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.differential_privacy import Privacy
from flnet.compute.queue import ComputeQueue
from flnet.compute.tasks import ComputeTasks
from flnet.params.params import Array, Params, PeerId, TrainerId
from flnet.params.quantization import Encoding
from flnet.protocol.effects import Train
from flnet.protocol.events import Prepared, Trained, TrainingFailed
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.job import Job
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.rounds.settings import Rules
from flnet.trainer import Fit, NoisySteps, Score, Task, Trainer
from tests.algorithms.test_differential_privacy import seeded
from tests.compute.inline_queue import InlineQueue
from tests.helpers import HYPER, key
from tests.rounds.helpers import declaration, settings

T = TrainerId("T")
NUMBERS = 4000


class Moves(Trainer):
    """Moves each number by `step`."""

    shared = ("w",)

    def __init__(self, step: float, noisy: NoisySteps | None = None) -> None:
        self.step, self.noisy = step, noisy
        self.asked: list[Task] = []

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(NUMBERS, np.float32)}

    def fit(self, task: Task) -> Fit:
        self.asked.append(task)
        return Fit({"w": task.params["w"] + np.float32(self.step)}, 10, noisy=self.noisy)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 4)


def plan(level: str = "node", clip: float = 1.0, multiplier: float = 2.0) -> PrivacyPlan:
    privacy = Privacy(cast(Any, level), 3, 1e-5, clip)
    return PrivacyPlan(privacy, 20, lambda spent: 0.0, lambda rate, steps: multiplier)


def tasks(
    trainer: Trainer, promise: PrivacyPlan | None, encoding: Encoding = "float32"
) -> tuple[ComputeTasks, Job]:
    job = Job(settings(rules=Rules(privacy=promise)))
    declared = declaration(data={"rows": {"train": 1000}})
    job.receive(Prepared(declared, Params(trainer.initial_params(0))))
    queue = cast(ComputeQueue, InlineQueue({T: trainer}))
    made = ComputeTasks(
        queue,
        fed_avg(),
        PeerId("b"),
        0,
        lambda _: job,
        encoding=lambda: encoding,
        words=seeded(),
        own_hyper={"b": 50},
    )
    return made, job


async def trained(made: ComputeTasks, job: Job) -> Trained:
    event = await made.train(T, Train(key(), job.held.current.full, HYPER))
    assert isinstance(event, Trained), event
    return event


async def test_an_update_is_shortened_and_noised_and_says_so() -> None:
    event = await trained(*tasks(Moves(5.0), plan(clip=0.5, multiplier=2.0)))
    assert event.shared is not None and event.release == NoisyRelease("node", 2.0)
    sent = event.shared["w"]
    assert sent.std() == pytest.approx(1.0, rel=0.05)
    assert sent.mean() == pytest.approx(0.5 / NUMBERS**0.5, abs=0.05)
    assert event.params["w"].tolist() == [5.0] * NUMBERS  # stays at home


async def test_without_a_promise_the_update_is_what_was_trained() -> None:
    event = await trained(*tasks(Moves(5.0), None))
    assert event.shared is not None and event.shared["w"].tolist() == [5.0] * NUMBERS
    assert event.release is None


async def test_what_rounding_loses_is_of_the_noised_update_and_is_not_noised_again() -> None:
    made, job = tasks(Moves(5.0), plan(clip=1e-3, multiplier=1e-3), "int8")
    first = await trained(made, job)
    assert first.shared is not None
    largest = float(np.abs(first.shared["w"]).max())
    assert largest < 2e-3  # the training moved each number by 5
    assert made._lost[T].digest == first.shared.digest
    assert float(np.abs(made._lost[T].residual["w"]).max()) <= largest / 127


async def test_a_training_that_is_not_finite_is_no_update() -> None:
    made, job = tasks(Moves(float("inf")), plan())
    assert isinstance(await made.train(T, Train(key(), job.held.current.full, HYPER)), TrainingFailed)


async def test_a_promise_about_rows_is_kept_by_the_training_and_counted_as_it_was_done() -> None:
    trainer = Moves(5.0, NoisySteps(0.05, 17))
    event = await trained(*tasks(trainer, plan("rows", clip=0.3)))
    (task,) = trainer.asked
    assert task.row_privacy is not None
    assert (task.row_privacy.noise_multiplier, task.row_privacy.clip) == (2.0, 0.3)
    assert event.release == NoisyRelease("rows", 2.0, 0.05, 17)
    assert event.shared is not None and event.shared["w"].tolist() == [5.0] * NUMBERS


async def test_a_training_that_does_not_say_what_it_did_for_the_rows_is_no_update() -> None:
    made, job = tasks(Moves(5.0), plan("rows"))
    event = await made.train(T, Train(key(), job.held.current.full, HYPER))
    assert isinstance(event, TrainingFailed) and "expected NoisySteps" in event.reason
