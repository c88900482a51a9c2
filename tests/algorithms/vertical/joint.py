"""The same network in one place, written in another way: one chain of layers whose bottom part is block-diagonal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.algorithms.vertical.numpy_models import yes_or_no_loss
from flnet.algorithms.wrapper import Descent
from flnet.params.params import Array
from tests.algorithms.vertical.networks import Case


def block_diagonal(blocks: list[Array]) -> Array:
    """One matrix with these along its diagonal."""
    joined = np.zeros([sum(sizes) for sizes in zip(*(block.shape for block in blocks), strict=True)])
    row = column = 0
    for block in blocks:
        joined[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return joined


class Joint:
    """Weights of the composed network; where bottom models do not meet, weights are 0 and stay 0."""

    def __init__(self, case: Case) -> None:
        bottoms = [case.bottom_weights(peer) for peer in sorted(case.holders)]
        self.x = np.hstack([case.columns[peer] for peer in sorted(case.holders)])
        self.y, self.case = case.truth, case
        self.weights = {
            f"{layer}.weight": block_diagonal([weights[f"{layer}.weight"] for weights in bottoms])
            for layer in range(2)
        }
        self.weights |= {
            f"{layer}.bias": np.concatenate([weights[f"{layer}.bias"] for weights in bottoms])
            for layer in range(2)
        }
        self.meets = {
            f"{layer}.weight": block_diagonal([np.ones_like(weights[f"{layer}.weight"]) for weights in bottoms])
            for layer in range(2)
        }
        for name, value in case.top_weights.items():
            layer, kind = name.split(".")
            self.weights[f"{int(layer) + 2}.{kind}"] = np.array(value)
        self.descent = Descent(case.optimiser, case.rate)

    def outputs(self, x: Array) -> list[Array]:
        """Inputs, and what comes out of each of the four layers: ReLU after the first and the third."""
        passed = [x]
        for layer in range(4):
            x = x @ self.weights[f"{layer}.weight"].T + self.weights[f"{layer}.bias"]
            x = np.maximum(x, 0) if layer in (0, 2) else x
            passed.append(x)
        return passed

    def step(self, rows: Array) -> None:
        """One step of descent on these rows."""
        passed = self.outputs(self.x[rows])
        _, error = yes_or_no_loss(passed[-1], self.y[rows].reshape(-1, 1))
        gradients = {}
        for layer in reversed(range(4)):
            error = error * (passed[layer + 1] > 0) if layer in (0, 2) else error
            gradient = error.T @ passed[layer]
            gradients[f"{layer}.weight"] = gradient * self.meets.get(f"{layer}.weight", 1)
            gradients[f"{layer}.bias"] = error.sum(axis=0)
            error = error @ self.weights[f"{layer}.weight"]
        self.descent.step(self.weights, gradients)

    def split(self) -> Mapping[str, Array]:
        """The weights under the names of `networks.weights_of`."""
        parts, at = {}, np.zeros(3, int)
        for peer in sorted(self.case.holders):
            weights = self.case.bottom_weights(peer)
            sizes = np.array(
                [weights["0.weight"].shape[1], *(len(weights[f"{layer}.bias"]) for layer in range(2))]
            )
            for layer in range(2):
                outs = slice(at[layer + 1], at[layer + 1] + sizes[layer + 1])
                ins = slice(at[layer], at[layer] + sizes[layer])
                parts[f"{peer}/bottom/{layer}.weight"] = self.weights[f"{layer}.weight"][outs, ins]
                parts[f"{peer}/bottom/{layer}.bias"] = self.weights[f"{layer}.bias"][outs]
            at = at + sizes
        for name in self.case.top_weights:
            number, kind = name.split(".")
            parts[f"{self.case.owners[0]}/top/{name}"] = self.weights[f"{int(number) + 2}.{kind}"]
        return parts


def trained_jointly(case: Case, epochs: int) -> Mapping[str, Array]:
    """All weights after training in one place, with the batches of the case."""
    joint = Joint(case)
    for epoch in range(epochs):
        for batch in case.plan.batches.training(epoch):
            joint.step(batch.positions)
    return joint.split()
