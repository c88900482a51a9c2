"""Measure what it costs to reset the moments of an aggregation rule, as nodes of earlier versions did every 50 rounds.

`python -m tests.aggregation.resets` prints the figures of docs/aggregation-rules.md. Five nodes with unlike data train a
linear function without noise, and softmax regression on the digits that scikit-learn contains. Every rule runs with
moments that are never reset, and with moments that are. Equal on every run; takes half a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

from flnet.aggregation.base import RoundStart, State
from flnet.algorithms.registry import parse_rule
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.protocol.updates import RoundKey, Update

RULES = ("fedavgm:1:0.9", "fedavgm:1:0.95", "fedadam", "fedyogi")
NODES, STEPS = 5, 5
INITIATOR = PeerId("0")
Rows = tuple[Array, Array]  # inputs (rows, features), and targets (rows, outputs)


def linear(weights: Array, rows: Rows) -> tuple[float, Array]:
    """Mean squared error, and the gradient of half of it by the weights."""
    inputs, targets = rows
    errors = inputs @ weights - targets
    return float((errors**2).mean()), inputs.T @ errors / len(inputs)


def softmax(weights: Array, rows: Rows) -> tuple[float, Array]:
    """Mean cross entropy, and its gradient by the weights."""
    inputs, targets = rows
    scores = inputs @ weights
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return float(-np.log(shares[targets > 0]).mean()), inputs.T @ (shares - targets) / len(inputs)


def line() -> Rows:
    """The inputs of scikit-learn's diabetes data (442, 10), and a linear function of them."""
    inputs = load_diabetes().data
    inputs = inputs / inputs.std(axis=0)
    return inputs, inputs @ np.linspace(-1, 1, 10)[:, None]


def digits() -> Rows:
    """Pictures (1797, 65) with a constant, and their classes as one of ten outputs."""
    bunch = load_digits()
    return np.hstack([bunch.data / 16, np.ones((len(bunch.data), 1))]), np.eye(10)[bunch.target]


Loss = Callable[[Array, Rows], tuple[float, Array]]
TASKS: dict[str, tuple[Rows, Loss, float]] = {  # data, loss, and the learning rate of the nodes
    "line": (line(), linear, 0.02),
    "digits": (digits(), softmax, 0.1),
}


def losses(task: str, rule: str, rounds: int, period: int) -> list[float]:
    """The loss of the common model on all rows after every round.

    Args:
        period: rounds after which the moments are reset; 0: never.
    """
    (inputs, targets), loss, rate = TASKS[task]
    order = np.argsort(targets @ np.arange(1, targets.shape[1] + 1), kind="stable")  # so that nodes differ
    parts = [(inputs[part], targets[part]) for part in np.array_split(order, NODES)]
    merge, measured = parse_rule(rule).merge, []
    model = Params({"w": np.zeros((inputs.shape[1], targets.shape[1]))})
    remembered: State = None
    for number in range(rounds):
        remembered = None if period and number % period == 0 else remembered
        updates = []
        for node, part in enumerate(parts):
            weights = np.array(model["w"])
            for _ in range(STEPS):
                weights -= rate * loss(weights, part)[1]
            key = RoundKey(number, INITIATOR)
            updates.append(Update(PeerId(str(node)), key, Params({"w": weights}), len(part[0])))
        merged = merge(remembered, RoundStart(Schema.of(model), model, number), updates)
        model, remembered = merged.params, merged.state
        measured.append(loss(model["w"], (inputs, targets))[0])
    return measured


def main() -> None:
    """Print, for each task and rule, where resets cost most, and what they cost in the end."""
    parser = argparse.ArgumentParser(description="what resets of moments cost")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--period", type=int, default=50)
    options = parser.parse_args()
    for task in TASKS:
        for rule in RULES:
            kept, reset = (np.array(losses(task, rule, options.rounds, period)) for period in (0, options.period))
            ratios = reset / kept
            worst = int(ratios.argmax())
            print(f"{task} {rule}: in round {worst} {ratios[worst]:.2f} times the loss, ", end="")
            print(f"in the end {ratios[-1]:.2f} times ({reset[-1]:.3g}, without resets {kept[-1]:.3g})")


if __name__ == "__main__":
    main()
