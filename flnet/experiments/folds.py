"""Cross-validation by node: the seeds of a cell take turns in what is left out for the test.

    nodes:K    the nodes are dealt into K folds; those of one fold do not train, and the model of the others is measured on
               their test rows. With as many folds as nodes, one node is left out at a time
    rows:K     the rows of each node, its test rows among them, are dealt into K folds, label by label; one fold is its test

K seeds in a row, from a multiple of K on, have equal data and leave out one fold each, so that their mean is that of all
folds; the next K seeds draw other data, parts and folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.experiments.cells import Cell
from flnet.experiments.learners import Learner, changeable, rows_of
from flnet.params.params import Array


class Fold(NamedTuple):
    """What one cell leaves out.

    Attributes:
        of: "nodes", "rows", or empty where nothing is left out.
        number: of the fold, from 0.
        total: number of folds.
        seed: of data, parts and folds, which the cells of all folds have in common.
    """

    of: str
    number: int
    total: int
    seed: int

    @classmethod
    def of_cell(cls, cell: Cell) -> Fold:
        """The fold of a cell, by its seed."""
        of, _, number = cell.setup.folds.partition(":")
        total = int(number or 1)
        return cls(of, cell.seed % total, total, cell.seed // total)

    def divided(self, learners: Sequence[Learner]) -> tuple[list[Learner], list[Learner]]:
        """The nodes that train, and those that are left out."""
        if self.of != "nodes":
            return list(learners), []
        folds = _dealt(len(learners), self.total, np.random.default_rng([self.seed, *b"folds"]))
        is_out = folds == self.number
        return (
            [learner for learner, out in zip(learners, is_out, strict=True) if not out],
            [learner for learner, out in zip(learners, is_out, strict=True) if out],
        )

    def set_apart(self, learners: Sequence[Learner]) -> None:
        """Make this fold of each node's rows its test rows, and the others its training rows.

        Raises:
            LocalError: a trainer does not let its rows be changed.
        """
        if self.of != "rows":
            return
        for place, learner in enumerate(learners):
            both = [rows_of(learner, side) for side in ("train", "test")]
            rows = Labelled(np.concatenate([of.x for of in both]), np.concatenate([of.y for of in both]))
            chance, is_test = np.random.default_rng([self.seed, place, *b"folds"]), np.zeros(len(rows), bool)
            for label in np.unique(rows.y):
                own = np.flatnonzero(rows.y == label)
                is_test[own] = _dealt(len(own), self.total, chance) == self.number
            trainer, sides = changeable(learner), (rows.take(~is_test), rows.take(is_test))
            trainer.change_rows(lambda _: sides[0])  # noqa: B023  called at once
            trainer.change_rows(lambda _: sides[1], "test")  # noqa: B023
            learner.measured.clear()


def _dealt(total: int, folds: int, chance: np.random.Generator) -> Array:
    """The fold of each of so many things; folds differ by one in size at most."""
    dealt: Array = chance.permutation(np.arange(total) % folds)
    return dealt
