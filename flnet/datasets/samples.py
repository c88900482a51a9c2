"""Small generated data sets for a first try; wherever they are shown, they are called sample data.

A hidden file in their folder marks them, which `is_sample` looks for.
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.errors import DataMissing
from flnet.params.params import Array

MARKER = ".flnet-sample-data"
_WORDS = "These data were made up by flnet: sample data, good for a first try and for nothing else.\n"
_SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcfgd")
_BARS = {  # rows and columns of each bar of a digit as pocket calculators show it
    "a": (4, 7, 9, 19),
    "b": (4, 15, 17, 20),
    "c": (13, 24, 17, 20),
    "d": (21, 24, 9, 19),
    "e": (13, 24, 8, 11),
    "f": (4, 15, 8, 11),
    "g": (12, 15, 9, 19),
}
_SIDE = 24  # pixels of the pictures


@dataclass(frozen=True)
class Sample:
    """A sample data set: its description, the folder that it fills, and the file of its trainer."""

    words: str
    folder: str
    trainer: str
    lines: str  # of the trainer's file; empty where a trainer that flnet ships finds the data by itself
    write: Callable[[Path], None]


def is_sample(place: Path) -> bool:
    """Whether this folder, or the folder of this file, holds made-up data."""
    return ((place if place.is_dir() else place.parent) / MARKER).is_file()


def write_sample(sample: Sample, datasets: Path) -> Path:
    """Make it up; the folder is there whole or not at all.

    Raises:
        DataMissing: the folder is there already, or cannot be written.
    """
    target = datasets / sample.folder
    if target.exists():
        raise DataMissing(f"{target} is there already", "remove it first, or name another folder with --path")
    try:
        datasets.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=datasets, prefix=".sample-") as draft:
            folder = Path(draft) / sample.folder
            folder.mkdir()
            (folder / MARKER).write_text(_WORDS, "utf-8")
            sample.write(folder)
            folder.rename(target)
    except OSError as exc:
        shutil.rmtree(target, ignore_errors=True)
        raise DataMissing(f"{target} cannot be written: {exc}", "make room, or name another folder") from exc
    return target


def write_digits(folder: Path, train: int = 1000, test: int = 200) -> None:
    """MNIST's four files with digits as a pocket calculator shows them, moved about and noisy."""
    for name, rows, seed in (("train", train, 1), ("t10k", test, 2)):
        chance = np.random.default_rng(seed)
        labels = (np.arange(rows) % 10).astype(np.uint8)
        images = np.stack([_digit(int(label), chance) for label in labels])
        _write_idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        _write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)


def write_pictures(folder: Path, each: int = 60) -> None:
    """A folder for each of three shapes, with PNG pictures of them."""
    chance = np.random.default_rng(3)
    down, right = np.mgrid[:_SIDE, :_SIDE] - _SIDE / 2
    shapes: Mapping[str, Callable[[float], Array]] = {
        "disc": lambda size: down**2 + right**2 < size**2,
        "square": lambda size: np.maximum(abs(down), abs(right)) < size * 0.9,
        "triangle": lambda size: (down < size * 0.8) & (2 * abs(right) < down + size),
    }
    for name, inside in shapes.items():
        (folder / name).mkdir()
        for number in range(each):
            shown = np.roll(inside(chance.uniform(6, 9)), chance.integers(-2, 3, 2), (0, 1))
            ink, paper = chance.integers(120, 256, 3), chance.integers(0, 100, 3)
            pixels = np.where(shown[..., None], ink, paper) + chance.integers(-20, 21, (_SIDE, _SIDE, 3))
            (folder / name / f"{number:03}.png").write_bytes(png(np.clip(pixels, 0, 255).astype(np.uint8)))


def write_table(folder: Path, rows: int = 300) -> None:
    """Made-up people, with two numbers, a word and an outcome that hangs on them."""
    chance = np.random.default_rng(4)
    lines = ["age,pressure,smoker,ill"]
    for _ in range(rows):
        age, pressure, smoker = chance.integers(20, 90), chance.normal(130, 15), chance.random() < 0.3
        risk = (age - 55) / 15 + (pressure - 130) / 15 + 1.5 * smoker + chance.normal(0, 0.5)
        lines.append(f"{age},{pressure:.0f},{'yes' if smoker else 'no'},{'yes' if risk > 0.4 else 'no'}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n", "utf-8")


def png(pixels: Array) -> bytes:
    """A picture (height, width, 3) uint8 as a PNG file (Portable Network Graphics, W3C 2003)."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _digit(digit: int, chance: np.random.Generator) -> Array:
    canvas = np.zeros((28, 28))
    for bar in _SEGMENTS[digit]:
        top, bottom, left, right = _BARS[bar]
        canvas[top:bottom, left:right] = 255
    moved = np.roll(canvas, chance.integers(-3, 4, 2), (0, 1)) * chance.uniform(0.6, 1)
    return np.clip(moved + chance.normal(0, 25, canvas.shape), 0, 255).astype(np.uint8)


def _write_idx(path: Path, array: Array) -> None:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(head + array.tobytes())
        file.flush()
        os.fsync(raw.fileno())


_IMAGES_FILE = """kind = "images"
data = "sample-images"
classes = ["disc", "square", "triangle"]
size = 24
label = "Shapes (sample data)"
"""
_TABLE_FILE = """kind = "table"
data = "sample-table/table.csv"
target = "ill"
classes = ["no", "yes"]
label = "Made-up people (sample data)"
rate = 0.1

[categories]
smoker = ["no", "yes"]
"""
SAMPLES = {
    "mnist": Sample("digits in MNIST's four files", "mnist", "MNIST", "", write_digits),
    "images": Sample(
        "a folder of pictures for each class", "sample-images", "SAMPLE_IMAGES", _IMAGES_FILE, write_pictures
    ),
    "table": Sample("a CSV table with an outcome", "sample-table", "SAMPLE_TABLE", _TABLE_FILE, write_table),
}
