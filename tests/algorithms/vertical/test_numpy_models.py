"""Models and optimisers in numpy: gradients by finite differences, states that go on, losses, figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.numpy_models import (
    DenseBottom,
    DenseMultiLabelTop,
    DenseTop,
    Layers,
    sigmoid,
    yes_or_no_loss,
)
from flnet.algorithms.vertical.optimisers import PureDescent
from flnet.algorithms.wrapper import Descent as InPlace
from flnet.errors import ParamsRefused
from flnet.params.params import Array, Params
from flnet.trainer import Optimiser
from flnet.vertical_trainer import ModelState, TopModel

CHANCE = np.random.default_rng(0)
X = CHANCE.normal(size=(6, 3))
CLASSES, MANY = CHANCE.integers(0, 3, 6), CHANCE.integers(0, 2, (6, 3))


def tops() -> dict[str, tuple[TopModel, Array]]:
    shapes = {"binary": Layers((3, 4, 1)), "classes": Layers((3, 4, 3)), "labels": Layers((3, 4, 3), bias=False)}
    weights: dict[str, Any] = {name: layers.initial(1, np.float64) for name, layers in shapes.items()}
    return {
        "binary": (DenseTop(shapes["binary"], weights["binary"], "sgd", 1.0), (CLASSES > 0).astype(int)),
        "classes": (DenseTop(shapes["classes"], weights["classes"], "sgd", 1.0), CLASSES),
        "labels": (DenseMultiLabelTop(shapes["labels"], weights["labels"], "sgd", 1.0), MANY),
    }


@pytest.mark.parametrize("kind", ["binary", "classes", "labels"])
def test_gradients_are_the_slopes_of_the_loss(kind: str) -> None:
    """The step by rate 1 is the gradient by the weights; both are compared with central differences."""
    model, labels = tops()[kind]
    before, small = model.state(), 1e-6

    def loss(inputs: Array, weights: dict[str, Array]) -> float:
        model.load(ModelState(Params(weights)))
        return model.loss(inputs, labels)

    def slope(array: Array, at: tuple[int, ...], of: Any) -> float:
        up, down = np.array(array), np.array(array)
        up[at] += small
        down[at] -= small
        return float((of(up) - of(down)) / (2 * small))

    step = model.step(X, labels)
    after, start = model.state().weights, dict(before.weights)
    for at in np.ndindex(*X.shape):
        assert step.gradient[at] == pytest.approx(slope(X, at, lambda x: loss(x, start)), abs=1e-8)
    for name, array in start.items():
        for at in np.ndindex(*array.shape):
            expected = slope(array, at, lambda changed, name=name: loss(X, {**start, name: changed}))
            assert array[at] - after[name][at] == pytest.approx(expected, abs=1e-8), name
    assert step.loss == pytest.approx(loss(X, start))


@pytest.mark.parametrize("relu_at_end", [True, False])
def test_bottom_gradients_are_slopes_too(relu_at_end: bool) -> None:
    layers = Layers((3, 4, 2), relu_at_end=relu_at_end)
    weights, direction = layers.initial(2, np.float64), CHANCE.normal(size=(6, 2))
    model = DenseBottom(layers, weights, "sgd", 1.0)
    model.forward(0, X)
    model.backward(0, direction)
    after = model.state().weights
    for name, array in weights.items():
        for at in np.ndindex(*array.shape):
            values = []
            for change in (1e-6, -1e-6):
                changed = {**weights, name: np.array(array)}
                changed[name][at] += change
                values.append((layers.forward(changed, X)[-1] * direction).sum())
            assert array[at] - after[name][at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


def test_the_gradient_is_taken_at_the_weights_of_the_outputs_and_applied_to_the_newest() -> None:
    layers, gradient = Layers((3, 4, 2)), CHANCE.normal(size=(6, 2))
    weights = layers.initial(2, np.float64)
    model, alone = (DenseBottom(layers, weights, "sgd", 1.0) for _ in range(2))
    alone.forward(0, X)
    alone.backward(0, gradient)
    for step in range(2):
        model.forward(step, X)  # both at the first weights
    for step in range(2):
        model.backward(step, gradient)
    once, twice = alone.state().weights, model.state().weights
    for name, first in weights.items():
        assert twice[name] - once[name] == pytest.approx(once[name] - first, abs=1e-12), name


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_steps_are_those_of_the_optimiser_in_place(optimiser: Optimiser) -> None:
    ours, other = PureDescent(optimiser, 0.1), InPlace(optimiser, 0.1)
    first = {"w": np.ones(4), "fixed": np.ones(2)}
    weights, in_place = first, {name: np.array(value) for name, value in first.items()}
    for _ in range(5):
        gradient = {"w": CHANCE.normal(size=4)}
        weights = ours.step(weights, gradient)
        other.step(in_place, gradient)
    assert first["w"].tolist() == [1] * 4
    assert weights["w"] == pytest.approx(in_place["w"], abs=1e-15)
    assert weights["fixed"] is first["fixed"]


def test_odd_optimisers_and_layers_are_refused() -> None:
    for optimiser, rate in (("rms", 0.1), ("sgd", 0.0), ("sgd", float("nan"))):
        with pytest.raises(ValueError, match="optimiser="):
            PureDescent(optimiser, rate)  # type: ignore[arg-type]
    for widths in ((3,), (3, 0)):
        with pytest.raises(ValueError, match="widths="):
            Layers(widths)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(optimiser: Optimiser) -> None:
    layers, gradient = Layers((3, 2)), np.ones((6, 2))
    models = [DenseBottom(layers, layers.initial(3), optimiser, 0.1) for _ in range(2)]
    for step in range(3):
        models[0].forward(step, X)
        models[0].backward(step, gradient)
    saved = models[0].state()
    models[1].forward(7, X)
    models[1].load(saved)
    for model in models:
        model.forward(3, X)
        model.backward(3, gradient)
    assert models[0].state().digest == models[1].state().digest != saved.digest
    with pytest.raises(KeyError):
        models[1].backward(7, gradient)  # it was under way when the state was loaded


def test_the_digest_covers_weights_and_optimiser() -> None:
    weights = Params({"0.weight": np.ones(2)})
    states = [ModelState(weights), ModelState(weights, Params({"steps": np.array(1)})), ModelState(Params())]
    assert len({state.digest for state in states}) == 3
    assert ModelState(weights).digest == ModelState(Params({"0.weight": np.ones(2)})).digest


def test_a_state_of_another_model_is_refused() -> None:
    layers = Layers((3, 2))
    model = DenseBottom(layers, layers.initial(0))
    for other in (Layers((4, 2)).initial(0), Layers((3, 2), bias=False).initial(0)):
        with pytest.raises(ParamsRefused):
            model.load(ModelState(Params(other)))


def test_equal_seeds_give_equal_weights() -> None:
    layers = Layers((3, 4, 2))
    one, same, other = (layers.initial(seed) for seed in (5, 5, 6))
    assert all((one[name] == same[name]).all() for name in one)
    assert (one["0.weight"] != other["0.weight"]).any()
    assert one["0.weight"].dtype == np.float32


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.integers(0, 1)), min_size=1))
def test_the_loss_never_overflows(rows: list[tuple[float, int]]) -> None:
    scores, truth = (np.array(column, np.float64)[:, None] for column in zip(*rows, strict=True))
    loss, gradient = yes_or_no_loss(scores, truth)
    assert 0 <= loss < np.inf
    assert (np.abs(gradient) <= 1 / len(rows)).all()
    assert ((sigmoid(scores) >= 0) & (sigmoid(scores) <= 1)).all()


def test_two_classes_have_two_columns_and_an_area() -> None:
    model, labels = tops()["binary"]
    values, score = model.predict(X), model.evaluate(X, labels)
    assert values.shape == (6, 2)
    assert values.sum(axis=1) == pytest.approx(np.ones(6))
    assert score.accuracy == (values.argmax(axis=1) == labels).mean()
    pairs = [(values[i, 1], values[j, 1]) for i in range(6) for j in range(6) if labels[i] > labels[j]]
    assert score.metrics["auc"] == pytest.approx(
        np.mean([(high > low) + 0.5 * (high == low) for high, low in pairs])
    )


def test_figures_of_several_classes_and_labels() -> None:
    model, labels = tops()["classes"]
    assert model.predict(X).sum(axis=1) == pytest.approx(np.ones(6))
    assert set(model.evaluate(X, labels).metrics) == {"loss"}
    model, labels = tops()["labels"]
    score = model.evaluate(X, labels)
    assert score.accuracy == ((model.predict(X) >= 0.5) == labels).mean()
    assert set(score.metrics) == {"loss", "auc"}
    same = np.ones_like(labels)
    assert set(model.evaluate(X, same).metrics) == {"loss"}  # no area where all rows have a label
