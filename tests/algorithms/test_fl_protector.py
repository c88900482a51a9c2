"""The increment around trainers: second training, private arrays, which model answers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.fl_protector import (
    STATE,
    Increment,
    Selector,
    errors,
    fresh,
    increment_of,
    known,
    raised,
    step,
    threshold,
    trained,
)
from flnet.algorithms.scaffold import Controlled
from flnet.algorithms.wrapper import Descent
from flnet.compute.checks import checked_fit, checked_private, checked_score, declared
from flnet.compute.prediction import checked_prediction
from flnet.params.params import Array, Params
from flnet.trainer import InputSpec, Method, Rows, Trainer
from tests.algorithms.lines import Lines, Point, clouds, task

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
    message = declared(node, "T", Params(node.initial_params(0)))
    assert message.shared == ("z",)
    assert message.personalises


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
    predictions = node.predict(params, np.concatenate([x[:50], foreign.inputs[:50]]))
    checked = checked_prediction(predictions, 100, 2, "T")
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


def test_what_the_selector_makes_of_test_rows_is_told_by_group() -> None:
    """Own rows in two groups, foreign ones in a third: figures of groups are those of predictions."""
    x, y = clouds(200, 6.0, True)
    foreign = Rows(*clouds(40, -6.0, False, seed=1))
    everything = Rows(
        np.concatenate([x[:30], foreign.inputs]),
        np.concatenate([y[:30], foreign.labels]),
        np.repeat(["few", "own", "foreign"], [10, 20, 40]),
    )
    node = Increment(Lines(x, y, everything), Lines(x, y, everything), 0, Method(personal="increment:200"))
    start = node.initial_params(0)
    params = {**start, **node.personalise(task(start, rate=0.5))}
    figures = node.evaluate(params).metrics
    told = node.predict(params, everything.inputs)
    is_right, is_local = told.values.argmax(1) == everything.labels, np.array(told.answered) == "local"
    for group in ("few", "own", "foreign"):
        part = everything.groups == group
        assert figures[f"chosen_accuracy_{group}"] == pytest.approx(is_right[part].mean())
        assert figures[f"answered_locally_{group}"] == pytest.approx(is_local[part].mean())
        assert figures[f"reconstruction_error_{group}"] == pytest.approx(np.array(told.why)[part].mean())
    by_group = [figures[f"chosen_accuracy_{group}"] for group in ("few", "own", "foreign")]
    assert figures["chosen_global_accuracy"] == pytest.approx(np.mean(by_group))
    assert figures["answered_locally"] > 0.9 > 0.1 > figures["answered_locally_foreign"]
    assert figures["reconstruction_threshold"] == told.limit


@pytest.mark.parametrize(("choice", "right"), [("local", True), ("global", False)])
def test_a_person_may_say_which_model_answers(own: tuple[Any, Any, Any, Any], choice: Any, right: bool) -> None:
    node, params, x, _ = own
    other = Increment(node.inner, node.inner, 0, Method(personal="increment", choice=choice))
    known = {name: params[name] for name in other.initial_params(0)}
    predictions = other.predict(known, x)
    assert predictions.answered == (choice,) * len(x)
    assert predictions.why == ()
    assert ((predictions.values.argmax(1) == node.inner.y).mean() > 0.9) == right
    assert other.onnx(known) == node.inner.onnx(other.local_model(known) if right else known)


def test_private_layers_and_controls_go_together_with_it() -> None:
    """Around SCAFFOLD's steps, the second training is the trainer's own, private head included."""

    class WithHead(Point):
        shared = ("z",)

        def initial_params(self, seed: int) -> dict[str, Any]:
            return {"z": self.start.copy(), "head": np.ones(1)}

        def fit(self, task: Any) -> Any:
            result = super().fit(task)
            return type(result)({**result.params, "head": task.params["head"] + 1}, result.examples)

    plain = WithHead((0.0,), (1.0,))
    node = Increment(Controlled(plain, 0), plain, 0, METHOD)
    first = node.initial_params(0)
    assert declared(node, "T", Params(first)).shared == ("z", "control/z")
    fit = checked_fit(node.fit(task(first)), first, "T")
    learnt = checked_private(node.personalise(task(fit.params)), fit.params, node.shared, "T")
    assert sorted(learnt) == ["personal/head", "personal/z"]
    assert node.local_model({**fit.params, **learnt})["head"].tolist() == [2.0]
    assert node.evaluate({**fit.params, **learnt}).metrics["local_accuracy"] > node.evaluate(fit.params).accuracy


# What is added to the common model, and how it is found again.


COMMON = {"w": np.array([1.0, 2.0]), "variance": np.array([0.5]), "count": np.array([7])}
LOCAL = {"w": np.array([1.5, 1.0]), "variance": np.array([0.2]), "count": np.array([9])}


def test_the_increment_leads_from_the_common_model_to_the_local_one() -> None:
    increment = increment_of(LOCAL, COMMON, ("w",))
    assert increment["w"].tolist() == [0.5, -1.0]
    assert raised(COMMON, increment)["w"].tolist() == [1.5, 1.0]
    assert raised(COMMON, increment)["count"].tolist() == [7]
    assert raised({"w": np.array([10.0, 10.0])}, increment)["w"].tolist() == [10.5, 9.0]  # the next common model


def test_what_is_kept_whole_never_depends_on_the_common_model() -> None:
    increment = increment_of(LOCAL, COMMON, ("w", "variance"), kept=("variance",))
    fallen = {**COMMON, "variance": np.array([0.1])}
    assert raised(fallen, increment, kept=("variance",))["variance"].tolist() == [0.2]


# The autoencoder: its gradients are those of its error, it learns, and tells what it knows from the rest.


class _Looking(Descent):
    """Keeps the gradients of a step instead of taking it."""

    def __init__(self) -> None:
        super().__init__("sgd", 0.0)
        self.seen: dict[str, Array] = {}

    def step(self, params: object, gradients: object) -> None:
        assert isinstance(gradients, dict)
        self.seen = gradients


@pytest.mark.parametrize("shape", [(8, 4, 2), (6, 5, 1), (7,), (1,)])
def test_gradients_are_those_of_the_error(shape: tuple[int, ...]) -> None:
    chance = np.random.default_rng(3)
    x = chance.random((3, *shape))
    weights = {name: value.astype(np.float64) for name, value in fresh(shape, 1).items()}
    looking = _Looking()
    before = step(weights, looking, x)
    assert set(looking.seen) == set(weights)
    for name, value in weights.items():
        place = tuple(chance.integers(0, side) for side in value.shape)
        updates, width = value[place], 1e-5
        value[place] = updates + width
        above = step(weights, _Looking(), x)
        value[place] = updates - width
        below = step(weights, _Looking(), x)
        value[place] = updates
        assert looking.seen[name][place] == pytest.approx((above - below) / (2 * width), rel=1e-3, abs=1e-7)
    assert step(weights, _Looking(), x) == before


def bars(count: int, across: bool, seed: int) -> Array:
    """Images of bright bars in one direction, shifted by chance."""
    chance, result = np.random.default_rng(seed), np.zeros((count, 8, 8, 1), np.float32)
    for image, shift in zip(result, chance.integers(0, 4, count), strict=True):
        image[shift::4] = chance.uniform(0.7, 1)
    return result if across else result.transpose(0, 2, 1, 3)


def test_images_unlike_the_own_ones_are_rebuilt_worse() -> None:
    weights = trained(bars(96, True, 0), 0, least=400)
    assert all(value.dtype == np.float32 for value in weights.values())
    own, foreign = errors(weights, bars(50, True, 1)), errors(weights, bars(50, False, 1))
    assert own.shape == (50,)
    assert own.mean() < 0.25 * foreign.mean()


def test_dark_images_are_learnt_and_not_taken_for_black_ones() -> None:
    """Thin bright lines on black: from grey, training ended at an error of 0.0355, that of black images."""
    chance = np.random.default_rng(0)
    x = np.zeros((96, 16, 16, 1), np.float32)
    for image in x:
        place = chance.integers(4, 12, 2)
        for move in chance.integers(-1, 2, (14, 2)):
            place = np.clip(place + move, 3, 12)
            image[tuple(place)] = 1
    assert errors(trained(x, 0, least=200), x).mean() < 0.5 * np.square(x).mean()


def test_rows_unlike_the_own_ones_are_rebuilt_worse() -> None:
    chance = np.random.default_rng(0)
    inner = chance.normal(size=(300, 2)) @ chance.normal(size=(2, 8))  # a plane in eight dimensions
    weights = trained(inner[:200].astype(np.float32), 0)
    foreign = chance.normal(size=(100, 8)) * inner.std()
    assert errors(weights, inner[200:]).mean() < 0.5 * errors(weights, foreign).mean()


def test_equal_inputs_and_seeds_give_equal_autoencoders() -> None:
    x = bars(20, True, 0)
    one, same, other = trained(x, 0, least=5), trained(x, 0, least=5), trained(x, 1, least=5)
    assert all((one[name] == same[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)
    assert {name: value.shape for name, value in fresh((8, 8, 1), 0).items()} == {
        name: value.shape for name, value in one.items()
    }


# The threshold of the selector, and its answers.


def test_the_threshold_worked_by_hand() -> None:
    """Mean .02, standard deviation of the population .0070710678."""
    limit = threshold(np.array([0.01, 0.02, 0.03, 0.02]))
    assert limit == pytest.approx(0.0412132034, abs=1e-9)
    assert known(np.array([0.0412, 0.0413]), limit).tolist() == [True, False]
    assert not known(np.zeros(3), threshold(np.empty(0))).any()  # without own inputs
    equal = threshold(np.full(4, 0.5))
    assert equal == 0.5 and known(np.array([0.5, 0.500001]), equal).tolist() == [True, False]


# The selector: what it learns once, and for which inputs the local model answers.


TABLE = InputSpec("features", (4,))


def test_own_rows_are_known_and_others_are_not() -> None:
    selector = Selector(TABLE, 0)
    own, others = clouds(200, 0.0, False)[0], clouds(100, 8.0, True)[0]
    params = selector.learnt(selector.initial(), own)
    is_local, errors, limit = selector.choose(params, np.concatenate([own, others]))
    assert is_local[:200].mean() > 0.95
    assert not is_local[200:].any()
    assert ((errors <= limit) == is_local).all()
    assert params[STATE][0] == 200


def test_it_learns_once_and_again_when_rows_come() -> None:
    selector, own = Selector(TABLE, 0), clouds(50, 0.0, False)[0]
    params = selector.learnt(selector.initial(), own)
    again = selector.learnt(params, own)
    assert all(again[name] is params[name] for name in params)
    more = selector.learnt(params, np.concatenate([own, own]))
    assert more[STATE][0] == 100
    assert selector.mark(more) != selector.mark(params)


def test_before_it_learnt_and_without_own_rows_the_common_model_answers() -> None:
    selector = Selector(TABLE, 0)
    for params in (selector.initial(), selector.learnt(selector.initial(), np.empty((0, 4)))):
        assert not selector.choose(params, np.zeros((3, 4)))[0].any()


def test_images_are_scaled_by_their_range_and_arrays_keep_their_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.algorithms.fl_protector.trained", partial(trained, epochs=1, least=100))
    for shape in ((6, 5), (6, 5, 3)):
        selector = Selector(InputSpec("image", shape, 0, 255), 0)
        images = np.random.default_rng(0).integers(0, 255, (5, *shape)).astype(np.uint8)
        initial = selector.initial()
        params = selector.learnt(initial, images)
        assert {n: (v.shape, v.dtype) for n, v in params.items()} == {
            n: (v.shape, v.dtype) for n, v in initial.items()
        }
        assert selector.choose(params, images)[0].all()
        assert max(selector.choose(params, images)[1]) < 1  # in units of the range


def test_a_column_that_never_changes_is_no_trouble() -> None:
    rows = np.zeros((20, 4))
    selector = Selector(TABLE, 0)
    params = selector.learnt(selector.initial(), rows)
    assert all(np.isfinite(value).all() for value in params.values())
