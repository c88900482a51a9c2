"""What all wrapped trainers have in common: they say and do what the trainer inside does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.wrapper import Descent, Model, Wrapped, no_clash, overrides, walked
from flnet.compute.checks import checked_fit, declared
from flnet.errors import TrainerError
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import Fit, Score, Task, Trainer
from tests.algorithms.lines import Lines, Point, clouds, task


def lines() -> Lines:
    made = Lines(*clouds(40, 0.0, False))
    made.note, made.agreement, made.shared = "careful", {"columns": "four"}, ("w", "passes")
    return made


def test_it_declares_what_the_trainer_inside_declares() -> None:
    one, wrapped = lines(), Wrapped(lines(), 0)
    params = Params(one.initial_params(0))
    assert declared(wrapped, "T", params) == declared(one, "T", params)
    assert Params(wrapped.initial_params(3)) == Params(one.initial_params(3))


def test_it_trains_and_measures_as_the_trainer_inside_and_keeps_other_arrays() -> None:
    one, wrapped = lines(), Wrapped(lines(), 0)
    start = {**one.initial_params(0), "private": np.ones(2)}
    fit = checked_fit(wrapped.fit(task(start)), start, "T")
    own = one.fit(task(one.initial_params(0)))
    assert Params(fit.params) == Params({**own.params, "private": np.ones(2)})
    assert wrapped.evaluate(fit.params) == one.evaluate(own.params)
    x = np.ones((3, 4), np.float32)
    assert (wrapped.predict(fit.params, x).values == one.predict(own.params, x).values).all()
    assert wrapped.onnx(fit.params) == one.onnx(own.params)


def test_the_validation_rows_of_the_trainer_inside_are_its_own() -> None:
    class Validating(Point):
        def validation_score(self, params: Model) -> Score | None:
            return Score(float(params["z"][0]), 3)

    one = Validating((1.0,), (0.25,))
    assert Wrapped(one, 0).validation_score({"z": np.array([0.25]), "mine": np.ones(1)}) == Score(0.25, 3)
    assert Wrapped(Point((1.0,), (0.0,)), 0).validation_score({"z": np.zeros(1)}) is None


def test_many_at_once_go_to_the_trainers_inside() -> None:
    class Counting(Point):
        calls = 0

        @classmethod
        def fit_many(cls, jobs: Sequence[tuple[Any, Task]]) -> list[Fit]:
            cls.calls += 1
            return super().fit_many(jobs)

    points = [Wrapped(Counting((1.0,), (float(start),)), 0) for start in range(3)]
    jobs = [(point, task(point.initial_params(0))) for point in points]
    result = Wrapped.fit_many(jobs)
    assert Counting.calls == 1
    assert [Params(fit.params) for fit in result] == [Params(each.fit(job).params) for each, job in jobs]
    mixed = [*points, Wrapped(Point((1.0,), (2.0,)), 0)]
    assert len(Wrapped.fit_many([(each, task(each.initial_params(0))) for each in mixed])) == 4
    assert Counting.calls == 1
    measured = Wrapped.evaluate_many([(point, point.initial_params(0)) for point in points])
    assert measured == [point.evaluate(point.initial_params(0)) for point in points]


def test_optional_methods_are_those_of_the_trainer_inside() -> None:
    twice = Wrapped(Wrapped(Point((1.0,), (0.0,)), 0), 0)
    assert overrides(twice, "gradients")
    assert not overrides(twice, "onnx")
    assert overrides(Wrapped(lines(), 0), "onnx")
    assert not overrides(Point((1.0,), (0.0,)), "inputs")


def test_a_name_that_a_method_needs_is_refused() -> None:
    no_clash(("w", "mine/personal/w"), ("personal/",))
    with pytest.raises(TrainerError, match="'personal/w' has a name that a method of flnet needs"):
        no_clash(("w", "personal/w"), ("personal/",))


def test_steps_end_when_the_time_is_over() -> None:
    one: Trainer = Point((1.0,), (0.0,))
    told: list[tuple[int, int]] = []
    limited = Task(
        Params(one.initial_params(0)),
        HyperParams(e=9, u=0.1, b=1),
        0,
        progress=lambda done, total: told.append((done, total)),
        is_over=lambda: len(told) == 3,
    )
    gradients = one.gradients(limited)
    assert gradients is not None
    assert walked(gradients, limited, float) == (3, 1.0)
    assert told == [(1, 9), (2, 9), (3, 9)]


# Steps of the three optimisers, worked by hand.


def test_a_plain_step() -> None:
    params = {"w": np.array([1.0, 2.0]), "kept": np.ones(1)}
    Descent("sgd", 0.1).step(params, {"w": np.array([10.0, -10.0])})
    assert params["w"].tolist() == [0.0, 3.0]
    assert params["kept"].tolist() == [1.0]


def test_momentum_adds_nine_tenths_of_the_last_speed() -> None:
    params, descent = {"w": np.zeros(1)}, Descent("momentum", 0.1)
    for expected in (-0.1, -0.1 - 0.19, -0.1 - 0.19 - 0.271):
        descent.step(params, {"w": np.ones(1)})
        assert params["w"][0] == pytest.approx(expected, abs=1e-12)


def test_adam_begins_with_steps_of_the_rate_whatever_the_gradients_size() -> None:
    params, descent = {"w": np.zeros(3)}, Descent("adam", 0.01)
    descent.step(params, {"w": np.array([1.0, -100.0, 0.01])})
    assert params["w"] == pytest.approx([-0.01, 0.01, -0.01], rel=1e-4)
    descent.step(params, {"w": np.array([1.0, 100.0, 0.01])})
    # By hand for the second: mean .9*(-10)+.1*100=1, over 1-.81; square about 1e4: a step of .01*(1/.19)/100.
    assert params["w"][1] == pytest.approx(0.01 - 0.01 * (1 / 0.19) / 100, rel=1e-3)


def test_numbers_keep_their_type() -> None:
    for optimiser in ("sgd", "momentum", "adam"):
        params = {"w": np.zeros(2, np.float32)}
        Descent(optimiser, 0.1).step(params, {"w": np.ones(2, np.float64)})
        assert params["w"].dtype == np.float32
        assert (params["w"] < 0).all()
