"""Digits of four made-up domains as files, in the forms in which the real ones come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {"mnist": (28, 28), "mnist_m": (32, 32, 3), "usps": (16, 16), "svhn": (32, 32, 3)}


def written(folder: Path, options: str = "", rows: int = 60, tests: int = 20) -> Path:
    """The folder, with the files in it: a class shows by how bright its images are."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, shape) in enumerate(SHAPES.items()):
        chance = np.random.default_rng(number)
        arrays: dict[str, Any] = {}
        for side, count in (("train", rows), ("test", tests)):
            labels = np.arange(count) % 10
            noise = chance.integers(0, 20, (count, *shape))
            arrays[f"y_{side}"] = labels.astype(np.uint8)
            arrays[f"x_{side}"] = (noise + 20 * labels.reshape(-1, *[1] * len(shape))).astype(np.uint8)
        np.savez(folder / f"{name}.npz", **arrays)
    if options:
        (folder / "domains.toml").write_text(options, "utf-8")
    return folder
