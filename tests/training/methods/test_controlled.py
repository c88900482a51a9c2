"""SCAFFOLD's local side around trainers: two nodes worked by hand, and what is declared."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params import Params
from flnet.training.checks import checked_fit, declared
from flnet.training.methods.controlled import Controlled
from tests.training.methods.lines import Point, task

ROUNDS = [  # y and c_i of both nodes, then x and c
    ((0.81, 1.72), (0.95, -3.6), 1.265, -1.325),
    ((1.4569, 1.4801), (1.3155, -3.3505), 1.4685, -1.0175),
    ((1.632755, 1.5999), (1.511725, -2.99), 1.6163275, -0.7391375),
]


def test_three_rounds_of_two_nodes() -> None:
    """Losses x^2 / 2 and (x - 3)^2 from x = 1, two steps of .1 a round; merged as SCAFFOLD merges."""
    nodes = [Controlled(Point((0.0,), (1.0,)), 0), Controlled(Point((3.0,), (1.0,), slope=2.0), 0)]
    held = [dict(node.initial_params(0)) for node in nodes]
    for ys, cs, mean, control in ROUNDS:
        fits = [checked_fit(node.fit(task(params)), params, "T") for node, params in zip(nodes, held, strict=True)]
        assert [fit.params["z"][0] for fit in fits] == pytest.approx(ys, abs=1e-9)
        assert [fit.params["control/z"][0] for fit in fits] == pytest.approx(cs, abs=1e-9)
        assert [fit.params["own control/z"][0] for fit in fits] == pytest.approx(cs, abs=1e-9)
        common = {name: np.mean([fit.params[name] for fit in fits], axis=0) for name in nodes[0].shared or ()}
        held = [{**fit.params, **common} for fit in fits]
        assert common["z"][0] == pytest.approx(mean, abs=1e-9)
        assert common["control/z"][0] == pytest.approx(control, abs=1e-9)


def test_the_first_round_is_the_plain_training() -> None:
    """With all control variates 0, as FedAvg."""
    point, controlled = Point((3.0,), (1.0,)), Controlled(Point((3.0,), (1.0,)), 0)
    start = controlled.initial_params(0)
    learnt, plain = controlled.fit(task(start, epochs=4)), point.fit(task({"z": start["z"]}, epochs=4))
    assert learnt.params["z"] == pytest.approx(plain.params["z"], abs=1e-12)
    assert learnt.metrics["loss"] > 0


def test_shared_controls_have_a_rule_of_their_own_and_own_ones_stay() -> None:
    class TwoLayers(Point):
        shared = ("z",)

        def initial_params(self, seed: int) -> dict[str, np.ndarray]:
            return {"z": self.start.copy(), "head": np.ones(1), "count": np.zeros(1, np.int64)}

    node = Controlled(TwoLayers((0.0,), (1.0,)), 0)
    said = declared(node, "T", Params(node.initial_params(0)))
    assert said.shared == ("z", "control/z")  # nothing of the private head is told
    assert said.merge == {"control/z": "control"}
    assert set(node.initial_params(0)) == {"z", "head", "count", "control/z", "own control/z"}
