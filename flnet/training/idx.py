"""The idx format, in which MNIST and its relatives are published: plain, or compressed with gzip.

Two zero bytes, one byte for the type of the numbers, one for how many dimensions there are, each
dimension as a big-endian uint32, then the numbers in C order (LeCun, Cortes, Burges: "The MNIST database").
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 8
MOST_BYTES = 1024 * 1024 * 1024  # of an unpacked file; the largest of the relatives has about half of that


def read_idx(path: Path) -> Array:
    """The array in an idx file; a plain file is mapped and not read, so that only used rows cost memory.

    Raises:
        TrainerError: the file cannot be read, is no idx file, or is shorter or longer than it says.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            return _parsed(path, np.frombuffer(_unpacked(path), np.uint8))
        return _parsed(path, np.memmap(path, np.uint8, mode="r"))
    except (OSError, EOFError, zlib.error, ValueError) as exc:  # ValueError: an empty file cannot be mapped
        raise TrainerError(f"{path} cannot be read as an idx file: {exc}") from exc


def _unpacked(path: Path) -> bytes:
    """What the file holds, up to the limit: a few megabytes of it can stand for gigabytes."""
    with gzip.open(path) as file:
        data: bytes = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TrainerError(
            f"{path} holds more than {MOST_BYTES} bytes; unpack such a file first, so that it is mapped"
        )
    return data


def _parsed(path: Path, data: Array) -> Array:
    head = bytes(data[:4])
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES or not 1 <= head[3] <= _MAX_DIMENSIONS:
        raise TrainerError(f"{path} is no idx file: it begins with {head.hex(' ') or 'nothing'}")
    start = 4 + 4 * head[3]
    shape = tuple(int(n) for n in np.frombuffer(bytes(data[4:start]).ljust(start - 4, b"\0"), ">u4"))
    dtype = np.dtype(_DTYPES[head[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if data.size != expected:
        raise TrainerError(f"{path} is damaged: expected {expected} bytes, but it has {data.size}")
    return data[start:].view(dtype).reshape(shape)
