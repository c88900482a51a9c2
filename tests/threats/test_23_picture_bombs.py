"""Threat 23: pictures whose heads promise billions of pixels. The head is looked at, and nothing is unpacked."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pytest

from flnet.compute.prediction import picture_input
from flnet.errors import InputRefused
from flnet.trainer import InputSpec
from tests.compute.test_prediction import header_of

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
SPEC = InputSpec("image", (28, 28), 0, 1)


@pytest.mark.parametrize("size", [(50_000, 50_000), (2**31 - 1, 1), (1, 2**31 - 1), (65_535, 65_535)])
def test_a_head_of_billions_of_pixels_costs_no_memory(size: tuple[int, int]) -> None:
    data = header_of(*size)
    tracemalloc.start()
    try:
        with pytest.raises(InputRefused):
            picture_input(data, SPEC)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_real_picture_of_too_many_pixels_is_refused_whatever_it_packs_to() -> None:
    out = io.BytesIO()
    Image.fromarray(np.zeros((9_000, 9_000), np.uint8)).save(out, "PNG")
    assert len(out.getvalue()) < 200_000
    with pytest.raises(InputRefused, match=r"pixels|too large"):
        picture_input(out.getvalue(), SPEC)


def test_what_is_cut_off_in_the_middle_is_refused() -> None:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)).save(out, "PNG")
    with pytest.raises(InputRefused):
        picture_input(out.getvalue()[:600], SPEC)
