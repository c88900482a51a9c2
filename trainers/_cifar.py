"""Load one node's shard of CIFAR-10 as images (n, 32, 32, 3) uint8.

The published binary version is read packed or unpacked: records of one label byte and 3 x 1024 bytes of colour
planes (Krizhevsky 2009, "Learning multiple layers of features from tiny images"). `.npz` files are read too. The
published Python version is not: its files are pickles, and unpickling a file can run any code.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from flnet.datasets.archives import TarEntry, tar_entries
from flnet.datasets.labelled import Labelled, Rows, fingerprint, read_npz
from flnet.datasets.pictures import Unreadable, decoded
from flnet.datasets.split import dealt_counts, own_published, own_rows, stored_split, with_partition
from flnet.text import text
from flnet.trainer import Array, DataInfo, DataMissing, TrainerError, TrainerSettings

SHAPE = (32, 32, 3)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"  # of that file
SIZE = 170_052_171  # bytes of it
_BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")  # the last is the test part
_BINARY = ("cifar-10-batches-bin", "cifar-10-binary.tar.gz")  # unpacked and packed
_PICKLED = ("cifar-10-batches-py", "cifar-10-python.tar.gz")
_MAX_BATCH_BYTES = 64 * 2**20  # a published file has 31 million bytes
_RECORD = 1 + 32 * 32 * 3  # bytes
_WHOLE, _JPEG, _PART = "cifar10.npz", "cifar10_full_jpeg.npz", "cifar10_20k.npz"
_REMEDY = text(
    "put the binary version, {file}, packed or unpacked into cifar-10-batches-bin/, or a "
    "file cifar10.npz with x_train, y_train, x_test and y_test, into a folder and name "
    "that folder in FLNET_DATASETS_PATH",
    URL,
)


@dataclass(frozen=True)
class Photographs:
    """One node's photographs; labels int64 in the order of `info.classes`."""

    train: Labelled
    validation: Labelled
    test: Labelled
    info: DataInfo


@dataclass(frozen=True)
class _Side:
    """The published train or test part: all labels, and the images of the rows that are asked for."""

    labels: Array
    images: Callable[[Rows], Array]

    def take(self, rows: Rows) -> Labelled:
        return Labelled(self.images(rows), self.labels[rows].astype(np.int64))


def load_photographs(settings: TrainerSettings) -> Photographs:
    """This node's shard of CIFAR-10, split for good; its test rows are its shard of the published test part.

    Raises:
        DataMissing: there is no CIFAR-10, or too little for so many shards.
        TrainerError: a file is damaged.
    """
    source, train, test = _found(settings.datasets_path)
    own, shares = train.take(own_rows(train.labels, settings)), {"train": 0.9, "validation": 0.1}
    rows = stored_split(settings.state_path / "split-cifar10.npz", own.x, own.y, shares, settings.seed)
    sides = {side: own.take(numbers) for side, numbers in rows.items()}
    sides["test"] = test.take(own_published(train.labels, test.labels, settings))
    rows_of = {side: len(data) for side, data in sides.items()}
    if not all(rows_of.values()):
        words = ", ".join(f"{n} in {side}" for side, n in rows_of.items())
        raise DataMissing(text("too few rows for this shard: {counts}", words), text("use fewer shards"))
    per_class = {side: np.bincount(data.y, minlength=len(CLASSES)).tolist() for side, data in sides.items()}
    info = DataInfo(
        source,
        rows_of,
        CLASSES,
        note=with_partition("", settings),
        counts=per_class,
        checksum=fingerprint(sides),
        parts=dealt_counts(train.labels, settings, len(CLASSES)),
    )
    return Photographs(**sides, info=info)


def _found(folder: Path | None) -> tuple[str, _Side, _Side]:
    """What was found in words, train part, test part."""
    if folder is None:
        raise DataMissing(text("CIFAR-10 is not here, because FLNET_DATASETS_PATH is not set"), _REMEDY)
    pickled = None
    for place in (folder, folder / "cifar10"):
        if (where := _place(place, _BINARY, _BATCHES[-1])) is not None:
            batches = _batches(where)
            return (
                text("CIFAR-10 binary files in {folder}", where),
                _binary(batches[:-1], where),
                _binary(batches[-1:], where),
            )
        name = next((name for name in _npz_names() if (place / name).is_file()), None)
        if name == _JPEG:
            return text("CIFAR-10 as JPEG in {folder}", place / name), *_jpegs(place / name)
        if name is not None:
            a, b, c, d = read_npz(place / name)
            return (
                text("CIFAR-10 in {file}", place / name),
                _plain(a, b, place / name),
                _plain(c, d, place / name),
            )
        pickled = pickled or _place(place, _PICKLED, "test_batch")
    if pickled is not None:
        raise DataMissing(
            text("{path} holds pickles, which flnet does not read because they can run code", pickled), _REMEDY
        )
    raise DataMissing(text("CIFAR-10 was not found in {folder}", folder), _REMEDY)


def _npz_names() -> tuple[str, ...]:
    """Names of `.npz` files, the one to take first: all 50,000 photographs before a part of them.

    Without Pillow, which decodes JPEG, the part comes before the file that could not be read.
    """
    return (_WHOLE, _JPEG, _PART) if find_spec("PIL") else (_WHOLE, _PART, _JPEG)


def _place(folder: Path, names: tuple[str, str], file: str) -> Path | None:
    """The unpacked folder with that file in it, or the archive, whichever exists."""
    unpacked, packed = names
    if (folder / unpacked / file).is_file():
        return folder / unpacked
    return folder / packed if (folder / packed).is_file() else None


def _batches(where: Path) -> list[Array]:
    """All six record arrays, the test part last."""
    return [_mapped(where / name) for name in _BATCHES] if where.is_dir() else _unpacked(where)


def _binary(files: Sequence[Array], place: Path) -> _Side:
    """A part out of record arrays (n, 3073)."""
    labels = np.concatenate([records[:, 0] for records in files])
    starts = np.cumsum([0, *map(len, files)])

    def images(rows: Rows) -> Array:
        inside = [
            rows[(rows >= first) & (rows < first + len(f))] - first
            for f, first in zip(files, starts, strict=False)
        ]
        planes = np.concatenate([f[own, 1:] for f, own in zip(files, inside, strict=True)])
        return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))

    return _Side(_checked_labels(labels, len(labels), place), images)


def _mapped(path: Path) -> Array:
    try:
        return _records(np.memmap(path, np.uint8, mode="r"), str(path))
    except (OSError, ValueError) as exc:  # ValueError: an empty file cannot be mapped
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc


def _unpacked(path: Path) -> list[Array]:
    """The record arrays in the archive."""
    wanted = {f"{_BINARY[0]}/{name}": name for name in _BATCHES}
    batches = {}
    try:
        with tarfile.open(path, tarinfo=TarEntry) as archive:
            for member in tar_entries(archive):
                file = archive.extractfile(member) if member.name in wanted else None
                if file is not None:
                    name, data = wanted[member.name], file.read(_MAX_BATCH_BYTES + 1)
                    batches[name] = _records(np.frombuffer(data, np.uint8), f"{path}, {name}")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc
    missing = [name for name in _BATCHES if name not in batches]
    if missing:
        raise TrainerError(text("{path} lacks {names}", path, ", ".join(missing)))
    return [batches[name] for name in _BATCHES]


def _records(data: Array, what: str) -> Array:
    if not data.size or data.size % _RECORD:
        raise TrainerError(
            text(
                "{path} is damaged: {size} bytes are not a number of records of {count}", what, data.size, _RECORD
            )
        )
    return data.reshape(-1, _RECORD)


def _plain(x: Array, y: Array, place: Path) -> _Side:
    """A part out of arrays; labels may come in a column, as Keras has them."""
    if x.ndim != 4 or x.shape[1:] != SHAPE or x.dtype != np.uint8:
        raise TrainerError(
            text(
                "{path}: images are {dtype} {shape}; expected uint8 [n, 32, 32, 3]", place, x.dtype, list(x.shape)
            )
        )
    return _Side(_checked_labels(y.reshape(-1), len(x), place), lambda rows: x[rows])


def _jpegs(path: Path) -> tuple[_Side, _Side]:
    """Both parts out of JPEG files one after the other, of which the offsets are known."""
    names = ("jpeg_train", "offsets_train", "y_train", "jpeg_test", "offsets_test", "y_test")
    data = dict(zip(names, read_npz(path, names), strict=True))

    def side(name: str) -> _Side:
        packed, offsets = data[f"jpeg_{name}"], data[f"offsets_{name}"]
        whole = packed.ndim == offsets.ndim == 1 and offsets.size and packed.dtype == np.uint8
        if not whole or offsets[0] != 0 or offsets[-1] != packed.size or (np.diff(offsets) <= 0).any():
            raise TrainerError(text("{path}: the offsets do not cut jpeg_{part} into files", path, name))

        def images(rows: Rows) -> Array:
            files = (packed[offsets[row] : offsets[row + 1]].tobytes() for row in rows)
            return np.stack(
                [_decoded(file, f"{path}, {name} image {row}") for file, row in zip(files, rows, strict=True)]
            )

        return _Side(_checked_labels(data[f"y_{name}"], len(offsets) - 1, path), images)

    return side("train"), side("test")


def _decoded(file: bytes, what: str) -> Array:
    try:
        return decoded(io.BytesIO(file), (32, 32), "rgb")
    except Unreadable as exc:
        raise TrainerError(text("{path} is damaged: {reason}", what, exc)) from exc


def _checked_labels(labels: Array, rows: int, place: Path) -> Array:
    if (
        labels.dtype.kind not in "iu"
        or labels.shape != (rows,)
        or (rows and not 0 <= labels.min() <= labels.max() <= 9)
    ):
        raise TrainerError(
            text(
                "{path}: labels are {dtype} {shape}; expected 0 to 9, {count} of them",
                place,
                labels.dtype,
                list(labels.shape),
                rows,
            )
        )
    return labels
