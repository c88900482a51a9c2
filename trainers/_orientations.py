"""Histograms of edge orientations: pictures as short rows of features.

Histograms of oriented gradients (Dalal, Triggs, "Histograms of Oriented Gradients for Human Detection", CVPR
2005), in a plain form: cells without blocks, and one norm for the whole picture. Nothing in it is learnt or drawn,
so all nodes have the same numbers for the same picture without agreeing on anything but its size.
"""

from __future__ import annotations

import numpy as np

from flnet.trainer import Array

CELLS, DIRECTIONS = 4, 8  # on each side of the picture; of half a turn, for an edge has no sign
NUMBERS = CELLS * CELLS * DIRECTIONS
_AT_ONCE = 512  # pictures
_DARK = 1e-3  # of the brightest: a picture without edges is 0 everywhere, not noise blown up


def orientations(pictures: Array) -> Array:
    """(n, NUMBERS) float32, rows of length 1, or 0 for a picture without edges.

    Neither brightness nor contrast changes them. A step between two directions is shared by both.

    Args:
        pictures: (n, side, side), 0 to 255; a side of at least 2 * CELLS pixels.
    """
    pieces = [_of(pictures[at : at + _AT_ONCE]) for at in range(0, len(pictures), _AT_ONCE)]
    return np.concatenate(pieces) if pieces else np.zeros((0, NUMBERS), np.float32)


def _of(pictures: Array) -> Array:
    light = pictures.astype(np.float32) / 255
    down, right = np.gradient(light, axis=(1, 2))
    strength = np.hypot(down, right)
    place = (np.arctan2(down, right) % np.pi) * (DIRECTIONS / np.pi)
    first = np.floor(place).astype(np.int64)
    share = (place - first).astype(np.float32)
    side = light.shape[1]
    cell = np.minimum(np.arange(side) * CELLS // side, CELLS - 1)
    bins = (cell[:, None] * CELLS + cell[None, :]) * DIRECTIONS
    found = np.zeros((len(light), NUMBERS), np.float32)
    row = np.arange(len(light))[:, None, None]
    np.add.at(found, (row, bins + first % DIRECTIONS), strength * (1 - share))
    np.add.at(found, (row, bins + (first + 1) % DIRECTIONS), strength * share)
    length = np.sqrt((found**2).sum(axis=1, keepdims=True))
    whole: Array = np.where(length > _DARK, found / np.maximum(length, _DARK), 0).astype(np.float32)
    return whole
