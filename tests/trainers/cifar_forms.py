"""Small CIFAR-10s in the forms in which it is found, all of the same made-up photographs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np

from flnet.params.params import Array

TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]


def made_up(rows: int, seed: int) -> tuple[Array, Array]:
    """Noise of which each channel of a class has a brightness of its own, and labels 0 to 9 in turn."""
    chance, labels = np.random.default_rng(seed), np.arange(rows, dtype=np.uint8) % 10
    noise = chance.integers(0, 40, (rows, 32, 32, 3))
    tint = np.stack([20 * labels, 200 - 20 * labels, 40 * (labels % 5)], 1)
    return (noise + tint[:, None, None]).astype(np.uint8), labels


def batch_files(folder: Path) -> dict[str, bytes]:
    """The six published files with 40 made-up records each."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for seed, name in enumerate([*TRAIN, "test_batch.bin"]):
        x, y = made_up(40, seed)
        found[name] = np.column_stack([y, x.transpose(0, 3, 1, 2).reshape(40, -1)]).tobytes()
    return found


def unpacked(folder: Path) -> Path:
    """A folder of data sets with the unpacked binary version."""
    for name, data in batch_files(folder / "cifar-10-batches-bin").items():
        (folder / "cifar-10-batches-bin" / name).write_bytes(data)
    return folder


def archive_of(files: dict[str, bytes], path: Path) -> None:
    """A packed version; the names are those inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, inside in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(inside)
            archive.addfile(entry, io.BytesIO(inside))


def npz(folder: Path, column: bool = False) -> Path:
    """A folder of data sets with the same images as an .npz file."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [made_up(40, seed) for seed in range(6)]
    x, y = (np.concatenate([part[at] for part in parts[:5]]) for at in (0, 1))
    labels = y[:, None] if column else y
    np.savez(folder / "cifar10.npz", x_train=x, y_train=labels, x_test=parts[5][0], y_test=parts[5][1])
    return folder
