"""APFL's mixture and share, on the worked step of a quadratic loss."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.personal import Descent, mixed, moved_share

GOAL = np.array([2.0, 2.0])  # of the loss |z - GOAL|^2 / 2


def test_one_step_worked_by_hand() -> None:
    w, v, share = {"z": np.array([1.0, 0.0])}, {"z": np.array([0.0, 2.0])}, 0.5
    mixture = mixed(v, w, share)
    assert mixture["z"].tolist() == [0.5, 1.0]
    slope_w, slope = {"z": w["z"] - GOAL}, {"z": mixture["z"] - GOAL}
    assert slope["z"].tolist() == [-1.5, -1.0]
    moved = moved_share(share, 0.01, v, w, slope)
    Descent("sgd", 0.1).step(w, slope_w)
    Descent("sgd", 0.1).step(v, {"z": share * slope["z"]})
    assert w["z"] == pytest.approx([1.1, 0.2], abs=1e-9)
    assert v["z"] == pytest.approx([0.075, 2.05], abs=1e-9)
    assert moved == pytest.approx(0.505, abs=1e-9)
    assert mixed(v, w, moved)["z"] == pytest.approx([0.582375, 1.13425], abs=1e-9)


def test_a_share_of_0_is_the_common_model_and_of_1_the_own() -> None:
    own, common = {"a": np.ones(2, np.float32)}, {"a": np.zeros(2, np.float32), "count": np.array([3])}
    assert mixed(own, common, 0.0)["a"].tolist() == [0, 0]
    assert mixed(own, common, 1.0)["a"].tolist() == [1, 1]
    assert mixed(own, common, 0.5)["a"].dtype == np.float32
    assert mixed(own, common, 0.5)["count"].tolist() == [3]


@pytest.mark.parametrize(("slope", "end"), [(1e6, 0.0), (-1e6, 1.0)])
def test_the_share_stays_between_0_and_1(slope: float, end: float) -> None:
    one, zero = {"a": np.ones(1)}, {"a": np.zeros(1)}
    assert moved_share(0.5, 0.1, one, zero, {"a": np.array([slope])}) == end
