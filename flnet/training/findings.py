"""What a model shows on a node's own rows, for the people of this node alone: no peer is told any of it.

Trainers and methods make these records; `fields_of` checks them and gives JSON-ready data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array

Kind = Literal["", "labels", "groups"]


@dataclass(frozen=True)
class Waiting:
    """Why rows with coarse labels do not teach yet.

    Attributes:
        from_round: number of the first round in which they may teach.
        share: of the own rows, as far as they were judged, on which the model is sure; in [0, 1].
        needed: which share it takes.
        judged: rows behind that share.
    """

    from_round: int
    share: float
    needed: float
    judged: int


@dataclass(frozen=True)
class LabelFindings:
    """How the classes of the own label space correspond to those of the desired one, J to K.

    Attributes:
        space, classes: the own one: its id, and J names.
        desired, desired_classes: the one in which the model answers.
        matrix: (J, K), columns add up to 1: the chance of each own label for rows of each desired class; None
            where it has to be estimated and nothing was counted yet.
        threshold: from which probability on a guess is counted.
        deviation: (J, K), standard deviation of each entry; None where the matrix is known.
        counts: (J, K), how often each label met each confident guess; None where the matrix is known.
        pooled: whether the counts are the mean of all nodes that pool theirs, for as many rows as are here.
        waiting: why there is no learning from these labels yet; None where there is, or nothing to wait for.
    """

    space: str
    classes: tuple[str, ...]
    desired: str
    desired_classes: tuple[str, ...]
    matrix: Array | None
    threshold: float
    deviation: Array | None = None
    counts: Array | None = None
    waiting: Waiting | None = None
    pooled: bool = False


@dataclass(frozen=True)
class Grouping:
    """A number of groups; silhouette in [-1, 1], None where rows lie in fewer than two."""

    k: int
    inertia: float
    silhouette: float | None


@dataclass(frozen=True)
class GroupFindings:
    """How many groups there are, judged on own rows.

    Attributes:
        rows: own training rows in all.
        judged: rows that were drawn from them for this.
        compared: rows of these that a silhouette compares with each other.
        common: the common model's groups on the rows that were judged.
        tried: k-means on these rows alone, by rising numbers of groups.
        bend: the number at which their inertia bends most.
    """

    rows: int
    judged: int
    compared: int
    common: Grouping
    tried: tuple[Grouping, ...]
    bend: int


Findings = LabelFindings | GroupFindings


def fields_of(found: Findings | None, trainer: str) -> dict[str, Any] | None:
    """As JSON-ready data; None where there is nothing.

    Raises:
        TrainerError: it is no such record, or its numbers make no sense.
    """
    if found is None:
        return None
    if isinstance(found, LabelFindings):
        return _labels(found, trainer)
    if isinstance(found, GroupFindings):
        return _groups(found, trainer)
    raise TrainerError(f"findings of trainer {trainer} gave a {type(found).__name__}; expected findings")


def _labels(found: LabelFindings, trainer: str) -> dict[str, Any]:
    shape = len(found.classes), len(found.desired_classes)
    tables = {name: _table(getattr(found, name), shape, trainer) for name in ("matrix", "deviation", "counts")}
    return {
        "kind": "labels",
        "space": {"id": found.space, "classes": list(found.classes)},
        "desired": {"id": found.desired, "classes": list(found.desired_classes)},
        "estimated": found.counts is not None,
        "pooled": bool(found.pooled),
        "threshold": float(found.threshold),
        **tables,
        "waiting": None if found.waiting is None else dict(vars(found.waiting)),
    }


def _table(values: Array | None, shape: tuple[int, int], trainer: str) -> list[list[float]] | None:
    if values is None:
        return None
    table = np.asarray(values)
    if table.shape != shape or not np.isfinite(table).all() or (table < 0).any():
        raise TrainerError(
            f"findings of trainer {trainer} gave a table {list(table.shape)}, or odd numbers in it; expected "
            f"{list(shape)}, finite and not negative"
        )
    rows: list[list[float]] = table.tolist()
    return rows if table.dtype.kind in "iu" else [[round(value, 6) for value in row] for row in rows]


def _groups(found: GroupFindings, trainer: str) -> dict[str, Any]:
    return {
        "kind": "groups",
        **{name: int(getattr(found, name)) for name in ("rows", "judged", "compared", "bend")},
        "common": _grouping(found.common, trainer),
        "tried": _groupings(found.tried, trainer),
    }


def _groupings(tried: Sequence[Grouping], trainer: str) -> list[Mapping[str, Any]]:
    return [_grouping(one, trainer) for one in tried]


def _grouping(one: Grouping, trainer: str) -> dict[str, Any]:
    numbers = [one.inertia, *([] if one.silhouette is None else [one.silhouette])]
    if not all(map(math.isfinite, numbers)):
        raise TrainerError(f"findings of trainer {trainer} gave numbers that are not finite")
    silhouette = None if one.silhouette is None else round(float(one.silhouette), 6)
    return {"k": int(one.k), "inertia": float(f"{float(one.inertia):.6g}"), "silhouette": silhouette}
