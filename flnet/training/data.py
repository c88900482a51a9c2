"""Rows with labels, the part of them that one node plays with, and the usual .npz container."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.errors import TrainerError
from flnet.params import Array, Params

Rows = NDArray[np.int64]  # row numbers


@dataclass(frozen=True)
class Labelled:
    """Rows `x` (the first axis counts them) and their labels `y`, one each."""

    x: Array
    y: Array

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise TrainerError(f"{len(self.x)} rows came with {len(self.y)} labels; expected one each")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Labelled:
        """These rows, by number or by mask, copied out of a mapped file."""
        return Labelled(np.ascontiguousarray(self.x[rows]), np.ascontiguousarray(self.y[rows]))


class HasRows(Protocol):
    """Rows and labels, however they are kept."""

    @property
    def x(self) -> Array:
        """The rows."""
        ...

    @property
    def y(self) -> Array:
        """Their labels."""
        ...


def fingerprint(sides: Mapping[str, HasRows]) -> str:
    """SHA-256 over the rows and labels of each side of a split, as 64 hex digits: equal for equal data."""
    arrays = {f"{side}.x": data.x for side, data in sides.items()}
    return Params({**arrays, **{f"{side}.y": data.y for side, data in sides.items()}}).digest


def shard(labels: Array, part: tuple[int, int], seed: int) -> Rows:
    """The row numbers of part i of n (counted from 1), in a seeded order.

    The n parts are disjoint and hold all rows; each label is spread evenly over them (counts differ by one
    at most). All nodes that call it with the same labels and seed agree on the parts.
    """
    index, count = part
    return np.sort(_by_label(labels, seed)[index - 1 :: count])


def _by_label(labels: Array, seed: int) -> Rows:
    """All row numbers, label after label, shuffled within each label."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def read_npz(path: Path, names: Sequence[str] = ("x_train", "y_train", "x_test", "y_test")) -> tuple[Array, ...]:
    """The arrays of these names out of an .npz file; nothing that would run code is loaded.

    Raises:
        TrainerError: the file cannot be read, or a name is missing.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise TrainerError(f"{path} lacks {', '.join(missing)}; it has {', '.join(file.files)}")
            return tuple(_array(file[name]) for name in names)
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as exc:
        raise TrainerError(f"{path} cannot be read as an .npz file: {exc}") from exc


def _array(value: Any) -> Array:
    return np.asarray(value)
