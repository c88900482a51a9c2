"""Threat 13: a node learns from flipped labels. Nothing refuses its updates; the history shows what they cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.params.params import Array
from flnet.protocol.messages import HyperParams
from flnet.trainer import Fit, Score, Task, Trainer
from tests.node.mesh import MNIST_3_7, Mesh

TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 3}'
CENTRES = np.array([[0, 3], [3, -2], [-3, -2]], np.float32)
ROWS, TEST_ROWS, FLIPPED = 300, 300, 0


class Clouds(Trainer):
    """Softmax regression on three clouds of points; its figures name each class."""

    label = "MNIST 3 vs 7 Dataset"
    defaults = HyperParams(e=5, u=0.5, b=64)

    def __init__(self, seed: int, flips: bool = False, times: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 3, ROWS)
        self.x = CENTRES[self.y] + rng.normal(size=(ROWS, 2))
        if flips:
            self.y = np.where(self.y == FLIPPED, 1, self.y)
        self.test_y = rng.integers(0, 3, TEST_ROWS)
        self.test_x = CENTRES[self.test_y] + rng.normal(size=(TEST_ROWS, 2))
        self.times = times

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"weights": np.zeros((2, 3), np.float32), "bias": np.zeros(3, np.float32)}

    def fit(self, task: Task) -> Fit:
        weights, bias = (task.params[name].astype(np.float64) for name in ("weights", "bias"))
        for _ in range(task.hyper.e):
            scores = self.x @ weights + bias
            shares = np.exp(scores - scores.max(1, keepdims=True))
            wrong = shares / shares.sum(1, keepdims=True) - np.eye(3)[self.y]
            weights = weights - task.hyper.u * self.x.T @ wrong / ROWS
            bias = bias - task.hyper.u * wrong.mean(0)
        return Fit({"weights": weights.astype(np.float32), "bias": bias.astype(np.float32)}, ROWS * self.times)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        guess = (self.test_x @ params["weights"] + params["bias"]).argmax(1)
        found = {f"recall_{name}": float((guess == name)[self.test_y == name].mean()) for name in range(3)}
        return Score(float((guess == self.test_y).mean()), TEST_ROWS, found)


async def rounds(flips: bool) -> Mesh:
    """Three rounds of two honest nodes, and one that has as many examples as both and may flip labels."""
    mesh = Mesh()
    await mesh.add("a", Clouds(1))
    await mesh.add("b", Clouds(2), ("a",))
    await mesh.add("c", Clouds(3, flips=flips, times=4), ("a",))
    await mesh.full()
    await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
    await mesh.idle(2)
    return mesh


async def test_the_poisoned_class_shows_on_every_honest_node_within_three_rounds() -> None:
    mesh = await rounds(flips=True)
    for name in ("a", "b"):
        history = mesh.nodes[name].history(MNIST_3_7)
        assert len(history) <= 3
        before, after = history[-1]["metrics"]["before"], history[-1]["metrics"]["after"]
        assert before[f"recall_{FLIPPED}"] - after[f"recall_{FLIPPED}"] > 0.3  # what averaging with c costs
        assert after["recall_2"] > 0.9  # the class that nobody flipped
        assert history[-1]["pre_fedavg_accuracy"] - history[-1]["post_fedavg_accuracy"] > 0.1
        assert {one["peer"]: one["examples"] for one in history[-1]["contributions"]}["c"] == 4 * ROWS
    await mesh.stop()


async def test_without_flipped_labels_averaging_costs_nothing() -> None:
    mesh = await rounds(flips=False)
    for name in ("a", "b"):
        last = mesh.nodes[name].history(MNIST_3_7)[-1]
        assert last["pre_fedavg_accuracy"] - last["post_fedavg_accuracy"] < 0.02
        assert min(last["metrics"]["after"].values()) > 0.9
    await mesh.stop()
