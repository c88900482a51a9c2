"""Looks for numbers in the bytes that nodes send each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import zstandard

SEAL_HEAD, FRAME_HEAD = b"\x5e\xa1\x10", b"\x28\xb5\x2f\xfd"
ROUND = (0.5, 1.0)  # stand in any bytes: labels and first residuals are looked for in runs
RUN = 6


def unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes, and what SEAL's compressed parts in them hold."""
    yield data
    at = data.find(SEAL_HEAD)
    while at >= 0:
        if data[at + 16 : at + 20] == FRAME_HEAD:
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[at + 16 :])
        at = data.find(SEAL_HEAD, at + 1)


def patterns(values: Any) -> Any:
    """Eight bytes to look for: each number as float64, and each two neighbours as float32.

    A single float32 would be found by chance: there are millions of places and only 2^32 patterns.
    """
    numbers = np.asarray(values, np.float64)
    numbers = numbers.reshape(len(numbers), -1)
    telling = ~np.isin(np.abs(numbers), (0.0, *ROUND))
    pairs = [
        np.stack([numbers[:, :-1], numbers[:, 1:]], axis=-1)[telling[:, :-1] & telling[:, 1:]],
        np.stack([numbers[:-1], numbers[1:]], axis=-1)[telling[:-1] & telling[1:]],
    ]
    singles = np.ascontiguousarray(np.concatenate(pairs).astype("<f4"))
    return np.unique(
        np.concatenate([numbers[telling].astype("<f8").view(np.uint64), singles.view(np.uint64).ravel()])
    )


def runs(values: Any) -> Iterator[bytes]:
    """Neighbours in a column, as whole numbers of a byte, as float32 and as float64, where one alone tells nothing."""
    column = np.asarray(values, np.float64).reshape(len(values), -1)[:, 0]
    if not np.isin(np.abs(column), ROUND).all():
        return
    for at in range(0, len(column) - RUN, RUN):
        for kind in ("<f4", "<f8", "i1"):
            if len(set(column[at : at + RUN])) > 1:
                yield column[at : at + RUN].astype(kind).tobytes()


def holds(data: bytes, values: Any) -> bool:
    """Whether a number stands in the bytes, at any offset."""
    wanted = patterns(values)
    likely = np.zeros(2**24, bool)
    likely[wanted & np.uint64(2**24 - 1)] = True
    for offset in range(min(8, max(0, len(data) - 7))):
        words = np.frombuffer(data, "<u8", (len(data) - offset) // 8, offset)
        if np.isin(words[likely[words & np.uint64(2**24 - 1)]], wanted).any():
            return True
    return any(run in data for run in runs(values))
