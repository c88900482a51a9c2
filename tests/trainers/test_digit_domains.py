"""The convolutional network on unlike domains: its parameters, its training, and what it offers to methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.messages import HyperParams
from flnet.params import Params, Schema
from flnet.training.api import Task, TrainerSettings
from flnet.training.data import Labelled
from tests.trainers.domain_files import written
from trainers.DIGIT_DOMAINS import SHAPES, DigitDomains, make_trainer

ONE = HyperParams(e=1, u=0.003, b=16)


@pytest.fixture
def trainer(tmp_path: Path) -> DigitDomains:
    return node(tmp_path)


def node(folder: Path, part: int = 3) -> DigitDomains:
    made = make_trainer(TrainerSettings(written(folder), folder, (part, 4)))
    assert isinstance(made, DigitDomains)
    return made


def test_the_network_is_that_of_the_paper(trainer: DigitDomains) -> None:
    params = Params(trainer.initial_params(0))
    assert {name: array.shape for name, array in params.items()} == SHAPES
    assert Schema.of(params).numbers == 28_474
    assert params == Params(trainer.initial_params(0)) != Params(trainer.initial_params(1))


def test_training_learns_what_shows(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)
    fit = trainer.fit(Task(start, HyperParams(e=60, u=0.003, b=16), 0))
    assert fit.metrics["loss"] < 2.0
    assert trainer.evaluate(fit.params).accuracy > trainer.evaluate(start).accuracy
    assert fit.examples == 60


def test_equal_seeds_give_equal_training(trainer: DigitDomains) -> None:
    start = Params(trainer.initial_params(0))
    one, same, other = (Params(trainer.fit(Task(start, ONE, seed)).params) for seed in (1, 1, 2))
    assert one == same != other


def test_the_first_step_by_gradients_is_that_of_training(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)
    task = Task(start, ONE, 5)
    steps = trainer.gradients(task)
    assert (steps.steps, steps.optimiser) == (4, "adam")
    loss, gradient = steps(start, 0)
    ends = iter([True])
    fit = trainer.fit(Task(start, ONE, 5, is_over=lambda: next(ends)))
    assert fit.metrics["loss"] == pytest.approx(loss)
    moved = fit.params["dense4.weight"] - start["dense4.weight"]
    slope = gradient["dense4.weight"]
    np.testing.assert_allclose(moved, -0.003 * slope / (np.abs(slope) + 1e-7), atol=1e-6)
    assert steps.fit(start, 2, 1.0).examples == 32


def test_the_proximal_term_holds_near_the_start(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)

    def moved(mu: float) -> float:
        params = trainer.fit(Task(start, HyperParams(e=10, u=0.003, b=16), 0, proximal=mu)).params
        return float(sum(np.square(params[name] - start[name]).sum() for name in SHAPES))

    assert moved(0.0) > moved(10.0) > 0


def test_figures_are_accuracies_on_the_rows_that_it_tells(trainer: DigitDomains) -> None:
    params = trainer.fit(Task(trainer.initial_params(0), ONE, 0)).params
    score = trainer.evaluate(params)
    figures = {"accuracy": score.accuracy, **score.metrics}
    assert figures.keys() == trainer.tests().keys()
    for name, rows in trainer.tests().items():
        guess = trainer.predict(params, rows.inputs).values.argmax(1)
        assert figures[name] == pytest.approx(float((guess == rows.labels).mean()))
    assert trainer.evaluate_many([(trainer, params)]) == [score]


def test_what_people_and_methods_see(trainer: DigitDomains) -> None:
    info = trainer.data_info()
    assert (info.source, info.rows) == ("digits of usps", {"train": 60, "validation": 0, "test": 20})
    assert trainer.inputs().shape == (60, 16, 16, 3)
    assert trainer.input_spec().shape == (16, 16, 3)
    trainer.change_rows(lambda rows: Labelled(rows.x[:10], rows.y[:10]))
    assert trainer.fit(Task(trainer.initial_params(0), ONE, 0)).examples == 10
