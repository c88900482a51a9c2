"""Secret random numbers: noise that follows from a key and from its place, and numbers from the system's source.

Normal noise for the defences of vertical jobs follows from a key that no other node knows. The key is drawn from the
system's source for secrets once for each trainer, and lies in the trainer's folder: after a restart, a batch that is
sent again still gets the noise that it had. The numbers are as unpredictable as BLAKE3 with a key is.
"""

from __future__ import annotations

import math
import os
import secrets
from pathlib import Path

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.algorithms.vertical.defences import NoisePlace, Rows
from flnet.datasets.files import replacing
from flnet.errors import TrainerError
from flnet.text import text

KEY_BYTES = 32
FILE = "noise.key"
_WORD = 8
_DRAWS = 4


class SecretNormal:
    """Standard normal numbers by place (`flnet.algorithms.vertical.defences.NormalSource`).

    Args:
        folder: where the key is kept; None for a key that is forgotten with this object.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._key = folder, b""

    def __call__(self, place: NoisePlace, shape: tuple[int, ...]) -> Rows:
        """An array of this shape.

        Raises:
            TrainerError: the key cannot be read or written.
        """
        self._key = self._key or (
            secrets.token_bytes(KEY_BYTES) if self._folder is None else kept_key(self._folder)
        )
        count = math.prod(shape)
        data = blake3(repr((tuple(place), shape)).encode(), key=self._key).digest(length=normal_bytes(count))
        return normal(data, count).reshape(shape)


def kept_key(folder: Path) -> bytes:
    """The key in this folder, which only its owner can read; it is drawn if there is none.

    Raises:
        TrainerError: it cannot be read or written, or is damaged.
    """
    path = folder / FILE
    try:
        if path.exists():
            key = path.read_bytes()
        else:
            key = secrets.token_bytes(KEY_BYTES)
            with replacing(path) as file:  # such a file is for its owner only
                file.write(key)
    except OSError as exc:
        raise TrainerError(text("{path} cannot be used: {reason}", path, exc)) from exc
    if len(key) != KEY_BYTES:
        raise TrainerError(
            text(
                "{path} has {count} bytes, expected {expected}; remove it for a new key", path, len(key), KEY_BYTES
            )
        )
    return key


def normal_bytes(count: int) -> int:
    """How many random bytes so many normal numbers take."""
    return 2 * _WORD * -(-count // 2)


def normal(data: bytes, count: int) -> NDArray[np.float64]:
    """Standard normal numbers from random bytes (Box, Muller 1958)."""
    words = np.frombuffer(data, np.uint64).reshape(2, -1) >> np.uint64(11)
    radius = np.sqrt(-2 * np.log((words[0] + 1.0) * 2.0**-53))
    angle = 2 * np.pi * words[1] * 2.0**-53
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def system_words(count: int) -> NDArray[np.uint64]:
    """Words (count,) of 64 random bits each from the system's source for secrets; they may be written to."""
    return np.frombuffer(bytearray(os.urandom(_WORD * count)), np.uint64)


def system_uniform(count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 53 random bits each from the system's source for secrets."""
    return (system_words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def system_normal(count: int) -> NDArray[np.float64]:
    """Standard normal numbers from the system's source for secrets."""
    return normal(os.urandom(normal_bytes(count)), count)


def system_noise(count: int) -> NDArray[np.float64]:
    """The same for noise that hides something, each number from four.

    The last digits of a normal number tell which one it was, and so what it was added to (Mironov 2012). In a sum of
    several this takes too long to search for (Holohan, Braghin 2021, section 5.1).
    """
    summed: NDArray[np.float64] = system_normal(_DRAWS * count).reshape(_DRAWS, count).sum(0)
    return summed / math.sqrt(_DRAWS)
