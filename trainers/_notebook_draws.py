"""Random draws of the MLFedAvg notebook (rows, labels, noise, weights), reproduced number by number from its seeds.

D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados" (2024), the program published with it.
Its draws come from numpy's older generator and from Python's own, which give the same numbers for ever; so with
the same data file a seed of the thesis means the same rows, labels and noise here. It draws first weights without
a seed; but then Keras 2 takes one from Python's own generator, which was seeded for the noise just before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor

import numpy as np

from flnet.text import text
from flnet.trainer import Array, TrainerError

from ._multi_label_options import LARGEST_SIGMA, OPTIONS_FILE, Options

MOST_SEEDS = 1_000_000_000  # Keras draws the seeds of its layers from 1 to this


@dataclass(frozen=True)
class Draws:
    """One node's share of the draws.

    Attributes:
        rows: numbers of its rows, each with one of its labels, in the order drawn.
        labels: numbers of its labels, in the order drawn.
        common: numbers of the rows of the common test, of which some may have none of its labels.
        added: noise (rows, features), float64; None if it is not drawn here.
        weights: seeds of the first weights of the core's two layers, equal on all nodes, and of its own head;
            None if they are not drawn here.
        sides: train, validation and test, as places in `rows`; none if they are not drawn here.
    """

    rows: Array
    labels: Array
    common: Array
    added: Array | None = None
    weights: tuple[int, int, int] | None = None
    sides: Mapping[str, Array] = field(default_factory=dict)


def draws(y: Array, features: int, options: Options, shard: tuple[int, int], seed: int) -> Draws:
    """What falls to a node.

    The common test is drawn first. The other rows are shuffled and cut into one part for each node, the labels
    shuffled and dealt; a node's noise is drawn after that of the nodes before it.

    Args:
        y: labels of all rows (n, M), 0 or 1.
        features: columns of the other matrix.
        shard: this node's number, from 1, and how many nodes there are.

    Raises:
        TrainerError: the options do not say how many labels each node gets, or begin with a row that is not there.
    """
    part, count = shard
    if len(options.deal) != count or sum(options.deal) != y.shape[1]:
        rule = text(
            "expected numbers for {number} nodes whose sum is {count}, how many labels there are",
            count,
            y.shape[1],
        )
        raise TrainerError(
            text('{path}: with draws = "notebook" deal = {value}; {rule}', OPTIONS_FILE, options.deal, rule)
        )
    if options.first_row >= len(y):
        raise TrainerError(
            text("{path}: first_row = {number}; there are {rows} rows", OPTIONS_FILE, options.first_row, len(y))
        )
    y = np.roll(y, -options.first_row, axis=0)
    share = 0.1 if options.global_test is None else options.global_test
    rest, common = (rows[y[rows].any(axis=1)] for rows in held_back(len(y), share, seed))
    order, labels = _shuffled(rest.tolist(), seed), _shuffled(list(range(y.shape[1])), seed)
    dealt = np.split(labels, np.cumsum(options.deal)[:-1])
    size = len(order) // count
    parts = [order[at * size : (at + 1) * size if at + 1 < count else None] for at in range(count)]
    own = [rows[y[rows][:, mine].any(axis=1)] for rows, mine in zip(parts, dealt, strict=True)]
    added = _noise([len(rows) for rows in own[:part]], features, count, options.noise, seed)
    rows, common = ((numbers + options.first_row) % len(y) for numbers in (own[part - 1], common))
    seeds, sides = weight_seeds(seed, part, count), _sides(len(rows), options.split, seed)
    return Draws(rows, dealt[part - 1], common, added, seeds, sides)


def held_back(count: int, share: float, seed: int) -> tuple[Array, Array]:
    """The numbers below `count`, shuffled: the later ones, and the first ones that are held back.

    Equal to scikit-learn's `train_test_split` with `random_state=seed`.
    """
    order = np.random.RandomState(seed).permutation(count)
    first = ceil(share * count)
    return order[first:], order[:first]


def weight_seeds(seed: int, part: int, count: int) -> tuple[int, int, int]:
    """Seeds of the weights of the core's layers, and of the head of the node of this number, from 1.

    In the order of the program: standard deviations of the noise, the core, and for each node a copy of the core,
    whose weights are drawn in vain, and the head.
    """
    chance = random.Random(seed)
    for _ in range(count):
        chance.uniform(0, LARGEST_SIGMA)
    drawn = [chance.randint(1, MOST_SEEDS) for _ in range(2 + 3 * part)]
    return drawn[0], drawn[1], drawn[-1]


def _sides(count: int, shares: list[float], seed: int) -> dict[str, Array]:
    """Test rows are held back, and of the others the last ones validate."""
    train, validation, test = shares
    others, held = held_back(count, test / (train + validation + test), seed)
    cut = floor(len(others) * (1 - validation / (train + validation)))
    return {"train": others[:cut], "validation": others[cut:], "test": held}


def _shuffled(numbers: list[int], seed: int) -> Array:
    np.random.RandomState(seed).shuffle(numbers)  # a list, for arrays draw otherwise
    return np.array(numbers, np.int64)


def _noise(rows: list[int], features: int, count: int, kind: str, seed: int) -> Array | None:
    """That of the last of these nodes; all draw from one stream, and their standard deviations from another."""
    if kind == "none":
        return None
    sigmas, chance = random.Random(seed), np.random.RandomState(seed)
    deviations = [sigmas.uniform(0, LARGEST_SIGMA) for _ in range(count)]
    for number, deviation in zip(rows, deviations, strict=False):
        added: Array = chance.normal(0, deviation, (number, features))
    return np.abs(added) if kind == "half-normal" else added
