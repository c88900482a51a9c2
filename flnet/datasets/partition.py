"""Partitions of one data set among several nodes, for experiments: each node computes all parts and takes its own.

A partition is a pure function of labels, number of parts and seed. Parts are disjoint, hold all rows, and are ascending row
numbers. The kinds differ in how many rows of each label a part has:

    iid            the same share of every label (the default)
    dirichlet:A    shares of each label drawn from Dirichlet(A): the smaller A, the more nodes differ (Hsu et al. 2019)
    pathological:K K labels per part (McMahan et al. 2017, section 3)
    quantity:A     the same labels, sizes drawn from Dirichlet(A)
    power:E        the same labels; the i-th largest part has a size in proportion to i ** -E
    groups         rows of one group (one person, one ward) stay together; whole groups are dealt
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from flnet.datasets.labelled import Rows, shard
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.text import text

_TRIES = 1000
_KINDS = "iid, dirichlet:0.3, pathological:2, quantity:0.5, power:1, groups"
_TAKES_NUMBER = {
    "iid": False,
    "dirichlet": True,
    "pathological": True,
    "quantity": True,
    "power": True,
    "groups": False,
}
Chance: TypeAlias = "np.random.Generator"  # in quotes: a node never draws, and saves 3 MB by not loading it


@dataclass(frozen=True)
class Partition:
    """One way of dealing, written "kind" or "kind:number".

    Attributes:
        kind: iid, dirichlet, pathological, quantity, power or groups.
        value: alpha of the Dirichlet draw, labels per part, or exponent; 0 for kinds without a number.
    """

    kind: str = "iid"
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in _TAKES_NUMBER:
            raise ValueError(text("expected one of {expected}; got {got}", _KINDS, repr(str(self))))
        if not _TAKES_NUMBER[self.kind]:
            if self.value:
                raise ValueError(text("{kind} takes no number; got {got}", self.kind, repr(str(self))))
        elif not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(text("{kind} takes a number above 0; got {got}", self.kind, repr(str(self))))
        elif self.kind == "pathological" and self.value != int(self.value):
            raise ValueError(
                text("pathological takes a whole number of labels per part; got {got}", repr(str(self)))
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.value:g}" if _TAKES_NUMBER.get(self.kind, self.value) else self.kind

    @classmethod
    def parse(cls, text: str) -> Partition:
        """Read "iid", "dirichlet:0.3", "pathological:2", "quantity:0.5", "power:1" or "groups".

        Raises:
            ValueError: it is something else; says what was expected.
        """
        return _parsed(text)

    def parts(
        self, labels: Array, count: int, seed: int, *, groups: Array | None = None, min_rows: int = 1
    ) -> list[Rows]:
        """The row numbers of all parts.

        Args:
            labels: one for each row.
            count: how many parts.
            seed: equal seeds give equal parts.
            groups: for "groups": for each row, what it belongs to.
            min_rows: no part has fewer rows.

        Raises:
            TrainerError: this data set cannot be dealt so; says why, and what can be done.
        """
        if count < 1 or len(labels) < count * max(min_rows, 1):
            raise TrainerError(
                text("{rows} rows cannot give {parts} parts of at least {least}", len(labels), count, min_rows)
            )
        match self.kind:
            case "iid":
                parts = [shard(labels, (i + 1, count), seed) for i in range(count)]
            case "dirichlet":
                parts = dirichlet_parts(labels, count, self.value, seed, min_rows)
            case "pathological":
                parts = pathological_parts(labels, count, int(self.value), seed)
            case "quantity" | "power":
                parts = quantity_parts(labels, self._sizes(len(labels), count, seed, min_rows), seed)
            case _:
                if groups is None or len(groups) != len(labels):
                    raise TrainerError(
                        text("the partition by groups needs a group for each row; this trainer gives none")
                    )
                parts = group_parts(groups, count, seed)
        smallest = min(map(len, parts))
        if smallest < min_rows:
            raise TrainerError(
                text(
                    "partition {partition} gives a part of {rows} rows; expected at least {least}",
                    self,
                    smallest,
                    min_rows,
                )
            )
        return parts

    def _sizes(self, rows: int, count: int, seed: int, min_rows: int) -> list[int]:
        """How many rows each part has: the minimum first, the rest in proportion."""
        chance = _chance(seed, "sizes")
        if self.kind == "quantity":
            shares = chance.dirichlet(np.full(count, self.value))
        else:
            shares = chance.permutation(np.arange(1.0, count + 1) ** -self.value)
        return [min_rows + extra for extra in apportioned(shares, rows - count * min_rows)]


def dirichlet_parts(labels: Array, count: int, alpha: float, seed: int, min_rows: int) -> list[Rows]:
    """Each label's rows in proportions drawn from Dirichlet(alpha), drawn again until no part is too small.

    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification" (2019), with one draw for each label, as in Yurochkin et al. 2019.
    """
    chance = _chance(seed, "dirichlet")
    by_label = _shuffled_by_label(labels, _chance(seed, "order"))
    rows = np.array([len(numbers) for numbers in by_label])
    for _ in range(_TRIES):
        shares = chance.dirichlet(np.full(count, alpha), size=len(by_label))
        bounds = (np.cumsum(shares, axis=1)[:, :-1] * rows[:, None]).astype(np.int64)
        sizes = np.diff(bounds, axis=1, prepend=0, append=rows[:, None]).sum(axis=0)
        if sizes.min() >= min_rows:
            return _joined([np.split(numbers, at) for numbers, at in zip(by_label, bounds, strict=True)], count)
    raise TrainerError(
        text(
            "{draws} draws from Dirichlet({alpha}) left one of {parts} parts with fewer than "
            "{rows} rows: take a larger alpha or fewer parts",
            _TRIES,
            f"{alpha:g}",
            count,
            min_rows,
        )
    )


def pathological_parts(labels: Array, count: int, per_part: int, seed: int) -> list[Rows]:
    """`per_part` different labels for each part, each label for as many parts as any other, or one more.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017),
    section 3, where sorted rows are cut in shards; here labels are dealt, so that no part gets more of them.
    """
    chance = _chance(seed, "pathological")
    by_label = _shuffled_by_label(labels, chance)
    kinds = len(by_label)
    if per_part > kinds or count * per_part < kinds:
        raise TrainerError(
            text(
                "{parts} parts of {labels} labels cannot hold the {kinds} labels of these data: "
                "expected {low} to {high} labels per part",
                count,
                per_part,
                kinds,
                -(-kinds // count),
                kinds,
            )
        )
    takers: list[list[int]] = [[] for _ in by_label]
    for part in range(count):
        order = chance.permutation(kinds)
        least = sorted(order.tolist(), key=lambda label: len(takers[label]))
        for label in least[:per_part]:
            takers[label].append(part)
    cuts = []
    for rows, parts in zip(by_label, takers, strict=True):
        pieces = iter(np.array_split(rows, len(parts)))
        cuts.append([next(pieces) if part in parts else rows[:0] for part in range(count)])
    return _joined(cuts, count)


def quantity_parts(labels: Array, sizes: Sequence[int], seed: int) -> list[Rows]:
    """Parts of these sizes, whose labels are alike up to chance."""
    order = _chance(seed, "quantity").permutation(len(labels))
    return [np.sort(rows) for rows in np.split(order, np.cumsum(sizes)[:-1])]


def group_parts(groups: Array, count: int, seed: int) -> list[Rows]:
    """Whole groups, the largest first, each to the part that has the fewest rows so far."""
    names, where, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < count:
        raise TrainerError(
            text("{groups} groups cannot give {parts} parts: groups are dealt whole", len(names), count)
        )
    shuffled = _chance(seed, "groups").permutation(len(names))
    owner, held = np.zeros(len(names), np.int64), [0] * count
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        owner[group] = held.index(min(held))
        held[owner[group]] += int(sizes[group])
    return [np.flatnonzero(owner[where.reshape(-1)] == part) for part in range(count)]


def matching_parts(parts: Sequence[Rows], labels: Array, others: Array, seed: int) -> list[Rows]:
    """Other rows (a published test set) dealt in the proportions in which each label was dealt to the parts.

    Args:
        parts: as dealt from `labels`.
        labels: of the rows that were dealt.
        others: labels of the rows to be dealt; one that `labels` lacks is dealt evenly.
    """
    chance = _chance(seed, "matching")
    cuts = []
    for rows in _shuffled_by_label(others, chance):
        held = np.array([int((labels[part] == others[rows[0]]).sum()) for part in parts])
        upto = np.cumsum(held if held.any() else np.ones_like(held))
        cuts.append(np.split(rows, upto[:-1] * len(rows) // upto[-1]))
    return _joined(cuts, len(parts))


def consecutive_parts(rows: Array, count: int) -> list[Array]:
    """Parts of floor(n / count) rows in the order given; the last one takes the remainder as well.

    Delgado Bejarano, MLFedAvg (2024), section on the partition of rows among nodes.
    """
    size = len(rows) // count
    return [rows[i * size : (i + 1) * size if i < count - 1 else len(rows)] for i in range(count)]


def dealt_labels(labels: int, sizes: Sequence[int], seed: int) -> list[Array]:
    """Disjoint sets of label numbers of these sizes, ascending (MLFedAvg's dealing).

    Raises:
        TrainerError: the sizes do not add up to the number of labels, or one is below 1.
    """
    if sum(sizes) != labels or min(sizes, default=0) < 1:
        raise TrainerError(
            text(
                "{sizes} does not deal {labels} labels: expected sizes above 0 that add up to it",
                list(sizes),
                labels,
            )
        )
    order = _chance(seed, "labels").permutation(labels)
    return [np.sort(numbers) for numbers in np.split(order, np.cumsum(sizes)[:-1])]


def apportioned(shares: Array, total: int) -> list[int]:
    """Whole numbers that add up to the total and are as near to the shares as they can be (largest remainder)."""
    exact = shares / shares.sum() * total
    floors = np.floor(exact).astype(np.int64)
    missing = total - int(floors.sum())
    floors[np.argsort(floors - exact, kind="stable")[:missing]] += 1
    return [int(n) for n in floors]


def _chance(seed: int, purpose: str) -> Chance:
    """A generator for this seed and purpose: so that no two draws of one experiment are secretly the same."""
    return np.random.default_rng([seed, *purpose.encode()])


def _shuffled_by_label(labels: Array, chance: Chance) -> list[Rows]:
    return [chance.permutation(np.flatnonzero(labels == name)) for name in np.unique(labels)]


def _joined(cuts: Sequence[Sequence[Rows]], count: int) -> list[Rows]:
    """Part by part what each label gave it."""
    return [np.sort(np.concatenate([pieces[part] for pieces in cuts])) for part in range(count)]


def _parsed(written: str) -> Partition:
    kind, colon, number = written.strip().partition(":")
    if kind not in _TAKES_NUMBER or bool(colon) != _TAKES_NUMBER[kind]:
        raise ValueError(text("expected one of {expected}; got {got}", _KINDS, repr(written)))
    try:
        size = float(number) if colon else 0.0
    except ValueError as exc:
        raise ValueError(text("{kind} takes a number; got {got}", kind, repr(written))) from exc
    return Partition(kind, size)
