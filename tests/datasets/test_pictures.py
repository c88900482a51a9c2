"""Picture files to pixels: sizes, colours and depths, damaged files and bombs; training and predictions agree."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flnet.compute.prediction import picture_input
from flnet.datasets.pictures import Colour, Unreadable, decoded, size_and_mode
from flnet.errors import DataMissing
from flnet.installing import install
from flnet.params.params import Array
from flnet.trainer import InputSpec
from tests.datasets.own_files import in_every_form, picture, save


def test_an_image_is_squeezed_to_one_size(tmp_path: Path) -> None:
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20] = (250, 0, 0)
    small = decoded(save(tmp_path / "a.png", pixels), (8, 8), "rgb")
    assert small.shape == (8, 8, 3)
    assert small.dtype == np.uint8
    assert small[:, 0].tolist() == [[250, 0, 0]] * 8
    assert small[:, 7].tolist() == [[0, 0, 0]] * 8
    assert decoded(tmp_path / "a.png", (8, 8), "grey").shape == (8, 8)


def test_sixteen_bits_a_pixel_keep_their_range(tmp_path: Path) -> None:
    deep = np.array([[0, 65535], [32896, 257]], np.uint16).repeat(8, 0).repeat(8, 1)
    small = decoded(save(tmp_path / "x.png", deep), (16, 16), "grey")
    assert (small[0, 0], small[0, 15], small[15, 0], small[15, 15]) == (0, 255, 128, 1)


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif)
    small = decoded(tmp_path / "a.jpg", (8, 8), "grey")
    assert small[0].max() < 50
    assert small[7].min() > 200


def bomb(path: Path, side: int) -> Path:
    """A PNG of a few bytes that says it has side x side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.parametrize("side", [8_001, 9_500, 60_000])
def test_a_bomb_is_not_decoded(tmp_path: Path, side: int) -> None:
    with pytest.raises(Unreadable, match="pixels; at most 64000000 are decoded"):
        decoded(bomb(tmp_path / "bomb.png", side), (8, 8), "rgb")


@pytest.mark.parametrize("content", [b"", b"no picture", b"\xff\xd8\xff\xe0" + b"\0" * 50, b"GIF89a\x01\0\x01\0"])
def test_what_is_no_picture_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(Unreadable) as fault:
        decoded(path, (8, 8), "rgb")
    assert str(path) not in str(fault.value)


def test_size_and_colours_are_read_without_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", picture(0, 0, 20))
    assert size_and_mode(path) == ((20, 20), "RGB")
    Image.open(path).save(tmp_path / "b.png", "TIFF")
    with pytest.raises(Unreadable, match="neither a JPEG nor a PNG"):
        size_and_mode(tmp_path / "b.png")
    with pytest.raises(Unreadable, match="too many pixels"):
        size_and_mode(bomb(tmp_path / "bomb.png", 60_000))

    def broken(*given: object, **more: object) -> None:
        raise struct.error("unpack requires a buffer of 4 bytes")

    monkeypatch.setattr(Image, "open", broken)
    with pytest.raises(Unreadable, match="unpack requires"):
        size_and_mode(path)


@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_a_picture_cut_off_or_changed_anywhere_is_read_or_unreadable(tmp_path: Path, ending: str) -> None:
    whole = save(tmp_path / f"a.{ending}", picture(0, 0)).read_bytes()
    chance = np.random.default_rng(0)
    unreadable = 0
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        changed = bytearray(whole)
        changed[int(chance.integers(len(whole)))] ^= 255
        for content in (whole[:length], bytes(changed)):
            (tmp_path / f"b.{ending}").write_bytes(content)
            try:
                decoded(tmp_path / f"b.{ending}", (8, 8), "rgb")
            except Unreadable:
                unreadable += 1
    assert unreadable > 30


def test_without_pillow_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", picture(0, 0))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        DataMissing, match="Pillow, which is not installed; install it: " + re.escape(install("images"))
    ):
        decoded(path, (8, 8), "rgb")


@pytest.mark.parametrize(("colour", "shape"), [("grey", (12, 9)), ("rgb", (12, 9, 3))])
def test_predictions_see_the_pixels_that_training_sees(
    tmp_path: Path, colour: Colour, shape: tuple[int, ...]
) -> None:
    for name, file in in_every_form(tmp_path / "forms").items():
        trained = decoded(file, (9, 12), colour)
        assert trained.std() > 1, name
        assert np.array_equal(picture_input(file.read_bytes(), InputSpec("image", shape))[0], trained), name


def squeezed(pixels: Array, width: int) -> Array:
    """The columns of a grey picture squeezed by Lanczos resampling, in whole numbers (Pillow up to version 12)."""
    before, out = pixels.shape[1], np.zeros((len(pixels), width), np.uint8)
    stretch = max(before / width, 1.0)
    for place in range(width):
        centre = (place + 0.5) * before / width
        first, end = max(0, int(centre - 3 * stretch + 0.5)), min(before, int(centre + 3 * stretch + 0.5))
        x = (np.arange(first, end) - centre + 0.5) / stretch
        weights = np.sinc(x) * np.sinc(x / 3) * (abs(x) < 3)
        whole = np.trunc(weights / weights.sum() * 2**22 + np.where(weights < 0, -0.5, 0.5)).astype(np.int64)
        out[:, place] = np.clip((2**21 + pixels[:, first:end].astype(np.int64) @ whole) >> 22, 0, 255)
    return out


@pytest.mark.parametrize("shape", [(31, 17), (17, 31), (90, 5), (200, 33), (28, 28), (1, 1)])
def test_pixels_are_the_same_whatever_order_a_version_of_pillow_takes(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    pixels = np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)
    path = save(tmp_path / "p.png", pixels)
    expected = squeezed(squeezed(pixels, 20).T, 28).T
    assert np.array_equal(decoded(path, (20, 28), "grey"), expected)
