"""A curvature from a few steps: the compact form of limited-memory BFGS, for products with the Hessian itself.

Byrd, Nocedal, Schnabel, "Representations of Quasi-Newton Matrices and Their Use in Limited Memory Methods" (1994),
theorem 2.3. From pairs of a step s and of the change y of the gradient along it follows a matrix B with B s = y
for the newest pair, and B v for any v is a sum of v, the steps and the changes. What each of them counts in it
follows from inner products alone, so the long vectors themselves are no concern of this module.

Bits are the same on every node: the small system is solved by elimination in a fixed order, not by LAPACK.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Table = Sequence[Sequence[float]]
_LEAST_CURVATURE = 1e-8  # of |s| |y|: what s'y has to exceed
_LEAST_PIVOT = 1e-12  # of the largest number of the system: below it counts as singular


class Pairs(NamedTuple):
    """The inner products of pairs (s, y), the oldest first.

    Attributes:
        steps: s_k's_l.
        mixed: s_k'y_l.
        changes: y_k'y_k.
    """

    steps: Table
    mixed: Table
    changes: Sequence[float]

    @property
    def usable(self) -> list[int]:
        """Those along whose step the gradient grew: all others would make B indefinite, or nothing at all."""
        return [k for k in range(len(self.changes)) if self._is_usable(k)]

    def _is_usable(self, k: int) -> bool:
        square, along, other = self.steps[k][k], self.mixed[k][k], self.changes[k]
        if not all(map(math.isfinite, (square, along, other))) or square <= 0 or other <= 0:
            return False
        return along > _LEAST_CURVATURE * math.sqrt(square) * math.sqrt(other)


class Product(NamedTuple):
    """B v as a sum: `of_v` v and, for each pair, `of_steps` s and `of_changes` y."""

    of_v: float
    of_steps: Sequence[float]
    of_changes: Sequence[float]


def product(pairs: Pairs, along_steps: Sequence[float], along_changes: Sequence[float]) -> Product:
    """B v.

    Nothing at all (B = 0) where no pair is usable or the system is singular.

    Args:
        pairs: from which B follows.
        along_steps: s_k'v.
        along_changes: y_k'v.
    """
    count, rows = len(pairs.changes), pairs.usable
    nothing = Product(0.0, [0.0] * count, [0.0] * count)
    if not rows or not all(map(math.isfinite, (*along_steps, *along_changes))):
        return nothing
    # A pair times any number is the same pair to B; with steps of length 1 the system is well scaled.
    scale = [1 / math.sqrt(pairs.steps[k][k]) for k in rows]
    factor = pairs.mixed[rows[-1]][rows[-1]] / pairs.steps[rows[-1]][rows[-1]]
    right = [
        *(factor * along_steps[k] * c for k, c in zip(rows, scale, strict=True)),
        *(along_changes[k] * c for k, c in zip(rows, scale, strict=True)),
    ]
    found = solved(_system(pairs, rows, scale, factor), right)
    if found is None:
        return nothing
    of_steps, of_changes = [0.0] * count, [0.0] * count
    for place, (k, c) in enumerate(zip(rows, scale, strict=True)):
        of_steps[k] = -factor * found[place] * c
        of_changes[k] = -found[len(rows) + place] * c
    return Product(factor, of_steps, of_changes)


def _system(pairs: Pairs, rows: Sequence[int], scale: Sequence[float], factor: float) -> list[list[float]]:
    """The matrix [[factor S'S, L], [L', -D]], L the part of S'Y below its diagonal D."""
    count = len(rows)
    table = [[0.0] * (2 * count) for _ in range(2 * count)]
    for a, k in enumerate(rows):
        table[count + a][count + a] = -pairs.mixed[k][k] * scale[a] * scale[a]
        for b, other in enumerate(rows):
            table[a][b] = factor * pairs.steps[k][other] * scale[a] * scale[b]
            if b < a:
                table[a][count + b] = table[count + b][a] = pairs.mixed[k][other] * scale[a] * scale[b]
    return table


def solved(table: Table, right: Sequence[float]) -> list[float] | None:
    """The solution of a system of linear equations, by elimination with partial pivoting; None if it has none.

    Args:
        table: (n, n).
        right: n numbers.
    """
    rows = [[*map(float, row), float(end)] for row, end in zip(table, right, strict=True)]
    least = _LEAST_PIVOT * max((abs(one) for row in table for one in row), default=0.0)
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        if not abs(rows[pivot][at]) > least:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in rows[at + 1 :]:
            part = row[at] / rows[at][at]
            for column in range(at, len(row)):
                row[column] -= part * rows[at][column]
    found = [0.0] * len(rows)
    for at in reversed(range(len(rows))):
        # Not `sum`: from Python 3.12 on it rounds otherwise than before.
        known = math.fsum(rows[at][column] * found[column] for column in range(at + 1, len(rows)))
        found[at] = (rows[at][-1] - known) / rows[at][at]
    return found if all(map(math.isfinite, found)) else None
