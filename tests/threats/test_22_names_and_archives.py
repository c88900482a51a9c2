"""Threats 22 and 23: names that lead out of their folder, links, and archives and pictures that are bombs."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.compute.prediction import MAX_PIXELS, picture_input
from flnet.datasets.archives import member_path
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.errors import ImportRefused, InputRefused
from flnet.trainer import InputSpec, TrainerFile
from tests.datasets.evil_archives import EVIL

SIGNS = st.text(st.sampled_from("./\\ab:~\0\n%2e\u202e"), min_size=1, max_size=30)


@given(SIGNS)
@example("../x")
@example("a/../../x")
@example("/etc/passwd")
@example("C:\\x")
@example("\\..\\x")
@example("..;/x")
def test_whatever_it_is_called_a_file_stays_in_its_folder(name: str) -> None:
    folder = Path("/srv/data")
    try:
        found = member_path(name)
    except ValueError:
        return
    assert found is None or (folder / found).resolve().is_relative_to(folder)


@pytest.mark.parametrize("name", EVIL)
def test_an_evil_archive_leaves_nothing_anywhere(tmp_path: Path, name: str) -> None:
    make, words = EVIL[name]
    place = place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")
    source = make(tmp_path)
    before = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
    with pytest.raises(ImportRefused, match=words):
        bring_to(place, source, 0.1)
    assert list(place.datasets.iterdir()) == []
    assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} <= before


def test_a_zip_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    bomb = tmp_path / "pets.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made, made.open("zeros", "w") as zeros:
        for _ in range(300):
            zeros.write(bytes(1_000_000))
    place = place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")
    with pytest.raises(ImportRefused, match="holds more than"):
        bring_to(place, bomb, 0.05)
    assert list(place.datasets.iterdir()) == []


def picture(width: int, height: int) -> bytes:
    """The head of a PNG of this size, and a few bytes of it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return io.BytesIO(b"\x89PNG\r\n\x1a\n" + body).getvalue()


@pytest.mark.parametrize(("width", "height"), [(50_000, 50_000), (1, MAX_PIXELS + 1), (2**31 - 1, 2**31 - 1)])
def test_a_picture_of_billions_of_pixels_is_refused_by_its_head(width: int, height: int) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with pytest.raises(InputRefused):
        picture_input(picture(width, height), InputSpec("image", (28, 28), 0, 1))
