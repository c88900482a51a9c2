"""The rows of the oracle O12, and rows in three heaps."""

from __future__ import annotations

from typing import Any

import numpy as np

FIRST = np.array([[0.0, 0], [1, 0], [10, 10]])
SECOND = np.array([[11.0, 10], [9, 10]])
START = np.array([[0.0, 0], [10, 10], [50, 50]])


def heaps(seed: int, rows: int = 90, spread: float = 1.0, columns: int = 2) -> tuple[Any, Any]:
    """Rows around three middles, and which heap each belongs to."""
    chance = np.random.default_rng(seed)
    groups = np.arange(rows) % 3
    middles = np.array([[0.0, 0], [9, 0], [0, 9]])
    middles = np.concatenate([middles, np.zeros((3, columns - 2))], axis=1)
    return middles[groups] + chance.normal(0, spread, (rows, columns)), groups
