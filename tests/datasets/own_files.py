"""Folders of images and tables made up for tests of trainers without code."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from flnet.datasets.no_code import OwnImages, OwnTable
from flnet.params.params import Array
from flnet.trainer import Partition, TrainerSettings


def node(
    tmp_path: Path, name: str = "state", shard: tuple[int, int] = (1, 1), partition: str = "iid"
) -> TrainerSettings:
    """A node whose data lie in `tmp_path`."""
    state = tmp_path / f".{name}"
    state.mkdir(exist_ok=True)
    return TrainerSettings(tmp_path, state, shard, partition=Partition.parse(partition))


def images(**options: object) -> OwnImages:
    """Options of kind = images."""
    return OwnImages.model_validate({"kind": "images", "data": "pictures", "size": 8, **options})


def table(**options: object) -> OwnTable:
    """Options of kind = table: the target is y."""
    return OwnTable.model_validate({"kind": "table", "data": "t.csv", "target": "y", **options})


def save(path: Path, pixels: Array) -> Path:
    """An image file of these bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def picture(seed: int, channel: int, size: int = 12) -> Array:
    """Noise in which one colour stands out, uint8 (size, size, 3)."""
    pixels = np.random.default_rng(seed).integers(0, 150, (size, size, 3)).astype(np.uint8)
    pixels[..., channel] += 100
    return pixels


def class_folders(root: Path, names: Sequence[str] = ("cat", "dog"), each: int = 25) -> Path:
    """`each` images for each class, of different colours, half JPEG and half PNG."""
    for channel, name in enumerate(names):
        for i in range(each):
            save(root / name / f"{i:03}.{'jpg' if i % 2 else 'png'}", picture(1000 * channel + i, channel % 3))
    return root


def csv_file(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(rows)
    return path


def two_clouds(count: int = 200, seed: int = 0) -> list[list[object]]:
    """Rows of two numbers and a class (yes, no) that they tell."""
    chance = np.random.default_rng(seed)
    rows: list[list[object]] = []
    for i in range(count):
        shift = 2.0 * (i % 2)
        a, b = chance.normal(shift), 100 + 20 * chance.normal(shift)
        rows.append([round(a, 3), round(b, 3), ("no", "yes")[i % 2]])
    return rows


def in_every_form(folder: Path) -> dict[str, Path]:
    """Files whose pixels depend on how they are read: orientation, depth, transparency, palette, a large JPEG."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    colours = chance.integers(0, 256, (300, 200, 3)).astype(np.uint8)
    colours[:100] //= 4  # another top than bottom
    files = {name: folder / name for name in ("turned.jpg", "deep.png", "clear.png", "palette.png", "large.jpg")}
    exif = Image.Exif()
    exif[0x0112] = 6  # held upright, as most photographs of telephones
    Image.fromarray(colours).save(files["turned.jpg"], exif=exif)
    Image.fromarray(chance.integers(0, 65536, (40, 30)).astype(np.uint16)).save(files["deep.png"])
    Image.fromarray(np.dstack([colours, colours[:, :, 0]])).save(files["clear.png"])
    Image.fromarray(colours).quantize(16).save(files["palette.png"])
    Image.fromarray(colours.repeat(4, 0).repeat(4, 1)).save(files["large.jpg"])
    return files
