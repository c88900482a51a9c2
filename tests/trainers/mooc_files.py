"""A small file of made-up enrolments in the form of the KDD Cup 2015."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainers._mooc import FILE

COLUMNS, COURSES = 6, 5


def write_data(folder: Path, rows: int = 900, tests: int = 300) -> Path:
    """Who does little drops out, mostly; courses differ in size."""
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {"feature_names": np.array([f"count {i}" for i in range(COLUMNS)])}
    for side, count in (("train", rows), ("test", tests)):
        x = chance.gamma(1.0, 40.0, size=(count, COLUMNS)).round().astype(np.float32)
        arrays[f"x_{side}"] = x
        arrays[f"y_{side}"] = (x[:, 0] + chance.normal(0, 5, count) < 60).astype(np.uint8)
        arrays[f"course_{side}"] = np.minimum(chance.geometric(0.4, count) - 1, COURSES - 1).astype(np.uint8)
    np.savez(folder / FILE, **arrays)
    return folder
