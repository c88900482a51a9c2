"""Evaluation by counts: what nodes add up, so that a mesh's figures are those of all test rows together.

The mean of the nodes' accuracies is not the accuracy on all their rows: a node with ten rows weighs as much as one with ten
thousand. A ratio such as F1 has no meaningful mean at all (G. Forman, M. Scholz, "Apples-to-Apples in Cross-Validation
Studies", SIGKDD Explorations 12(1), 2010). Counts add up exactly, in whatever order they come.

For each label, rows are counted as true and false positives, false and true negatives. For the area under the ROC curve,
scores in [0, 1] of rows with the label and of rows without it are counted in bins that are equal on all nodes. Sums
of bins give the area of the binned scores on all rows exactly; two scores in one bin count as a tie.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from flnet.names import check_name
from flnet.params.params import Array
from flnet.text import text

MOST_GROUPS = 16  # of one node
BINS = 64  # of scores in [0, 1], equally wide: a power of two, so that a score's bin does not depend on rounding
MOST_EXAMPLES = 10**9  # of one node
MOST_LABELS = 512
MOST_BINNED = 16  # labels of which scores are counted, so that a message stays below 48 KiB
AGREES = 1e-4  # by which an accuracy may differ from its counts: trainers may have computed it in float32

MESH_FIGURES = ("balanced_accuracy", "f1_macro", "f1_micro", "precision_macro", "recall_macro", "auc")

Count = Annotated[int, Field(ge=0, le=MOST_EXAMPLES, strict=True)]
PerLabel = Annotated[tuple[Count, ...], Field(max_length=MOST_LABELS)]
Bins = Annotated[tuple[Count, ...], Field(min_length=BINS, max_length=BINS)]
PerLabelBins = Annotated[tuple[Bins, ...], Field(max_length=MOST_BINNED)]
Basis = Literal["counts", "examples", "nodes"]
DecidingRows = Literal["test", "validation", "mixed"]  # by which a goal is decided


class Scored(NamedTuple):
    """An accuracy, the rows behind it, and those that were right; None where a node does not say."""

    accuracy: float
    examples: int | None = None
    right: int | None = None


class EvaluationCounts(BaseModel):
    """How a model did on rows of one node, as numbers of rows.

    Attributes:
        right: rows that the accuracy counts as right.
        examples: rows in all.
        labels: digest of the labels' names in their order (`flnet.datasets.metrics.labels_digest`); only counts of the same
            labels add up.
        tp, fp, fn, tn: for each label, true and false positives, false and true negatives; empty if not counted.
        positives, negatives: for each label, scores of the rows with and without it by bin; empty if not counted.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    right: Count
    examples: Count
    labels: str = Field(default="", pattern="^([0-9a-f]{16})?$")
    tp: PerLabel = ()
    fp: PerLabel = ()
    fn: PerLabel = ()
    tn: PerLabel = ()
    positives: PerLabelBins = ()
    negatives: PerLabelBins = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        sides = list(zip(self.tp, self.fp, self.fn, self.tn, strict=False))
        lengths = {len(self.tp), len(self.fp), len(self.fn), len(self.tn)}
        if self.right > self.examples or lengths != {len(sides)} or any(sum(s) != self.examples for s in sides):
            raise ValueError(text("the counts do not add up to {count} examples", self.examples))
        if not self.positives and not self.negatives:
            return self
        binned = list(zip(self.positives, self.negatives, strict=False))
        if {len(self.positives), len(self.negatives)} != {len(sides)} or any(
            sum(with_label) != tp + fn or sum(without) != fp + tn
            for (with_label, without), (tp, fp, fn, tn) in zip(binned, sides, strict=True)
        ):
            raise ValueError(text("the binned scores do not add up to the counts of their labels"))
        return self


class GroupAccuracy(BaseModel):
    """The accuracy on those test rows of a node that belong to a group, as the node declares it.

    Attributes:
        name: of the group; equal names of several nodes are one group.
        accuracy: in [0, 1].
        examples: rows of the group.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: Annotated[str, AfterValidator(check_name)]
    accuracy: Annotated[float, Field(ge=0, le=1)]
    examples: Count


class Measured(BaseModel):
    """Part of Accuracy and its reply: what the sender's average reached on the sender's own test rows.

    Attributes:
        accuracy: of the average itself, before any model is adopted; in [0, 1].
        examples: rows behind it.
        counts: of the same rows, if the trainer counts.
        groups: of rows, if the node declares some; a row may be in several.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    accuracy: Annotated[float, Field(ge=0, le=1)]
    examples: Count
    counts: EvaluationCounts | None = None
    groups: Annotated[tuple[GroupAccuracy, ...], Field(max_length=MOST_GROUPS)] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        check_agreement(self.accuracy, self.examples, self.counts)
        groups = self.groups or ()
        if len({group.name for group in groups}) < len(groups):
            raise ValueError(text("a group is named twice"))
        if any(group.examples > self.examples for group in groups):
            raise ValueError(text("a group has more rows than the node"))
        return self

    @property
    def scored(self) -> Scored:
        """The accuracy with what it counts by."""
        return Scored(self.accuracy, self.examples, None if self.counts is None else self.counts.right)

    @model_serializer(mode="wrap")
    def _without_absent(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in fields(self).items() if value is not None}


def check_agreement(accuracy: float, examples: int, counts: EvaluationCounts | None) -> None:
    """Check that an accuracy and its counts say the same.

    Raises:
        ValueError: they do not.
    """
    if counts is None:
        return
    if counts.examples != examples:
        raise ValueError(
            text("counts of {count} examples stand beside {value} examples", counts.examples, examples)
        )
    share = counts.right / examples if examples else accuracy
    if abs(share - accuracy) > AGREES:
        raise ValueError(
            text(
                "{right} right of {count} do not give the accuracy {value}",
                counts.right,
                examples,
                f"{accuracy:.4f}",
            )
        )


def mean_accuracy(scores: Collection[Scored]) -> tuple[float, Basis]:
    """The accuracy of several nodes together, equal in whatever order they stand.

    Returns:
        The share of right rows where all count them ("counts"); else the mean weighted by examples where all say how many
        ("examples"); else the mean of the accuracies ("nodes").
    """
    values = [score.accuracy for score in scores]
    examples = [score.examples for score in scores if score.examples is not None]
    right = [score.right for score in scores if score.right is not None]
    if len(examples) == len(values) and (rows := sum(examples)) > 0:
        if len(right) == len(values):
            return min(sum(right) / rows, 1.0), "counts"
        return weighted_mean(values, examples), "examples"
    return weighted_mean(values, [1] * len(values)), "nodes"


def weighted_mean(values: Sequence[float], weights: Sequence[int]) -> float:
    """Independent of the order, and never outside the range of the values."""
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    return min(max(mean, min(values)), max(values))


def jain_index(values: Collection[float]) -> float | None:
    """Jain's index of fairness (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984): (sum x)^2 / (n sum x^2).

    1 if all values are equal, 1/n if all but one are 0; None where all are 0, or there are none. Independent of the order.
    """
    squares = math.fsum(value * value for value in values)
    return min(math.fsum(values) ** 2 / (len(values) * squares), 1.0) if squares else None


def standard_deviation(values: Collection[float]) -> float:
    """Of the values themselves, not of what they are a sample of (divided by n). Independent of the order."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


@dataclass
class PooledCounts:
    """Sums of counts of several nodes, and the figures that follow from them.

    Attributes:
        right, examples: rows.
        labels: whose counts add up; None while there are none, empty where nodes have different ones.
        per_label: (4, labels) int64, true and false positives, false and true negatives; None if some node has others.
        bins: (2, labels, BINS) int64, scores of rows with and without each label; None if some node has none.
        totals: the same four over all labels of all nodes, also where labels differ; None if some node counts none.
    """

    right: int = 0
    examples: int = 0
    labels: str | None = None
    per_label: Array | None = None
    bins: Array | None = None
    totals: list[int] | None = field(default_factory=lambda: [0, 0, 0, 0])

    def add(self, counts: EvaluationCounts) -> None:
        """Add those of one more node."""
        is_first = self.labels is None
        sides = np.array([counts.tp, counts.fp, counts.fn, counts.tn], np.int64)
        bins = np.array([counts.positives, counts.negatives], np.int64) if counts.positives else None
        self.right, self.examples = self.right + counts.right, self.examples + counts.examples
        if self.totals is not None:
            self.totals = [a + int(b) for a, b in zip(self.totals, sides.sum(axis=1), strict=True)]
        if not counts.tp:
            self.totals = None
        if is_first:
            self.labels, self.per_label, self.bins = counts.labels, sides if counts.tp else None, bins
            return
        is_same = (
            self.per_label is not None and self.labels == counts.labels and self.per_label.shape == sides.shape
        )
        self.per_label = self.per_label + sides if is_same and self.per_label is not None else None
        self.bins = self.bins + bins if is_same and self.bins is not None and bins is not None else None

    def figures(self) -> dict[str, float]:
        """Accuracy and, as far as they are counted, the figures over all labels; scikit-learn's definitions.

        Precision, recall and F1 are 0 where their denominator is. Balanced accuracy is of rows with one label each, and
        leaves out labels of no row; so does the area under the ROC curve leave out labels of no row, or of all.
        """
        figures = {"accuracy": self.right / self.examples} if self.examples else {}
        if self.totals is not None and self.labels is not None:
            tp, fp, fn, _ = self.totals
            figures["f1_micro"] = _ratio(2 * tp, 2 * tp + fp + fn)
        if self.per_label is None:
            return figures
        each = self.by_label()
        means = {f"{name}_macro": _mean(each[name]) for name in ("precision", "recall", "f1")}
        figures |= {name: value for name, value in means.items() if value is not None}
        tp, fp, fn, _ = self.per_label.sum(axis=1).tolist()
        if tp == self.right and tp + fn == tp + fp == self.examples:  # one label a row
            some = self.per_label[0] + self.per_label[2] > 0
            balanced = _mean([value for value, there in zip(each["recall"], some, strict=True) if there])
            figures |= {} if balanced is None else {"balanced_accuracy": balanced}
        area = _mean(each.get("auc", ()))
        return figures if area is None else {**figures, "auc": area}

    def by_label(self) -> Mapping[str, Sequence[float | None]]:
        """Precision, recall and F1 of each label, and the area under the ROC curve; None where it is not defined."""
        if self.per_label is None:
            return {}
        rows = list(zip(*self.per_label.tolist(), strict=True))
        each: dict[str, Sequence[float | None]] = {
            "precision": [_ratio(tp, tp + fp) for tp, fp, _, _ in rows],
            "recall": [_ratio(tp, tp + fn) for tp, _, fn, _ in rows],
            "f1": [_ratio(2 * tp, 2 * tp + fp + fn) for tp, fp, fn, _ in rows],
        }
        if self.bins is not None:
            each["auc"] = [_area(a, b) for a, b in zip(*self.bins.tolist(), strict=True)]
        return each


def _area(positives: Sequence[int], negatives: Sequence[int]) -> float | None:
    """The chance that a row with the label has a higher bin than one without it, ties half (Mann, Whitney 1947)."""
    pairs, below = sum(positives) * sum(negatives), 0
    if not pairs:
        return None
    twice = 0  # exact: twice the number of pairs in the right order
    for high, low in zip(positives, negatives, strict=True):
        twice += high * (2 * below + low)
        below += low
    return twice / (2 * pairs)


def _ratio(top: int, bottom: int) -> float:
    return top / bottom if bottom else 0.0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
