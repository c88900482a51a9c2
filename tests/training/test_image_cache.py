"""Image files decoded once: what becomes of sizes, colours and depths, of damaged files, and of the cache."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flnet.errors import DataMissing, TrainerError
from flnet.training import image_cache
from flnet.training.image_cache import Unreadable, decode, decoded_once
from tests.training.own_files import picture, save


def test_an_image_is_squeezed_to_one_size(tmp_path: Path) -> None:
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20] = (250, 0, 0)
    small = decode(save(tmp_path / "a.png", pixels), 8, "rgb")
    assert small.shape == (8, 8, 3)
    assert small.dtype == np.uint8
    assert small[:, 0].tolist() == [[250, 0, 0]] * 8
    assert small[:, 7].tolist() == [[0, 0, 0]] * 8
    assert decode(tmp_path / "a.png", 8, "grey").shape == (8, 8)


def test_sixteen_bits_a_pixel_keep_their_range(tmp_path: Path) -> None:
    deep = np.array([[0, 65535], [32896, 257]], np.uint16).repeat(8, 0).repeat(8, 1)
    small = decode(save(tmp_path / "x.png", deep), 16, "grey")
    assert (small[0, 0], small[0, 15], small[15, 0], small[15, 15]) == (0, 255, 128, 1)


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif)
    small = decode(tmp_path / "a.jpg", 8, "grey")
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
        decode(bomb(tmp_path / "bomb.png", side), 8, "rgb")


@pytest.mark.parametrize("content", [b"", b"no picture", b"\xff\xd8\xff\xe0" + b"\0" * 50, b"GIF89a\x01\0\x01\0"])
def test_what_is_no_picture_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(Unreadable) as fault:
        decode(path, 8, "rgb")
    assert str(path) not in str(fault.value)


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
                decode(tmp_path / f"b.{ending}", 8, "rgb")
            except Unreadable:
                unreadable += 1
    assert unreadable > 30


def test_what_was_decoded_is_mapped_from_disk_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [save(tmp_path / f"d/{i}.png", picture(i, 0)) for i in range(3)]
    first = decoded_once(tmp_path, files, 8, "rgb", tmp_path)
    assert isinstance(first.images, np.memmap)
    assert not first.images.flags.writeable
    assert [path.name for path in tmp_path.glob("images-*.part")] == []
    monkeypatch.setattr(image_cache, "decode", lambda *_: pytest.fail("decoded again"))
    assert np.array_equal(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images, first.images)


def test_a_changed_file_another_size_and_other_files_are_decoded_anew(tmp_path: Path) -> None:
    files = [save(tmp_path / f"d/{i}.png", picture(i, 0)) for i in range(3)]
    first = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    save(files[1], picture(7, 2))
    os.utime(files[1], ns=(1, 1))
    second = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    assert [np.array_equal(a, b) for a, b in zip(first, second, strict=True)] == [True, False, True]
    assert decoded_once(tmp_path, files, 16, "grey", tmp_path).images.shape == (3, 16, 16)
    assert decoded_once(tmp_path, files[:2], 8, "rgb", tmp_path).images.shape == (2, 8, 8, 3)
    assert len(list(tmp_path.glob("images-*.npy"))) == 1


def test_a_damaged_cache_is_written_anew(tmp_path: Path) -> None:
    files = [save(tmp_path / "d/a.png", picture(0, 0))]
    first = np.array(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images)
    (cache,) = tmp_path.glob("images-*.npy")
    cache.write_bytes(cache.read_bytes()[:100])
    assert np.array_equal(decoded_once(tmp_path, files, 8, "rgb", tmp_path).images, first)


def test_damaged_files_are_named_and_remembered(tmp_path: Path) -> None:
    files = [save(tmp_path / f"d/{i}.png", picture(i, 0)) for i in range(3)]
    files[1].write_bytes(b"broken")
    for _ in range(2):
        found = decoded_once(tmp_path, files, 8, "rgb", tmp_path)
        assert list(found.faults) == ["d/1.png"]
        assert found.images[1].max() == 0
        assert found.images[2].max() > 0


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    files = [save(tmp_path / "d/a.png", picture(0, 0))]
    with pytest.raises(TrainerError, match="the decoded images cannot be kept in"):
        decoded_once(tmp_path, files, 8, "rgb", tmp_path / "absent")


def test_without_pillow_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", picture(0, 0))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        DataMissing, match=r'Pillow, which is not installed; install it: pip install "flnet\[images'
    ):
        decode(path, 8, "rgb")
