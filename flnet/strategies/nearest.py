"""How near updates are to each other, and Krum's choice among them; shared by the rules that go by it.

Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent"
(2017), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.params import Schema, Update
from flnet.vectors import distance, fsum

Squares = NDArray[np.float64]  # (updates, updates): squared L2 distances


def squared_distances(updates: Sequence[Update], schema: Schema) -> Squares:
    """The squared L2 distance of every pair over all arrays that are averaged; infinite where it is too large."""
    squares = np.zeros((len(updates), len(updates)))
    for row, one in enumerate(updates):
        for column in range(row):
            apart = distance(updates[column].params, one.params, schema)
            squares[row, column] = squares[column, row] = apart * apart
    return squares


def krum_scores(squares: Squares, hostile: int, among: Sequence[int]) -> list[float]:
    """Krum's score of each of these updates: the sum of its squared distances to the nearest others.

    As many others as there are in all, less the hostile ones and two; at least one.

    Args:
        hostile: how many of the updates may be hostile.
        among: their rows in `squares`; only they count as neighbours.
    """
    count = max(1, len(among) - hostile - 2)
    others = [sorted(float(squares[one, other]) for other in among if other != one) for one in among]
    return [fsum(row[:count]) for row in others]


def best_first(squares: Squares, hostile: int, among: Sequence[int]) -> list[int]:
    """These rows, the one of the lowest score first; of equal ones the one that comes first in `among`."""
    scores = krum_scores(squares, hostile, among)
    return [among[place] for place in sorted(range(len(among)), key=lambda place: scores[place])]
