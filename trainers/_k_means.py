"""Federated k-means on the rows of a table: what a node sends are centroids, and how many rows each one has.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024, Algorithm 2. Updates are merged by the rule `k-means`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from flnet.algorithms.clustering import explained, group_findings, inertia, silhouette
from flnet.algorithms.k_means import LearningPace, assign, batches_in, candidates, from_seed, move
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    Findings,
    Fit,
    HyperParams,
    InputSpec,
    Prediction,
    Score,
    Task,
    Trainer,
)

from ._options import Fits, is_whole, read_lines

CENTROIDS, COUNTS = "centroids", "counts"  # as the aggregation rule reads them
ALL = 1_000_000  # rows in a batch: more than a node has, so that a round is Lloyd's step
MOST_COMPARED = 500  # rows of a silhouette
_MOST_GROUPS = 200
RULES: dict[str, tuple[str, Fits]] = {
    "k": (f"2 to {_MOST_GROUPS}", lambda value: is_whole(value, 2, _MOST_GROUPS)),
    "min_count": (f"1 to {ALL}", lambda value: is_whole(value, 1, ALL)),
    "start": (text("'spread' or 'seed'"), lambda value: value in ("spread", "seed")),
}
Model = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """Options of federated k-means; the same on all nodes, except `min_count`.

    Attributes:
        k: groups.
        min_count: groups of fewer rows on a node are kept back by it.
        start: "spread": in the round before the first one nodes send means of their own rows, over which the
            centroids are spread; "seed": by chance alone.
    """

    k: int = 3
    min_count: int = 5
    start: str = "spread"


@dataclass(frozen=True)
class Table:
    """Rows on one scale that all nodes share.

    Attributes:
        train, test, validation: (n, d) finite floats; of validation there may be none.
        low, high: between which most numbers of each column lie, as all nodes know it without their rows.
        info: where the rows are from.
    """

    train: Array
    test: Array
    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    info: DataInfo
    validation: Array = field(default_factory=lambda: np.zeros((0, 0)))


class KMeans(Trainer):
    """k centroids; `u` is the share of the way to a batch's mean that they go, at most 1."""

    defaults = HyperParams(e=1, u=1.0, b=ALL)
    predicts = "scores"
    finds = "groups"
    exchange_threshold = 0.02
    merging = "k-means"

    def __init__(self, table: Table, options: Options, label: str) -> None:
        self.label = label
        self._table, self._options = table, options
        names = tuple(f"group {number}" for number in range(1, options.k + 1))
        self._info = replace(table.info, classes=names, counts={}, parts=())
        self.agreement = {"columns": ", ".join(table.columns), "start": options.start}

    def data_info(self) -> DataInfo:
        """The rows; which group one is in says the model."""
        return self._info

    def initial_params(self, seed: int) -> Model:
        """Centroids drawn evenly between what columns hold; counts of -1 where they are to be spread first."""
        begun = 0 if self._options.start == "seed" else -1
        return {
            CENTROIDS: from_seed(seed, self._options.k, self._table.low, self._table.high),
            COUNTS: np.full(self._options.k, begun, np.int64),
        }

    def fit(self, task: Task) -> Fit:
        """Centroids after `e` passes over the rows in batches of `b`; before the first round candidates."""
        rows, base, chance = self._table.train, task.params[CENTROIDS], np.random.default_rng(task.seed)
        pace = LearningPace(
            task.hyper.e, min(task.hyper.b, len(rows)), min(1.0, task.hyper.u), self._options.min_count
        )
        seen = 0

        def is_over(batches: int) -> bool:
            nonlocal seen
            seen = min(len(rows), batches * pace.batch)
            task.progress(batches, batches_in(len(rows), pace))
            return task.is_over()

        if (task.params[COUNTS] < 0).any():
            fit, seen = candidates(rows, base, chance, self._options.min_count), len(rows)
            task.progress(1, 1)
        else:
            fit = move(rows, base, pace, chance if pace.batch < len(rows) else None, is_over)
        params = {CENTROIDS: fit.centroids, COUNTS: fit.counts}
        figures, validation = {"loss": inertia(rows, fit.centroids)}, self.validation_score(params)
        if validation is not None:
            figures["validation_accuracy"] = validation.accuracy
        return Fit(params, seen, metrics=figures)

    def evaluate(self, params: Model) -> Score:
        """The share of the test rows' variance that the groups explain; with inertia and silhouette."""
        rows, centroids = self._table.test, params[CENTROIDS]
        nearest, squares = assign(rows, centroids)
        apart = silhouette(rows, nearest, np.random.default_rng(0), MOST_COMPARED)
        figures = {"inertia": float(squares.mean()), "silhouette": apart}
        return Score(explained(rows, centroids), len(rows), figures)

    def validation_score(self, params: Model) -> Score | None:
        """The same share on validation rows, if there are some."""
        rows = self._table.validation
        return Score(explained(rows, params[CENTROIDS]), len(rows)) if len(rows) else None

    def findings(self, params: Model) -> Findings | None:
        """How many groups the own training rows have."""
        return group_findings(self._table.train, params[CENTROIDS])

    def input_spec(self) -> InputSpec:
        """One row, on the scale of the table."""
        return InputSpec("table", (len(self._table.columns),), names=self._table.columns)

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """How near a row is to each group: distances below 0, of which the largest wins."""
        return Prediction(-self.distances(params, inputs).astype(np.float32), "scores")

    @staticmethod
    def distances(params: Model, rows: Array) -> Array:
        """(n, k) from each row to each centroid."""
        squares = [assign(rows, params[CENTROIDS][[group]])[1] for group in range(len(params[CENTROIDS]))]
        return np.sqrt(np.stack(squares, axis=1))


def read_options(path: Path) -> Options:
    """Options from a TOML file; the defaults if there is none.

    Raises:
        TrainerError: it is wrong.
    """
    return Options(**read_lines(path, RULES))
