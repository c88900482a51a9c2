"""Bundled digits in MNIST's published format, and a small trainer that reads them and nothing else."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np

from flnet.params.params import Array

# Softmax regression in numpy; without the files there are no data.
TRAINER = '''
"""Digits in idx files, told apart by softmax regression."""

import numpy as np

from flnet.trainer import DataInfo, DataMissing, Fit, Score, Trainer
from flnet.datasets.labelled import Labelled, fingerprint
from flnet.datasets.split import dealt_counts
from flnet.datasets.labelled import read_idx

DATA_PLACE = "digits"
NAMES = {"train": "train", "test": "t10k"}


class Digits(Trainer):
    def __init__(self, settings):
        folder = settings.datasets_path / DATA_PLACE
        if not folder.is_dir():
            raise DataMissing(f"{folder} is not there", "bring the four idx files")
        self.sides = {}
        for side, name in NAMES.items():
            files = [folder / f"{name}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
            if not all(file.is_file() for file in files):
                raise DataMissing(f"{folder} lacks {files[0].name} or its labels", "bring the four idx files")
            x, y = (read_idx(file) for file in files)
            self.sides[side] = Labelled(x.reshape(len(x), -1) / np.float32(255), y.astype(np.int64))
        self.folder = folder
        self.parts = dealt_counts(self.sides["train"].y, settings, 10)

    def initial_params(self, seed):
        return {"w": np.zeros((784, 10), "float32")}

    def fit(self, task):
        w, data = task.params["w"].copy(), self.sides["train"]
        for step in range(30):
            task.progress(step, 30)
            wrong = self.chances(w, data.x) - np.eye(10, dtype="float32")[data.y]
            w -= data.x.T @ wrong * np.float32(0.5 / len(data))
        return Fit({"w": w}, len(data))

    def evaluate(self, params):
        data = self.sides["test"]
        return Score(float((self.chances(params["w"], data.x).argmax(1) == data.y).mean()), len(data))

    def chances(self, w, x):
        scores = np.exp(x @ w - (x @ w).max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    def data_info(self):
        rows = {side: len(data) for side, data in self.sides.items()}
        counts = {side: np.bincount(data.y, minlength=10).tolist() for side, data in self.sides.items()}
        names, checksum = tuple(str(digit) for digit in range(10)), fingerprint(self.sides)
        told = {"counts": counts, "checksum": checksum, "parts": self.parts}
        return DataInfo(f"idx files in {self.folder}", rows, names, **told)


def make_trainer(settings):
    return Digits(settings)
'''


def digit_files(folder: Path) -> list[Path]:
    """The four files with 1500 digits to train on and 297 to test with."""
    folder.mkdir()
    from sklearn.datasets import load_digits  # only where it is needed: it brings SciPy, which takes seconds

    digits = load_digits()
    images = np.repeat(np.repeat(digits.images, 3, 1), 3, 2) * 15
    images = np.pad(images, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    for name, rows in (("train", slice(0, 1500)), ("t10k", slice(1500, None))):
        _write(folder / f"{name}-images-idx3-ubyte.gz", images[rows])
        _write(folder / f"{name}-labels-idx1-ubyte.gz", labels[rows])
    return sorted(folder.iterdir())


def digit_archive(folder: Path) -> Path:
    """The four files in a zip archive."""
    archive = folder.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as packed:
        for file in digit_files(folder):
            packed.write(file, f"digits/{file.name}")
    return archive


def _write(path: Path, array: Array) -> None:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    raw = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(head + array.tobytes())
    path.write_bytes(raw.getvalue())
