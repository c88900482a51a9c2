"""SCAFFOLD's local side on two quadratic losses, three rounds worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params import Array
from flnet.personal import Descent, corrected, renewed

RATE, STEPS = 0.1, 2
SLOPES = (lambda x: x, lambda x: 2 * (x - 3))
ROUNDS = [  # y and c_i of both, then x and c
    ((0.81, 1.72), (0.95, -3.6), 1.265, -1.325),
    ((1.4569, 1.4801), (1.3155, -3.3505), 1.4685, -1.0175),
    ((1.632755, 1.5999), (1.511725, -2.99), 1.6163275, -0.7391375),
]


def local(
    number: int, x: Array, own: dict[str, Array], common: dict[str, Array]
) -> tuple[Array, dict[str, Array]]:
    params, descent = {"x": x.copy()}, Descent("sgd", RATE)
    for _ in range(STEPS):
        descent.step(params, corrected({"x": SLOPES[number](params["x"])}, own, common))
    return params["x"], renewed(own, common, {"x": x}, params, STEPS, RATE)


def test_three_rounds_of_two_nodes() -> None:
    x, common = np.array([1.0]), {"x": np.zeros(1)}
    controls = [{"x": np.zeros(1)}, {"x": np.zeros(1)}]
    for ys, cs, mean, control in ROUNDS:
        ends = [local(number, x, controls[number], common) for number in (0, 1)]
        controls = [own for _, own in ends]
        assert [end[0] for end, _ in ends] == pytest.approx(ys, abs=1e-9)
        assert [own["x"][0] for own in controls] == pytest.approx(cs, abs=1e-9)
        x = np.mean([end for end, _ in ends], axis=0)
        common = {"x": np.mean([own["x"] for own in controls], axis=0)}
        assert (x[0], common["x"][0]) == (pytest.approx(mean, abs=1e-9), pytest.approx(control, abs=1e-9))


def test_without_control_variates_a_step_is_the_plain_one() -> None:
    zero = {"x": np.zeros(2)}
    assert corrected({"x": np.array([1.0, 2.0])}, zero, zero)["x"].tolist() == [1.0, 2.0]
