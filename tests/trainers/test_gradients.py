"""Trainings taken apart: steps by a trainer's gradients are its own training; FedProx's term, in both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.algorithms.wrapper import Descent  # noqa: E402
from flnet.compute.prediction import check_inputs  # noqa: E402
from flnet.params.params import Array, Params  # noqa: E402
from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Fit, Task, Trainer  # noqa: E402
from tests.trainers.made_trainers import made  # noqa: E402

NAMES = ("MNIST", "MNIST_3_7", "MOOC", "MULTI_LABEL", "images", "table")


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trainer]:
    return {name: made(name, tmp_path_factory.mktemp(name.lower())) for name in NAMES}


def by_gradients(trainer: Trainer, task: Task) -> Fit:
    """The trainer's own training, in steps of ours."""
    gradients = trainer.gradients(task)
    assert gradients is not None
    start = {name: value.copy() for name, value in task.params.items()}
    params = {name: value.copy() for name, value in task.params.items()}
    descent, losses = Descent(gradients.optimiser, task.hyper.u), 0.0
    for step in range(gradients.steps):
        loss, slope = gradients(params, step)
        losses += loss
        drawn = {name: g + task.proximal * (params[name] - start[name]) for name, g in slope.items()}
        descent.step(params, drawn)
    return gradients.fit(params, gradients.steps, losses / gradients.steps)


def distance(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    return float(sum(((one[name] - other[name]) ** 2).sum() for name in other) ** 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_validation_rows_give_the_accuracy_that_a_training_tells(trainers: dict[str, Trainer], name: str) -> None:
    trainer = trainers[name]
    fit = trainer.fit(Task(Params(trainer.initial_params(0)), HyperParams(e=1, u=0.05, b=16), 0))
    score = trainer.validation_score(fit.params)
    assert score is not None
    assert score.accuracy == pytest.approx(fit.metrics["validation_accuracy"])
    assert score.examples == trainer.data_info().rows["validation"]


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_steps_by_gradients_are_the_trainers_own_training(
    trainers: dict[str, Trainer], name: str, mu: float
) -> None:
    trainer = trainers[name]
    start = Params(trainer.initial_params(0))
    task = Task(start, HyperParams(e=2, u=0.01 if name != "MOOC" else 0.001, b=40), seed=5, proximal=mu)
    own, ours = trainer.fit(task), by_gradients(trainer, task)
    assert (ours.examples, ours.labels) == (own.examples, own.labels)
    assert ours.metrics.keys() == own.metrics.keys()
    assert ours.metrics["loss"] == pytest.approx(own.metrics["loss"], abs=1e-5)
    for key, value in own.params.items():
        np.testing.assert_allclose(ours.params[key], value, rtol=0, atol=2e-5)
    assert distance(own.params, start) > 1e-3  # it moved


@pytest.mark.parametrize("name", NAMES)
def test_the_proximal_term_holds_a_training_back(trainers: dict[str, Trainer], name: str) -> None:
    trainer = trainers[name]
    assert "proximal" in trainer.honours
    start = Params(trainer.initial_params(0))
    task = Task(start, HyperParams(e=3, u=0.005, b=20), seed=5)
    free, zero, held = (trainer.fit(replace(task, proximal=mu)).params for mu in (0.0, 0.0, 50.0))
    assert Params(free) == Params(zero) == Params(trainer.fit(task).params)
    assert distance(held, start) < 0.9 * distance(free, start)


@pytest.mark.parametrize("name", NAMES)
def test_own_rows_come_as_predictions_take_them(trainers: dict[str, Trainer], name: str) -> None:
    """Judged from outside, the test rows give the accuracy that the trainer measures."""
    trainer = trainers[name]
    spec, rows = trainer.input_spec(), trainer.inputs()
    assert spec is not None and rows is not None
    assert len(rows) == trainer.data_info().rows["train"]
    assert check_inputs(np.asarray(rows[:5], np.float32), spec).shape == (5, *spec.shape)
    params = trainer.fit(Task(Params(trainer.initial_params(0)), HyperParams(e=1, u=0.02, b=16), 0)).params
    score = trainer.evaluate(params)
    measured = {"accuracy": score.accuracy, **score.metrics}
    for figure, test in trainer.tests().items():
        values = trainer.predict(params, np.asarray(test.inputs, np.float32)).values
        right = float((values.argmax(1) == test.labels).mean())
        assert right == pytest.approx(measured[figure], abs=0.011)
    assert "accuracy" in trainer.tests()
