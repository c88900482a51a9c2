"""Pictures become inputs of the right size and range; what is no picture, or a bomb, is refused."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

from flnet.errors import InputRefused
from flnet.training.api import InputSpec
from flnet.training.pictures import MAX_BYTES, picture_input

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
GREY, COLOUR = InputSpec("image", (4, 6), 0, 255), InputSpec("image", (4, 6, 3), 0, 1)


def file_of(array: np.ndarray, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, form)
    return out.getvalue()


def test_a_picture_of_the_right_size_is_taken_pixel_by_pixel() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert np.array_equal(picture_input(file_of(pixels), GREY), pixels[None])


def test_others_are_squeezed_and_brought_to_the_range() -> None:
    white = np.full((40, 30), 255, np.uint8)
    found = picture_input(file_of(white, "JPEG"), COLOUR)
    assert (found.shape, found.dtype.name) == ((1, 4, 6, 3), "float32")
    assert found.min() == found.max() == 1.0


def test_colours_become_grey_where_grey_is_wanted() -> None:
    grey = picture_input(file_of(np.full((4, 6, 3), 100, np.uint8)), InputSpec("image", (4, 6, 1)))
    assert grey.shape == (1, 4, 6, 1)
    assert grey.max() == grey.min() == 100


def header_of(width: int, height: int) -> bytes:
    """A PNG that says it is so large, in a hundred bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has 0 bytes"),
        (b"x" * (MAX_BYTES + 1), f"expected 1 to {MAX_BYTES}"),
        (b"no picture at all", "neither a PNG nor a JPEG"),
        (file_of(np.zeros((4, 6), np.uint8), "BMP"), "neither a PNG nor a JPEG"),
        (file_of(np.arange(2400, dtype=np.uint8).reshape(40, 60))[:-80], "cannot be read"),
        (header_of(8000, 8000), "8000 x 8000 pixels; expected at most 40,000,000"),
        (header_of(10_000, 10_000), "far too large"),
        (header_of(60_000, 60_000), "far too large"),
    ],
)
def test_what_is_no_picture_or_too_large_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        picture_input(data, GREY)


def test_a_trainer_of_tables_takes_no_picture() -> None:
    with pytest.raises(InputRefused, match=r"takes table of shape \[2\], no pictures"):
        picture_input(b"x", InputSpec("table", (2,)))
