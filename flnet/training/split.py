"""Which rows a node trains on, validates with and tests with: decided once, and then kept for good.

A score means nothing once test rows were trained on, and a node is restarted many times, with more rows,
with another shard, with its files sorted differently. So sides are not computed from row numbers each
time: the side of every row ever seen is stored under a digest of the row's contents. A row that comes
again gets its old side wherever it stands now; equal rows are on the same side; only rows never seen
before are shared out, label by label, in the proportions asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.data import Rows, read_npz
from flnet.training.files import replacing

Sides = NDArray[np.uint8]
_GOLDEN = 0.6180339887498949


def stored_split(
    path: Path, rows: Array, labels: Array, shares: Mapping[str, float], seed: int
) -> dict[str, Rows]:
    """The row numbers on each side, ascending.

    Args:
        path: file that remembers; made at the first call, extended when new rows come.
        rows: the first axis counts them.
        labels: one for each row.
        shares: side -> proportion; {"train": 0.7, "validation": 0.1, "test": 0.2}.
        seed: of the shuffling of rows that are new.

    Raises:
        TrainerError: the file is damaged, is of other sides, or cannot be written.
    """
    keys, first, where = np.unique(_digests(rows), return_index=True, return_inverse=True)
    known, known_sides = _load(path, shares)
    sides = _remembered(keys, known, known_sides)
    new = np.flatnonzero(sides < 0)
    if new.size:
        sides[new] = _dealt(labels[first[new]], shares, seed, len(known))
        _store(path, np.r_[known, keys[new]], np.r_[known_sides, sides[new].astype(np.uint8)], shares)
    return {name: np.flatnonzero(sides[where.reshape(-1)] == i) for i, name in enumerate(shares)}


def _digests(rows: Array) -> NDArray[np.uint64]:
    """Eight bytes a row: among a million rows, two equal by chance are less likely than one in 30 million."""
    joined = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(joined, "<u8").astype(np.uint64)


def _remembered(keys: NDArray[np.uint64], known: NDArray[np.uint64], known_sides: Sides) -> NDArray[np.int16]:
    """The stored side of each key, -1 for those never seen."""
    sides = np.full(len(keys), -1, np.int16)
    if len(known):
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)
        found = known[order[at]] == keys
        sides[found] = known_sides[order[at[found]]]
    return sides


def _dealt(labels: Array, shares: Mapping[str, float], seed: int, dealt_before: int) -> NDArray[np.int16]:
    """A side for each of these labels.

    Multiples of the golden ratio fill [0, 1) evenly from any start and over any stretch, so that every label
    gets its proportions, and rows that come one at a time do too.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    bounds = np.cumsum(list(shares.values())) / sum(shares.values())
    place = (0.5 + _GOLDEN * (dealt_before + np.arange(len(labels)))) % 1.0
    sides = np.empty(len(labels), np.int16)
    sides[order] = np.minimum(np.searchsorted(bounds, place, side="right"), len(bounds) - 1)
    return sides


def _load(path: Path, shares: Mapping[str, float]) -> tuple[NDArray[np.uint64], Sides]:
    if not path.exists():
        return np.empty(0, np.uint64), np.empty(0, np.uint8)
    names, digests, sides, checksum = read_npz(path, ("names", "digests", "sides", "checksum"))
    if len(digests) != len(sides) or str(checksum) != _checksum(digests, sides):
        raise TrainerError(f"{path} is damaged: bring it back, or delete it and start with untrained parameters")
    if names.tolist() != list(shares):
        raise TrainerError(f"{path} splits into {', '.join(names.tolist())}; expected {', '.join(shares)}")
    return digests.astype(np.uint64), sides.astype(np.uint8)


def _store(path: Path, digests: NDArray[np.uint64], sides: Sides, shares: Mapping[str, float]) -> None:
    try:
        with replacing(path) as file:
            np.savez(file, names=list(shares), digests=digests, sides=sides, checksum=_checksum(digests, sides))
    except OSError as exc:
        raise TrainerError(f"the split cannot be stored in {path}: {exc}") from exc


def _checksum(digests: Array, sides: Array) -> str:
    return hashlib.sha256(digests.astype("<u8").tobytes() + sides.tobytes()).hexdigest()
