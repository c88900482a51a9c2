"""A mesh on the bundled digits in plain functions: one node with 50 fine labels, four with coarse ones.

The network is 64-64-10 with ReLU, trained by gradient descent with momentum that is reset in each training. All
that is FedMT's is taken from `flnet.algorithms.fed_mt`; how a round goes stands in `train_round`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from flnet.algorithms.fed_mt.estimation import Estimate, WarmUp, count_pairs, guesses, leaning
from flnet.algorithms.fed_mt.scheduling import Phase, phase, trains
from flnet.labels.losses import Loss, cross_entropy, projected_loss, step_batches
from flnet.protocol.events import Schedule

Model = Mapping[str, Any]
Learn = Callable[[Any, Any], Loss]  # (logits, rows) -> loss
Weighting = Literal["uniform", "examples", "groups"]
K = 10
FINE = "digits"


@dataclass(frozen=True)
class Node:
    """Rows and their labels in one space: "digits" is the desired one."""

    x: Any
    labels: Any
    space: str
    matrix: Any

    @property
    def desired(self) -> bool:
        return self.space == FINE


@dataclass(frozen=True)
class Recipe:
    """What a run does; as it stands here, what flnet recommends."""

    schedule: Schedule = "two-phase"
    known: bool = True
    rounds: int = 60
    steps: int | None = 20  # None: one pass over the node's rows instead
    weighting: Weighting = "uniform"
    warm_up: WarmUp = field(default_factory=WarmUp)
    threshold: float = 0.95
    smoothing: float = 0.01
    pooled: bool = False
    leaning: bool = True  # as `flnet.algorithms.fed_mt.estimation.leaning` says of classes that nobody is sure of
    stop_when_unsure: bool = False  # as printed
    rate: float = 0.1
    batch: int = 16


def digits(seed: int, matrix: Any, fine_rows: int = 50, split: int = 0) -> tuple[list[Node], Any, Any]:
    """The nodes, first the one with fine labels, as many of each digit; and 360 test rows with their digits."""
    from sklearn.datasets import load_digits  # only where it is needed: it brings SciPy, which takes seconds
    from sklearn.model_selection import train_test_split

    bundled = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(*bundled, test_size=360, random_state=split, stratify=bundled[1])
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(y))
    x, y = x[order] / 16, y[order]
    fine = np.concatenate([np.flatnonzero(y == digit)[: fine_rows // K] for digit in range(K)])
    rest = np.setdiff1d(np.arange(len(y)), fine)
    nodes = [Node(x[fine], y[fine], FINE, np.eye(K))]
    coarse = (chance.random(len(y)) > np.cumsum(matrix, axis=0)[:, y]).sum(axis=0)
    for rows in np.array_split(rest, 4):
        nodes.append(Node(x[rows], np.minimum(coarse[rows], len(matrix) - 1), "coarse", np.asarray(matrix, float)))
    return nodes, test_x / 16, test_y


def nested() -> Any:
    """10 -> 5 classes: 0 and 1, 2 and 3 ..."""
    return np.kron(np.eye(5), np.ones((1, 2)))


def fresh(seed: int) -> Model:
    chance = np.random.default_rng([seed, 1])
    return {
        "w1": chance.normal(0, np.sqrt(2 / 64), (64, 64)),
        "b1": np.zeros(64),
        "w2": chance.normal(0, np.sqrt(2 / 64), (64, K)),
        "b2": np.zeros(K),
    }


def logits(model: Model, x: Any) -> Any:
    return np.maximum(x @ model["w1"] + model["b1"], 0) @ model["w2"] + model["b2"]


def probabilities(model: Model, x: Any) -> Any:
    scores = logits(model, x)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def accuracy(model: Model, x: Any, y: Any) -> float:
    return float((logits(model, x).argmax(axis=1) == y).mean())


def train(model: Model, x: Any, learn: Learn, batches: Iterator[Any], rate: float) -> Model:
    """Gradient descent over the batches."""
    result = {name: value.copy() for name, value in model.items()}
    speed = {name: np.zeros_like(value) for name, value in model.items()}
    for rows in batches:
        inputs = x[rows]
        hidden = np.maximum(inputs @ result["w1"] + result["b1"], 0)
        error = learn(hidden @ result["w2"] + result["b2"], rows).gradient
        back = (error @ result["w2"].T) * (hidden > 0)
        slopes = {"w1": inputs.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
        for name, slope in slopes.items():
            speed[name] = 0.9 * speed[name] + slope
            result[name] -= rate * speed[name]
    return result


def average(models: Sequence[Model], weights: Sequence[float], base: Model) -> Model:
    """Their weighted mean; the base where there is none."""
    if not models:
        return base
    return {name: sum(w * model[name] for w, model in zip(weights, models, strict=True)) for name in base}


@dataclass
class Mesh:
    """All that is remembered between rounds; every node would hold the same."""

    nodes: Sequence[Node]
    recipe: Recipe
    model: Model
    chance: np.random.Generator
    seen_by: dict[bool, Model] = field(default_factory=dict)  # of the pipeline: where each kind begins
    warm: bool = False

    def round(self, number: int) -> None:
        """One round: two exchanges of the two-phase schedule, one of the others."""
        recipe = self.recipe
        shares = [g.share for g in (self.guesses(node, self.model) for node in self.nodes if not node.desired)]
        self.warm = self.warm or recipe.warm_up.is_over(number, shares)
        for exchange in (0, 1) if recipe.schedule == "two-phase" and self.warm else (0,):
            self._exchange(phase(recipe.schedule, exchange, warming=not self.warm))

    def _exchange(self, now: Phase) -> None:
        base, learnt = self.model, []
        matrices = self._estimates(now)
        for at, node in enumerate(self.nodes):
            if not trains(now, node.desired) or matrices.get(at, 0) is None:
                continue
            start = self.seen_by.get(node.desired, base)
            learnt.append((node, self.trained(node, start, matrices.get(at, node.matrix))))
        self.model = self._average(learnt, base)
        for mine in (True, False):
            theirs = [each for each in learnt if counts_for(self.recipe.schedule, mine, each[0].desired)]
            self.seen_by[mine] = self._average(theirs, base)

    def _average(self, learnt: Sequence[tuple[Node, Model]], base: Model) -> Model:
        spaces, rows = [node.space for node, _ in learnt], [len(node.x) for node, _ in learnt]
        return average([model for _, model in learnt], average_weights(self.recipe.weighting, spaces, rows), base)

    def trained(self, node: Node, start: Model, matrix: Any) -> Model:
        recipe = self.recipe
        steps = recipe.steps or -(-len(node.x) // recipe.batch)
        batches = step_batches(len(node.x), recipe.batch, steps, self.chance)

        def learn(scores: Any, rows: Any) -> Loss:
            if node.desired:
                return cross_entropy(scores, node.labels[rows])
            return projected_loss(scores, matrix, node.labels[rows])

        return train(start, node.x, learn, batches, recipe.rate)

    def _estimates(self, now: Phase) -> dict[int, Any]:
        """The matrix of each node with coarse labels that trains now; None: it stops, as printed."""
        updates = {at: node for at, node in enumerate(self.nodes) if not node.desired and trains(now, False)}
        guessed = {at: self.guesses(node, self.seen_by.get(False, self.model)) for at, node in updates.items()}
        result: dict[int, Any] = {}
        counts = {at: count_pairs(node.labels, guessed[at], node.matrix.shape) for at, node in updates.items()}
        for at in updates:
            mine = np.sum(list(counts.values()), axis=0) if self.recipe.pooled else counts[at]
            if self.recipe.stop_when_unsure and not guessed[at].sure.any():
                result[at] = None
            elif not self.recipe.known:
                result[at] = Estimate(mine, self.recipe.smoothing, self._prior(updates[at])).matrix
        return result

    def _prior(self, node: Node) -> Any:
        message = probabilities(self.seen_by.get(False, self.model), node.x)
        return leaning(node.labels, message, len(node.matrix)) if self.recipe.leaning else None

    def guesses(self, node: Node, model: Model) -> Any:
        return guesses(probabilities(model, node.x), self.recipe.threshold)


def run(
    seed: int, recipe: Recipe, matrix: Any = None, fine_rows: int = 50, alone: bool = False, split: int = 0
) -> float:
    """Accuracy on the test rows after all rounds."""
    nodes, x, y = digits(seed, nested() if matrix is None else matrix, fine_rows, split)
    mesh = Mesh(nodes[:1] if alone else nodes, recipe, fresh(seed), np.random.default_rng([seed, 2]))
    for number in range(recipe.rounds):
        mesh.round(number)
    return accuracy(mesh.model, x, y)


def counts_for(schedule: Schedule, mine: bool, theirs: bool) -> bool:
    """Whether a node's model counts in the average with which another one begins its next training.

    Args:
        mine: whether the one that begins has labels of the desired space.
        theirs: whether the other one has.
    """
    return schedule != "pipelined" or mine != theirs


def average_weights(weighting: Weighting, groups: Sequence[str], examples: Sequence[int]) -> list[float]:
    """How much each model counts in an average, adding up to 1; empty if there is none: the base stays as it was.

    By the numbers of examples a node with few but fine labels is not heard: "uniform" is the usual way here.

    Args:
        weighting: "uniform"; by "examples"; or by "groups": each label space the same, its nodes alike.
        groups: the label space of each node.
        examples: training rows of each node; who has none does not count, unless none has any.
    """
    if not groups:
        return []
    has_rows = [count > 0 for count in examples] if any(examples) else [True] * len(groups)
    sizes = Counter(group for group, counts in zip(groups, has_rows, strict=True) if counts)
    raw = [
        _weight(weighting, sizes[group], count) if counts else 0.0
        for group, count, counts in zip(groups, examples, has_rows, strict=True)
    ]
    total = sum(raw)
    return [weight / total for weight in raw] if total else [1 / len(groups)] * len(groups)


def _weight(weighting: Weighting, in_group: int, examples: int) -> float:
    match weighting:
        case "uniform":
            return 1.0
        case "examples":
            return float(examples)
        case "groups":
            return 1 / in_group
