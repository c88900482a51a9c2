"""Looks for numbers in the bytes that nodes send each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import zstandard

SEAL_HEAD, FRAME_HEAD = b"\x5e\xa1\x10", b"\x28\xb5\x2f\xfd"
ROUND = (0.5, 1.0)  # stand in any bytes: labels and first residuals are looked for in runs
RUN = 6
LOW_BITS = np.uint64(2**24 - 1)


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


def found(bodies: Collection[bytes], known: Mapping[str, Any]) -> set[str]:
    """The names of those numbers of which one stands in some of the bytes, at any offset.

    What is looked for is worked out once, and all bytes are passed through once for all names.
    """
    wanted = {name: patterns(values) for name, values in known.items()}
    likely = np.zeros(2**24, bool)
    for some in wanted.values():
        likely[some & LOW_BITS] = True
    hits = np.unique(np.concatenate([_likely(body, likely) for body in bodies] or [np.empty(0, "<u8")]))
    return {
        name
        for name, values in known.items()
        if np.isin(hits, wanted[name]).any() or any(run in body for run in runs(values) for body in bodies)
    }


def _likely(data: bytes, likely: Any) -> Any:
    """The eight bytes at each offset whose low bits are those of something that is looked for."""
    at_offsets = [
        np.frombuffer(data, "<u8", (len(data) - offset) // 8, offset)
        for offset in range(min(8, max(0, len(data) - 7)))
    ]
    return np.concatenate([words[likely[words & LOW_BITS]] for words in at_offsets] or [np.empty(0, "<u8")])
