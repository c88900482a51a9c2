"""Federated k-means: rows move a node's centroids; only centroids and counts leave the node.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024, Algorithm 2. In each of E epochs the counts start at 0. A batch assigns its rows to the nearest
centroid; if a cluster got rows, its count grows by their number and its centroid moves by beta * (rows / count) towards
their mean. With one epoch of one batch and beta = 1 this is Lloyd's step. The centroids of all nodes are averaged by
their counts, with a step alpha towards the mean. As printed, a cluster without rows divides 0 by 0; here it stays where
it was. All steps have the same bits on all nodes.

Training starts from a seed, or from centroids that are spread over the rows of all nodes, which takes one exchange of
the same form. Each node spreads k candidates over its own rows (k-means++: Arthur, Vassilvitskii 2007), moves each to
the mean of the rows nearest to it, and sends means and counts. All nodes then spread k centroids over these weighted
candidates and refine them, in the same steps with the same seed. That a node's means stand for its rows is the idea of
k-FED (Dennis, Li, Smith 2021). No row leaves its node.

A secure sum shows nobody the counts and centroids of a single node (`ClusterEncoder`). It needs a start from a seed.

An update holds `centroids` (k, d) and `counts` (k,), the rows of each cluster. A base with negative counts has not
started: then updates hold candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State, usual_mean
from flnet.algorithms.secure_sum import (
    CLIP,
    ArrayEncoder,
    Bits,
    BoundedArray,
    EncodedUpdate,
    FixedPoint,
    ImpossibleSumError,
    Mean,
    Numbers,
    check_norm,
    cut_to,
    impossible,
)
from flnet.params.arithmetic import Total
from flnet.params.params import Array, Params, Schema
from flnet.protocol.events import Weighed, shares
from flnet.protocol.updates import Update
from flnet.text import text

Rows = NDArray[np.float64]  # (n, d)
Centroids = NDArray[np.float64]  # (k, d)
Counts = NDArray[np.int64]  # (k,)

_BLOCK = 131_072  # numbers that one step looks at, so that what it writes stays in a core's cache


@dataclass(frozen=True)
class ClusterUpdate:
    """The update of one node.

    Attributes:
        counts: rows of each cluster in the last epoch.
        centroids: where they are now; where the count is 0, where they were.
    """

    counts: Counts
    centroids: Centroids


@dataclass(frozen=True)
class LearningPace:
    """The hyper-parameters of local training.

    Attributes:
        epochs: passes over its rows.
        batch: rows that are assigned together; 0 for all.
        beta: share of the way to the mean that a centroid goes, in (0, 1].
        min_count: clusters of fewer rows are told as if they had none, for a count of 1 would give away a row.
    """

    epochs: int = 1
    batch: int = 0
    beta: float = 1.0
    min_count: int = 1


def assign(rows: Rows, centroids: Centroids) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each row, of equally near ones the first, and the squared distance to it.

    Rows are looked at block by block, one centroid after another, so memory stays bounded. A distance is the sum
    of squares column by column, and no product of rows and centroids: equal distances come out equal, and the same
    on every processor.
    """
    nearest, least = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    for block in blocks(len(rows), rows.shape[1]):
        columns = np.array(np.asarray(rows[block], np.float64).T, order="C")
        for number, centroid in enumerate(centroids):
            apart = columns - centroid[:, None]
            squares = np.add.reduce(np.multiply(apart, apart, out=apart), axis=0)
            nearer = squares < least[block]
            least[block][nearer] = squares[nearer]
            nearest[block][nearer] = number
    return nearest, least


def blocks(rows: int, columns: int) -> list[slice]:
    """Blocks of rows that are processed together."""
    size = max(1, _BLOCK // max(1, columns))
    return [slice(start, start + size) for start in range(0, rows, size)]


def move(
    rows: Rows,
    centroids: Centroids,
    pace: LearningPace = LearningPace(),
    chance: np.random.Generator | None = None,
    done: Callable[[int], bool] = lambda batches: False,
) -> ClusterUpdate:
    """The counts and centroids that a node sends after it has learnt from its rows.

    Args:
        rows: (n, d), finite; of no rows nothing moves.
        centroids: (k, d), common to all nodes; not changed.
        pace: epochs, batch size, beta, and what is kept back.
        chance: a new order of the rows in each epoch; None for the order in which they stand.
        done: asked after each batch with the number of batches so far; True ends the learning.
    """
    start = np.asarray(centroids, np.float64)
    moved, counts = start.copy(), np.zeros(len(start), np.int64)
    size, batches = pace.batch or max(1, len(rows)), 0
    for _ in range(pace.epochs if len(rows) else 0):
        counts = np.zeros(len(start), np.int64)
        order = np.arange(len(rows)) if chance is None else chance.permutation(len(rows))
        for first in range(0, len(rows), size):
            _learn(rows, order[first : first + size], moved, counts, pace.beta)
            batches += 1
            if done(batches):
                return suppressed(ClusterUpdate(counts, moved), start, pace.min_count)
    return suppressed(ClusterUpdate(counts, moved), start, pace.min_count)


def suppressed(moved: ClusterUpdate, start: Centroids, min_count: int) -> ClusterUpdate:
    """The update without clusters of fewer than `min_count` rows: their count is 0 and their centroid unchanged."""
    kept = moved.counts >= max(1, min_count)
    return ClusterUpdate(np.where(kept, moved.counts, 0), np.where(kept[:, None], moved.centroids, start))


def batches_in(rows: int, pace: LearningPace) -> int:
    """How many batches `move` has, for progress."""
    return pace.epochs * -(-rows // (pace.batch or max(1, rows)))


def _learn(rows: Rows, batch: NDArray[np.int64], centroids: Centroids, counts: Counts, beta: float) -> None:
    """One batch: `centroids` and `counts` are changed in place."""
    sums, sizes = np.zeros_like(centroids), np.zeros_like(counts)
    for block in blocks(len(batch), rows.shape[1]):
        part = np.asarray(rows[batch[block]], np.float64)
        nearest, _ = assign(part, centroids)
        sizes += np.bincount(nearest, minlength=len(counts))
        for number in np.unique(nearest):
            sums[number] += part[nearest == number].sum(axis=0)
    filled = sizes > 0
    counts += sizes
    means = sums[filled] / sizes[filled, None]
    share = beta * (sizes[filled] / counts[filled])[:, None]
    centroids[filled] = np.where(share == 1, means, centroids[filled] + share * (means - centroids[filled]))


MOST_ROWS = 10**12  # that a node can have in a cluster; who states more counts with so many
_PART = 2.0**-80  # exact, and no sum over a thousand nodes overflows


def merge_centroids(base: Centroids, alpha: float, updates: Sequence[tuple[Counts, Centroids]]) -> Centroids:
    """base + alpha * (mean by counts - base) for each cluster; base for a cluster without rows.

    Args:
        base: (k, d) with which the round began.
        alpha: share of the way to the mean, in (0, 1].
        updates: counts (k,) and centroids (k, d) of each node, in the order of their ids: sums go in this order,
            so nodes that hold the same updates get the same bits.
    """
    total, weight = np.zeros(base.shape), np.zeros(len(base))
    lowest, highest = np.full(base.shape, np.inf), np.full(base.shape, -np.inf)
    for counts, centroids in updates:
        rows = _plausible(counts) * _PART
        filled = rows > 0
        total[filled] += rows[filled, None] * np.asarray(centroids, np.float64)[filled]
        lowest[filled] = np.minimum(lowest[filled], centroids[filled])
        highest[filled] = np.maximum(highest[filled], centroids[filled])
        weight += rows
    filled = weight > 0
    # rounding could take the mean of equal numbers beyond them
    mean = np.clip(total[filled] / weight[filled, None], lowest[filled], highest[filled])
    merged = np.array(base, np.float64)
    merged[filled] = mean if alpha == 1 else merged[filled] + alpha * (mean - merged[filled])
    return merged


def total_counts(updates: Sequence[Counts], k: int) -> Counts:
    """(k,) rows of each cluster on all nodes together."""
    total: Counts = np.sum([np.zeros(k, np.int64), *map(_plausible, updates)], axis=0, dtype=np.int64)
    return total


def _plausible(counts: Counts) -> Counts:
    plausible: Counts = np.clip(counts, 0, MOST_ROWS)
    return plausible


TRIES = 4  # starts of which the best is taken; each draws the best of several rows, too
_STEPS = 50  # of Lloyd over the candidates, at most


def from_seed(seed: int, k: int, low: Sequence[float], high: Sequence[float]) -> Centroids:
    """(k, d) centroids drawn evenly from a box, without any data; the same on all nodes.

    Args:
        seed: of the run.
        k: how many.
        low: of each column, the smallest value that is to be expected, as all nodes know it.
        high: the largest.
    """
    chance = np.random.default_rng([seed, *b"centroids"])
    corner, size = np.asarray(low, np.float64), np.subtract(high, low, dtype=np.float64)
    return corner + chance.random((k, len(corner))) * size


def candidates(rows: Rows, base: Centroids, chance: np.random.Generator, min_count: int = 1) -> ClusterUpdate:
    """The update of a node before the first round: means of its own rows, spread over them.

    Args:
        rows: (n, d).
        base: (k, d), with which the job was announced; it stands in for candidates that are kept back.
        chance: the node's own.
        min_count: means of fewer rows are kept back.
    """
    if not len(rows):
        return ClusterUpdate(np.zeros(len(base), np.int64), np.array(base, np.float64))
    drawn = spread(rows, np.ones(len(rows)), len(base), chance)
    nearest, _ = assign(rows, drawn)
    counts = np.bincount(nearest, minlength=len(base))
    means = np.array(drawn)
    for number in np.flatnonzero(counts):
        means[number] = np.asarray(rows[nearest == number], np.float64).mean(axis=0)
    return suppressed(ClusterUpdate(counts, means), np.asarray(base, np.float64), min_count)


def from_candidates(base: Centroids, updates: Sequence[tuple[Counts, Centroids]], seed: int) -> Centroids:
    """k centroids from the candidates of all nodes; base if nobody sent one.

    Args:
        base: (k, d).
        updates: counts (k,) and candidates (k, d) of each node, in the order of their ids.
        seed: of the run; the same updates with the same seed give the same bits on all nodes.
    """
    k = len(base)
    points = np.concatenate([base[:0], *(np.asarray(sent, np.float64)[counts > 0] for counts, sent in updates)])
    weights = np.concatenate([np.zeros(0), *(counts[counts > 0] for counts, _ in updates)])
    if not len(points):
        return np.array(base, np.float64)
    weights, best = np.minimum(weights, MOST_ROWS), (np.inf, base)
    for attempt in range(TRIES):
        attempt_result = _refined(
            points, weights, spread(points, weights, k, np.random.default_rng([seed, attempt]))
        )
        cost = _sum(assign(points, attempt_result)[1] * weights)
        best = (cost, attempt_result) if cost < best[0] else best
    return np.array(best[1], np.float64)


def spread(rows: Rows, weights: NDArray[np.float64], k: int, chance: np.random.Generator) -> Centroids:
    """k of the rows, each drawn with probability proportional to weight times squared distance to the rows drawn before.

    Of several draws the one that helps most is taken. Where there are fewer different rows than k, rows stand
    there twice: those centroids stay empty until rows come.
    """
    draws = 2 + int(np.log(k)) if k > 1 else 1
    chosen = [_drawn(weights, chance)]
    least = assign(rows, np.asarray(rows[chosen], np.float64))[1]
    for _ in range(1, k):
        tried = [_drawn(weights * least, chance) for _ in range(draws)]
        left = [
            np.minimum(least, assign(rows, np.asarray(rows[[candidate]], np.float64))[1]) for candidate in tried
        ]
        best = min(range(draws), key=lambda place: _sum(left[place] * weights))
        chosen.append(tried[best])
        least = left[best]
    return np.asarray(rows[chosen], np.float64)


def _drawn(weights: NDArray[np.float64], chance: np.random.Generator) -> int:
    """A row number by weight; any one if all weights are 0."""
    ends = np.cumsum(weights)
    if not 0 < ends[-1] < np.inf:
        return int(chance.integers(len(weights)))
    return int(min(np.searchsorted(ends, chance.random() * ends[-1], side="right"), len(weights) - 1))


def _refined(points: Rows, weights: NDArray[np.float64], centroids: Centroids) -> Centroids:
    """Lloyd's steps over weighted points, until none changes its cluster."""
    before = np.full(len(points), -1)
    for _ in range(_STEPS):
        nearest, _ = assign(points, centroids)
        if (nearest == before).all():
            break
        centroids, before = np.array(centroids), nearest
        for number in np.unique(nearest):
            inside = nearest == number
            centroids[number] = _columns(points[inside] * weights[inside, None]) / _sum(weights[inside])
    return centroids


def _sum(values: NDArray[np.float64]) -> float:
    """The sum in order, so that its bits do not depend on the processor."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _columns(rows: Rows) -> NDArray[np.float64]:
    """The sum of each column, likewise."""
    total: NDArray[np.float64] = np.cumsum(rows, axis=0)[-1]
    return total


CENTROIDS, COUNTS = "centroids", "counts"


def k_means(alpha: float = 1.0) -> AggregationRule:
    """Centroids move by alpha towards their mean over the nodes, by counts; without rows they stay.

    Models of another kind, without these two arrays, are averaged by examples.

    Args:
        alpha: in (0, 1].
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha:g}")

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        if not groups_rows(start.schema):
            return Merged(usual_mean(updates, start.schema), state)
        sent = [(update.params[COUNTS], update.params[CENTROIDS]) for update in updates]
        base, k = start.base[CENTROIDS], len(start.base[COUNTS])
        counts = total_counts([some for some, _ in sent], k)
        if (start.base[COUNTS] < 0).any():
            merged = from_candidates(np.asarray(base, np.float64), sent, int(start.base.digest[:16], 16))
            counts = counts if counts.any() else start.base[COUNTS]
        else:
            merged = merge_centroids(base, alpha, sent)
        arrays = {CENTROIDS: merged, COUNTS: counts}
        params = {name: arrays[name].astype(spec.dtype) for name, spec in start.schema.specs.items()}
        rows = {
            update.peer: float(total_counts([some], k).sum())
            for update, (some, _) in zip(updates, sent, strict=True)
        }
        return Merged(Params(params), state, {peer: Weighed(share) for peer, share in shares(rows).items()})

    return AggregationRule("k-means" if alpha == 1 else f"k-means:{alpha:g}", merge, needs_base=True)


def groups_rows(schema: Schema) -> bool:
    """Whether updates are those of k-means: centroids (k, d) of floats, and counts (k,) of whole numbers."""
    if schema.specs.keys() != {CENTROIDS, COUNTS}:
        return False
    points, counts = schema.specs[CENTROIDS], schema.specs[COUNTS]
    kinds = np.dtype(points.dtype).kind + np.dtype(counts.dtype).kind
    return len(points.shape) == 2 and counts.shape == points.shape[:1] and kinds == "fi"


class ClusterEncoder:
    """The common step of k-means as a sum (`flnet.algorithms.secure_sum`): counts, and changes weighted by them.

    The vector is the rows of each cluster, as they are, and then rows / most_rows * (centroid - base). Counts are small
    beside `most_rows`, so numbers have 64 bits by default; a model of k centroids is small, too.
    """

    def __init__(
        self,
        schema: Schema,
        base: Mapping[str, Array],
        nodes: int,
        alpha: float = 1.0,
        *,
        bits: Bits = 64,
        clip: float = CLIP,
        most_rows: int = 2**20,
    ) -> None:
        """Lay out the vector.

        Args:
            schema: of the model.
            base: with which the round began, equal on all nodes.
            nodes: how many nodes the sum may have at most.
            alpha: share of the way to the mean, in (0, 1].
            bits: of each number.
            clip: times the largest absolute number of the centroids, or times 1, is how far they may move.
            most_rows: of a node in a cluster; more are cut.

        Raises:
            ValueError: the arrays are not those of k-means; or it has not started, for which all nodes would have to see
                the candidates of each; or counts of so many nodes do not fit.
        """
        if not groups_rows(schema):
            raise ValueError(text("these are no centroids and counts of k-means"))
        if (base[COUNTS] < 0).any():
            raise ValueError(
                text("k-means that spreads its first centroids over rows has no secure sum: start it from a seed")
            )
        self._schema, self._alpha, self._most_rows = schema, alpha, most_rows
        self._base = np.asarray(base[CENTROIDS], np.float64)
        self.fixed = FixedPoint(bits, nodes)
        self.bound = clip * max(1.0, float(np.abs(self._base).max(initial=0.0)))
        arrays = {
            COUNTS: BoundedArray(base[COUNTS].shape, most_rows, whole=True),
            CENTROIDS: BoundedArray(self._base.shape, self.bound),
        }
        self._encoder = ArrayEncoder(arrays, self.fixed)
        self.size = self._encoder.size

    def encode(self, update: Mapping[str, Array], examples: int = 0, labels: int = 1) -> EncodedUpdate:
        """What a node adds.

        Args:
            update: its counts and centroids.
            examples, labels: not looked at, as the counts are the weights.

        Raises:
            ValueError: a number is not finite.
        """
        counts = np.clip(update[COUNTS], 0, self._most_rows)
        moved: Centroids = np.subtract(update[CENTROIDS], self._base, dtype=np.float64)
        cut = cut_to(moved, self.bound)
        weighted = (counts / self._most_rows)[:, None] * moved
        numbers = self._encoder.encode({COUNTS: counts, CENTROIDS: weighted}).numbers
        return EncodedUpdate(numbers, cut, int(counts.sum()), bool((counts < update[COUNTS]).any()))

    def decode(self, total: Numbers, contributors: int, most_norm: float = math.inf) -> Mean:
        """The common centroids and counts, from the sum of the vectors without masks.

        Args:
            contributors: how many nodes are in the sum.
            most_norm: of the mean change of all centroids.

        Raises:
            ValueError: the sum is refused, as by `flnet.algorithms.secure_sum.MeanEncoder.decode`.
        """
        sums = self._encoder.decode(total, contributors)
        counts = sums[COUNTS]
        if (counts < 0).any():
            raise ImpossibleSumError(impossible(COUNTS))
        rows = np.maximum(counts, 1)[:, None]
        moved = np.where(counts[:, None] > 0, sums[CENTROIDS] * self._most_rows / rows, 0.0)
        error = self.fixed.step(self.bound) * self._most_rows
        if (np.abs(moved) > self.bound + error / rows).any():
            raise ImpossibleSumError(impossible(CENTROIDS))
        squares = Total(moved.size)
        squares.add(np.ravel(moved * moved))
        errors = np.where(counts[:, None] > 0, error / rows, np.zeros_like(moved))
        norm = check_norm(squares, most_norm, float(np.linalg.norm(errors)))
        arrays = {CENTROIDS: self._base + self._alpha * moved, COUNTS: counts}
        params = Params({name: arrays[name].astype(spec.dtype) for name, spec in self._schema.specs.items()})
        return Mean(
            params, int(counts.sum()), norm, error / max(1, int(counts[counts > 0].min(initial=self._most_rows)))
        )
