"""Pictures as directions of edges: what changes them and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainers._orientations import CELLS, DIRECTIONS, NUMBERS, orientations


def stripes(angle: float, phase: float = 0.0, side: int = 32) -> Any:
    """Waves of light that run in this direction, in degrees."""
    y, x = np.mgrid[:side, :side]
    wave = np.cos(2 * np.pi * (x * np.cos(np.radians(angle)) + y * np.sin(np.radians(angle))) / 8 + phase)
    return 127.5 + 100 * wave


@pytest.mark.parametrize(("angle", "direction"), [(0, 0), (45, 2), (90, 4), (135, 6)])
def test_edges_are_counted_by_their_direction(angle: float, direction: int) -> None:
    (found,) = orientations(stripes(angle)[None])
    by_direction = found.reshape(CELLS, CELLS, DIRECTIONS).sum(axis=(0, 1))
    assert by_direction.argmax() == direction
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)


def test_neither_brightness_nor_contrast_counts() -> None:
    plain = stripes(30)
    found = orientations(np.stack([plain, 40 + plain / 3, 255 - plain]))
    assert found.shape == (3, NUMBERS)
    np.testing.assert_allclose(found[1:], found[[0, 0]], atol=1e-5)


def test_where_an_edge_is_counts() -> None:
    picture = np.zeros((32, 32))
    picture[4, 4] = 255
    (found,) = orientations(picture[None])
    cells = np.abs(found.reshape(CELLS * CELLS, DIRECTIONS)).sum(axis=1)
    assert np.flatnonzero(cells).tolist() == [0]


def test_a_picture_without_edges_and_no_pictures() -> None:
    assert not orientations(np.full((2, 32, 32), 90)).any()
    assert orientations(np.zeros((0, 32, 32))).shape == (0, NUMBERS)
