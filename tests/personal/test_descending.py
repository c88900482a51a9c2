"""Steps of the three optimisers, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.personal.descending import Descent


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
