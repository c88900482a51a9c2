"""The dense network on 8x8 digits: its gradient, its training, and what it shows of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets.labelled import Labelled
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import DataMissing, Lesson, Partition, Task, TrainerError, TrainerSettings
from trainers.SMALL_DIGITS import SHAPES, SmallDigits, make_trainer, reduced

FIVE = HyperParams(e=5, u=0.001, b=32)


def node(part: int = 1, parts: int = 5, partition: str = "iid") -> SmallDigits:
    return SmallDigits(TrainerSettings(None, Path(), (part, parts), partition=Partition.parse(partition)))


@pytest.fixture(scope="module")
def first() -> SmallDigits:
    return node()


def with_mnist(folder: Path, lines: str) -> TrainerSettings:
    (folder / "small_digits.toml").write_text(lines)
    return TrainerSettings(folder, folder, (1, 2))


def test_digits_of_mnist_are_reduced_to_the_same_size(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (60, 28, 28), np.uint8)
    labels = np.arange(60) % 10
    x_train, x_test, y_train, y_test = images[:40], images[40:], labels[:40], labels[40:]
    np.savez(tmp_path / "mnist.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    made = SmallDigits(with_mnist(tmp_path, "mnist = 30\ntests = 10"))
    info = made.data_info()
    assert info.source == "40 digits of MNIST, reduced to 8x8 (10 of them for testing)"
    assert info.rows == {"train": 15, "validation": 0, "test": 5}
    assert len(made.tests()["global_accuracy"].labels) == 10
    small = reduced(images)
    assert small.shape == (60, 8, 8) and small.dtype == np.uint8
    assert small[3, 4, 4] == np.rint(images[3, 14:18, 14:18].mean() * 16 / 255)
    assert reduced(np.full((1, 28, 28), 255, np.uint8))[0, 0, 0] == 4  # a quarter of it lies within the picture


def test_without_mnist_its_digits_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="MNIST was not found"):
        SmallDigits(with_mnist(tmp_path, "mnist = 30"))
    with pytest.raises(TrainerError, match="expected a whole number above 0"):
        SmallDigits(with_mnist(tmp_path, "mnist = 0"))


def test_all_nodes_together_have_all_digits_and_one_test_part() -> None:
    nodes = [node(part, 4, "dirichlet:0.5") for part in range(1, 5)]
    rows = [each.data_info().rows for each in nodes]
    assert sum(each["train"] for each in rows) == 1437
    assert sum(each["test"] for each in rows) == 360
    assert len({each.data_info().checksum for each in nodes}) == 4
    tests = [each.tests()["global_accuracy"].inputs for each in nodes]
    assert all(np.array_equal(tests[0], other) for other in tests)
    trained = {row.tobytes() for each in nodes for row in each.inputs()}
    assert not trained & {row.tobytes() for row in tests[0]}


def test_equal_seeds_give_equal_starts(first: SmallDigits) -> None:
    assert Params(first.initial_params(3)) == Params(node(2).initial_params(3)) != Params(first.initial_params(4))
    assert Schema.of(first.initial_params(0)).numbers == 4810
    assert {name: array.shape for name, array in first.initial_params(0).items()} == SHAPES


def test_the_gradient_is_the_slope_of_the_loss(first: SmallDigits) -> None:
    start = {name: array.astype(np.float64) for name, array in first.initial_params(0).items()}
    steps = first.gradients(Task(start, FIVE, 1))
    assert (steps.steps, steps.optimiser) == (5 * 9, "adam")
    _, gradient = steps(start, 3)
    for name, at in {
        "hidden.weight": (20, 3),
        "hidden.bias": (3,),
        "output.weight": (5, 2),
        "output.bias": (7,),
    }.items():
        moved = {sign: {**start, name: start[name].copy()} for sign in (-1, 1)}
        for sign in moved:
            moved[sign][name][at] += sign * 1e-5
        slope = (steps(moved[1], 3)[0] - steps(moved[-1], 3)[0]) / 2e-5
        assert gradient[name][at] == pytest.approx(slope, rel=1e-3, abs=1e-7)


def test_the_gradient_is_the_slope_where_nodes_label_differently(first: SmallDigits) -> None:
    start = {name: array.astype(np.float64) for name, array in first.initial_params(0).items()}
    digits, pairs = np.asarray(first.labels(), np.int64), np.repeat(np.eye(5), 2, axis=1)
    guesses = np.where(np.arange(len(digits)) % 3, digits, -1)
    lesson = Lesson(np.full(len(digits), -1), digits // 2, pairs, 2, guesses, 0.5, 2.0)

    def loss(params: Any) -> tuple[float, Any]:
        return first.gradients(Task(params, FIVE, 1, lesson=lesson))(params, 0)  # draws the same each time

    _, gradient = loss(start)
    for name, at in {"hidden.weight": (20, 3), "output.bias": (7,)}.items():
        moved = {sign: {**start, name: start[name].copy()} for sign in (-1, 1)}
        for sign in moved:
            moved[sign][name][at] += sign * 1e-5
        slope = (loss(moved[1])[0] - loss(moved[-1])[0]) / 2e-5
        assert gradient[name][at] == pytest.approx(slope, rel=1e-3, abs=1e-7)
        assert abs(slope) > 1e-4


def test_training_learns_and_is_a_function_of_parameters_rows_and_seed(first: SmallDigits) -> None:
    start = Params(first.initial_params(0))
    fit = first.fit(Task(start, FIVE, 7))
    assert Params(fit.params) == Params(node().fit(Task(start, FIVE, 7)).params)
    assert Params(fit.params) != Params(first.fit(Task(start, FIVE, 8)).params)
    assert Params(first.initial_params(0)) == start
    assert (fit.examples, fit.labels) == (first.data_info().rows["train"], 10)
    long = first.fit(Task(start, HyperParams(e=40, u=0.001, b=32), 7))
    score = first.evaluate(long.params)
    assert score.metrics["global_accuracy"] > 0.85 > first.evaluate(start).metrics["global_accuracy"]
    assert score.accuracy == first.evaluate_many([(first, long.params)])[0].accuracy


def test_a_step_of_adam_is_as_long_as_the_rate_at_first(first: SmallDigits) -> None:
    start = first.initial_params(0)
    ends = iter([True])
    fit = first.fit(Task(start, FIVE, 0, is_over=lambda: next(ends)))
    moved = np.abs(fit.params["output.weight"] - start["output.weight"])
    assert moved.max() == pytest.approx(0.001, rel=1e-2)
    assert fit.examples == 32


def test_the_proximal_term_holds_near_the_start(first: SmallDigits) -> None:
    start = first.initial_params(0)

    def moved(mu: float) -> float:
        params = first.fit(Task(start, FIVE, 0, proximal=mu)).params
        return float(np.linalg.norm(params["hidden.weight"] - start["hidden.weight"]))

    assert moved(0.0) > moved(0.5) > moved(5.0) > 0


def test_predictions_are_those_that_the_accuracy_counts(first: SmallDigits) -> None:
    params = first.fit(Task(first.initial_params(0), FIVE, 0)).params
    rows = first.tests()["accuracy"]
    values = first.predict(params, rows.inputs).values
    np.testing.assert_allclose(values.sum(1), 1, rtol=1e-5)
    assert float((values.argmax(1) == rows.labels).mean()) == first.evaluate(params).accuracy
    assert first.input_spec().shape == rows.inputs.shape[1:]


def test_rows_can_be_changed_for_experiments(tmp_path: Path) -> None:
    trainer = make_trainer(TrainerSettings(None, tmp_path))
    assert isinstance(trainer, SmallDigits)
    trainer.change_rows(lambda rows: Labelled(rows.x[:50], rows.y[:50]))
    assert trainer.fit(Task(trainer.initial_params(0), FIVE, 0)).examples == 50


def test_validation_rows_are_held_back_if_the_person_wants_some(first: SmallDigits) -> None:
    params = first.initial_params(0)
    assert first.validation_score(params) is None and first.data_info().rows["validation"] == 0
    trainer = make_trainer(TrainerSettings(None, Path(), (1, 5), validation_share=0.2))
    info, score = trainer.data_info(), trainer.validation_score(params)
    assert score is not None and score.counts is not None
    assert info.rows["train"] + info.rows["validation"] == first.data_info().rows["train"]
    assert info.rows["validation"] == score.examples == score.counts.examples > 40
    assert info.rows["test"] == first.data_info().rows["test"]
    fit = trainer.fit(Task(params, FIVE, 0))
    validated = trainer.validation_score(fit.params)
    assert validated is not None and fit.metrics["validation_accuracy"] == validated.accuracy
    assert "validation_accuracy" not in first.fit(Task(params, FIVE, 0)).metrics
    score = trainer.evaluate(params)
    assert score == first.evaluate(params)
