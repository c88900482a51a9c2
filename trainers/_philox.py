"""Uniform numbers of the counter-based generator Philox 4x32-10, as TensorFlow's stateless operations draw them.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011), section 3.3: a counter of four
words is mixed in ten rounds under a key of two. TensorFlow gets key and counter by mixing the seed itself once, so
equal seeds give here the very numbers that they give there.
"""

from __future__ import annotations

import math

import numpy as np

from flnet.trainer import Array

ROUNDS = 10
_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))  # of the first and the third word
_STEPS = (0x9E3779B9, 0xBB67AE85)  # by which the key grows from round to round
_SEED_KEY = (0x3EC8F720, 0x02461E29)  # under which TensorFlow mixes seeds
_WORD, _BITS = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counters: Array, key: tuple[int, int]) -> Array:
    """The mixed words of each counter.

    Args:
        counters: uint64 (n, 4), each a word of 32 bits.
    """
    a, b, c, d = (counters[:, place] for place in range(4))
    for number in range(ROUNDS):
        low, high = (np.uint64((part + number * step) % 2**32) for part, step in zip(key, _STEPS, strict=True))
        first, third = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = (third >> _BITS) ^ b ^ low, third & _WORD, (first >> _BITS) ^ d ^ high, first & _WORD
    return np.stack([a, b, c, d], axis=1)


def uniform(seed: int, shape: tuple[int, ...], bound: float) -> Array:
    """Numbers from -bound to bound, float32: TensorFlow's stateless uniform ones of the seed (seed, 0).

    Args:
        seed: from 0 to below 2 ** 64.
    """
    started = philox(np.array([[seed % 2**32, seed >> 32, 0, 0]], np.uint64), _SEED_KEY)[0]
    count = math.prod(shape)
    counters = np.zeros((-(-count // 4), 4), np.uint64)
    counters[:, 0], counters[:, 2:] = np.arange(len(counters)), started[2:]
    words = philox(counters, (int(started[0]), int(started[1]))).reshape(-1)[:count].astype(np.uint32)
    unit = ((words & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    lowest, highest = np.float32(-bound), np.float32(bound)
    return np.asarray((unit * (highest - lowest) + lowest).reshape(shape), np.float32)
