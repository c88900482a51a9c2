"""The increment around trainers: second training, private arrays, which model answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.params import Params
from flnet.training.api import Rows, Trainer
from flnet.training.checks import checked_fit, checked_private, checked_score, declared
from flnet.training.method import Method
from flnet.training.methods.controlled import Controlled
from flnet.training.methods.increment import Increment
from flnet.training.offers import checked_prediction
from tests.training.methods.lines import Lines, Point, clouds, task

METHOD = Method(personal="increment:3")


def around(trainer: Trainer, **method: Any) -> Increment:
    return Increment(trainer, trainer, 0, Method(personal="increment:3", **method))


def test_the_second_training_begins_at_the_average_plus_the_increment() -> None:
    """From 10 + (-2) = 8 to the goal 0, three steps of .1: 8 * .9^3 = 5.832, so -4.168 beside the average."""
    node = around(Point((0.0,), (1.0,)))
    params = {"z": np.array([10.0]), "personal/z": np.array([-2.0])}
    learnt = checked_private(node.personalise(task(params, epochs=50)), params, node.shared, "T")
    assert learnt["personal/z"][0] == pytest.approx(-4.168, abs=1e-9)
    assert list(learnt) == ["personal/z"]
    assert node.local_model({**params, **learnt})["z"][0] == pytest.approx(5.832, abs=1e-9)


def test_without_a_number_it_trains_for_the_epochs_of_the_round() -> None:
    node = Increment(Point((0.0,), (1.0,)), Point((0.0,), (1.0,)), 0, Method(personal="increment"))
    learnt = node.personalise(task(node.initial_params(0), epochs=2))
    assert learnt["personal/z"][0] == pytest.approx(0.81 - 1)


def test_the_first_training_and_what_nodes_compare_are_those_of_the_common_model() -> None:
    point = Point((0.0,), (1.0,))
    node = around(point)
    params = {"z": np.array([1.0]), "personal/z": np.array([-1.0])}
    fit = checked_fit(node.fit(task(params)), params, "T")
    assert fit.params["z"][0] == pytest.approx(0.81)
    assert fit.params["personal/z"][0] == -1.0
    score = node.evaluate(params)
    assert (score.accuracy, score.metrics["local_accuracy"]) == (0.5, 1.0)
    said = declared(node, "T", Params(node.initial_params(0)))
    assert said.shared == ("z",)
    assert said.personalises


def test_statistics_of_the_local_model_are_its_own_and_counters_the_common_ones() -> None:
    x, y = clouds(40, 0.0, False)
    lines = Lines(x, y)
    lines.buffers = ("b",)
    node = around(lines, choice="local")
    first = dict(node.initial_params(0))
    assert sorted(first) == ["b", "passes", "personal/b", "personal/w", "w"]
    learnt = {**first, **node.personalise(task(first, rate=0.5))}
    moved = {**learnt, "b": np.array([100.0, -100.0], np.float32)}
    assert node.local_model(moved)["b"].tolist() == node.local_model(learnt)["b"].tolist()
    assert node.local_model(learnt)["passes"].tolist() == [0]


@pytest.fixture(scope="module")
def own() -> tuple[Increment, dict[str, Any], Any, Any]:
    """A node whose classes are the other way round than in the common model, after a second training."""
    x, y = clouds(200, 6.0, True)
    foreign = Rows(*clouds(200, -6.0, False, seed=1))
    node = Increment(Lines(x, y, foreign), Lines(x, y, foreign), 0, Method(personal="increment:200"))
    common = Lines(foreign.inputs, foreign.labels)
    average = common.fit(task(common.initial_params(0), epochs=200, rate=0.5)).params
    start = {**node.initial_params(0), **average}
    learnt = {**start, **node.personalise(task(start, rate=0.5))}
    return node, learnt, x, foreign


def test_each_input_is_judged_by_the_model_that_knows_its_like(own: tuple[Any, Any, Any, Any]) -> None:
    node, params, x, foreign = own
    judged = node.predict(params, np.concatenate([x[:50], foreign.inputs[:50]]))
    checked = checked_prediction(judged, 100, 2, "T")
    assert checked.answered[50:] == ("global",) * 50
    assert checked.answered[:50].count("local") >= 47
    assert len(checked.why) == 100
    assert checked.limit is not None
    for model, error in zip(checked.answered, checked.why, strict=True):
        assert (model == "local") == (error <= checked.limit)


def test_the_choice_is_right_on_own_and_on_foreign_rows(own: tuple[Any, Any, Any, Any]) -> None:
    node, params, _, _ = own
    figures = checked_score(node.evaluate(params), "T").metrics
    assert node.evaluate(params).accuracy < 0.2  # the common model has the classes the other way round
    assert figures["local_accuracy"] > 0.95
    assert figures["chosen_accuracy"] > 0.95
    assert figures["chosen_global_accuracy"] > 0.95 > figures["local_global_accuracy"]


@pytest.mark.parametrize(("choice", "right"), [("local", True), ("global", False)])
def test_a_person_may_say_which_model_answers(own: tuple[Any, Any, Any, Any], choice: Any, right: bool) -> None:
    node, params, x, _ = own
    other = Increment(node.inner, node.inner, 0, Method(personal="increment", choice=choice))
    known = {name: params[name] for name in other.initial_params(0)}
    judged = other.predict(known, x)
    assert judged.answered == (choice,) * len(x)
    assert judged.why == ()
    assert ((judged.values.argmax(1) == node.inner.y).mean() > 0.9) == right
    assert other.onnx(known) == node.inner.onnx(other.local_model(known) if right else known)


def test_private_layers_and_controls_go_together_with_it() -> None:
    """Around SCAFFOLD's steps, the second training is the trainer's own, private head included."""

    class WithHead(Point):
        shared = ("z",)

        def initial_params(self, seed: int) -> dict[str, Any]:
            return {"z": self.start.copy(), "head": np.ones(1)}

        def fit(self, task: Any) -> Any:
            found = super().fit(task)
            return type(found)({**found.params, "head": task.params["head"] + 1}, found.examples)

    plain = WithHead((0.0,), (1.0,))
    node = Increment(Controlled(plain, 0), plain, 0, METHOD)
    first = node.initial_params(0)
    assert declared(node, "T", Params(first)).shared == ("z", "control/z")
    fit = checked_fit(node.fit(task(first)), first, "T")
    learnt = checked_private(node.personalise(task(fit.params)), fit.params, node.shared, "T")
    assert sorted(learnt) == ["personal/head", "personal/z"]
    assert node.local_model({**fit.params, **learnt})["head"].tolist() == [2.0]
    assert node.evaluate({**fit.params, **learnt}).metrics["local_accuracy"] > node.evaluate(fit.params).accuracy
