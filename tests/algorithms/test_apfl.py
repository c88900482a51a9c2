"""APFL's mixture and share, on the worked step of a quadratic loss."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.algorithms.apfl import Adaptive, mixed, moved_share
from flnet.compute.checks import checked_fit, declared
from flnet.params.params import Params
from flnet.trainer import Gradients, Method, Optimiser, Task
from tests.algorithms.lines import Point, task


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


# APFL around a trainer: the worked step, and what stays private.


METHOD = Method(personal="apfl:0.5:0.01:sgd")
START = {"z": np.array([1.0, 0.0]), "personal/z": np.array([0.0, 2.0]), "personal-share": np.array([0.5])}


class Tuned(Point):
    """A point whose own training descends by some optimiser."""

    optimiser: Optimiser = "sgd"

    def gradients(self, task: Task) -> Gradients:
        steps = super().gradients(task)
        steps.optimiser = self.optimiser
        return steps


def node(method: Method = METHOD) -> Adaptive:
    return Adaptive(Point((2.0, 2.0), (1.0, 0.0)), 0, method)


def test_one_step_worked_by_hand() -> None:
    """Of the loss |z - (2, 2)|^2 / 2: the mixture is (0.5, 1), its slope (-1.5, -1)."""
    fit = checked_fit(node().fit(task(START, epochs=1)), START, "T")
    assert fit.params["z"] == pytest.approx([1.1, 0.2], abs=1e-9)
    assert fit.params["personal/z"] == pytest.approx([0.075, 2.05], abs=1e-9)
    assert fit.params["personal-share"] == pytest.approx([0.505], abs=1e-9)
    assert node().local_model(fit.params)["z"] == pytest.approx([0.582375, 1.13425], abs=1e-9)
    assert fit.metrics["personal_share"] == pytest.approx(0.505, abs=1e-9)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_the_second_model_descends_plainly_whatever_trains_the_common_one(optimiser: Optimiser) -> None:
    """Deng et al., Algorithm 1, written down here; by Adam the share would make no difference to its path."""
    for share in (0.05, 0.5, 1.0):
        point = Tuned((2.0, 2.0), (1.0, 0.0))
        point.optimiser = optimiser
        start = {**START, "personal-share": np.array([share])}
        fit = Adaptive(point, 0, Method(personal=f"apfl:{share}:0")).fit(task(start, epochs=1))
        slope = share * (share * START["personal/z"] + (1 - share) * START["z"] - point.goal)
        assert fit.params["personal/z"] == pytest.approx(START["personal/z"] - 0.1 * slope, abs=1e-12)


def test_the_common_model_is_trained_as_without_a_second_one() -> None:
    point = Point((2.0, 2.0), (1.0, 0.0))
    fit = node().fit(task(START, epochs=3))
    assert fit.params["z"] == pytest.approx(point.fit(task({"z": START["z"]}, epochs=3)).params["z"], abs=1e-12)


def test_the_second_model_and_its_share_are_private_and_begin_alike() -> None:
    first = node().initial_params(0)
    message = declared(node(), "T", Params(first))
    assert message.shared == ("z",)
    assert not message.personalises
    assert first["personal/z"].tolist() == first["z"].tolist()
    assert first["personal-share"].tolist() == [0.5]


def test_nodes_compare_the_common_model_and_see_the_mixture() -> None:
    score = node().evaluate(START)
    assert score.accuracy == pytest.approx(1 / (1 + 5))  # z at (1, 0), the goal at (2, 2)
    assert score.metrics["local_accuracy"] == pytest.approx(1 / (1 + 1.5**2 + 1))
    assert (score.metrics["first"], score.metrics["local_first"]) == (1.0, 0.5)


def test_a_proximal_term_holds_the_common_model_only() -> None:
    free, held = (
        node(Method(local, "apfl:0.5:0.01:sgd")).fit(task(START, epochs=5)) for local in ("plain", "proximal:2")
    )
    moved = [np.abs(fit.params["z"] - START["z"]).sum() for fit in (free, held)]
    assert moved[1] < 0.8 * moved[0]
