"""The handwritten digits of both MNIST trainers: found, sharded, split; bytes, 28x28, white on black.

MNIST is taken from FLNET_DATASETS_PATH in any of its usual forms. Without it, the digits that scikit-learn
brings along stand in, drawn at the same size, so that the same model trains on a machine without network.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flnet.datasets.labelled import Labelled, fingerprint, read_idx, read_npz
from flnet.datasets.samples import is_sample
from flnet.datasets.split import dealt_counts, own_published, own_rows, stored_split, with_partition
from flnet.text import text
from flnet.trainer import Array, DataInfo, DataMissing, InputSpec, TrainerError, TrainerSettings

SIDE = 28  # pixels
DIGIT = InputSpec("image", (SIDE, SIDE), 0, 255, hint=text("one digit, white on black, in the middle"))
_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_REMEDY = text(
    "for MNIST put its four idx files (.gz or unpacked) in a folder mnist/, or the file "
    "mnist.npz, into a folder and name that folder in FLNET_DATASETS_PATH"
)


@dataclass(frozen=True)
class Digits:
    """One node's digits: images (n, 28, 28) uint8, labels int64 from 0 in the order of `info.classes`.

    Attributes:
        official: the whole published test part, which no node trains on, where nodes have unlike parts of it;
            None where a node's own test split resembles it anyway.
    """

    train: Labelled
    validation: Labelled
    test: Labelled
    info: DataInfo
    bundled: bool
    official: Labelled | None = None


def load_digits(settings: TrainerSettings, keep: Sequence[int] = tuple(range(10))) -> Digits:
    """This node's shard of the digits in `keep`, split for good.

    Raises:
        DataMissing: neither MNIST nor scikit-learn is there.
        TrainerError: a file is damaged.
    """
    mnist = find_mnist(settings.datasets_path)
    if mnist is None:
        return _bundled_digits(settings, keep)
    place, source, train, test = mnist
    wanted, published = _kept(train, keep), _kept(test, keep)
    own = wanted.take(own_rows(wanted.y, settings))
    parts = _split(own, settings, "mnist", {"train": 0.9, "validation": 0.1})
    test = published.take(own_published(wanted.y, published.y, settings))
    note = with_partition("", settings)
    digits = _digits(parts["train"], parts["validation"], test, source, note, keep, sample=is_sample(place))
    digits = replace(digits, info=replace(digits.info, parts=dealt_counts(wanted.y, settings, len(keep))))
    return digits if settings.partition.kind == "iid" else replace(digits, official=published)


def _bundled_digits(settings: TrainerSettings, keep: Sequence[int]) -> Digits:
    wanted = _kept(_scikit_digits(), keep)
    own = wanted.take(own_rows(wanted.y, settings))
    parts = _split(own, settings, "bundled", {"train": 0.7, "validation": 0.1, "test": 0.2})
    where = settings.datasets_path
    why = (
        text("FLNET_DATASETS_PATH is not set") if where is None else text("MNIST was not found in {folder}", where)
    )
    source = text("the digits bundled with scikit-learn (1797 images of 8x8), because {reason}", why)
    note = with_partition(_REMEDY, settings)
    digits = _digits(parts["train"], parts["validation"], parts["test"], source, note, keep, bundled=True)
    return replace(digits, info=replace(digits.info, parts=dealt_counts(wanted.y, settings, len(keep))))


def _digits(
    train: Labelled,
    validation: Labelled,
    test: Labelled,
    source: str,
    note: str,
    keep: Sequence[int],
    bundled: bool = False,
    sample: bool = False,
) -> Digits:
    sides = {"train": train, "validation": validation, "test": test}
    rows = {side: len(data) for side, data in sides.items()}
    if not all(rows.values()):
        words = ", ".join(f"{n} in {side}" for side, n in rows.items())
        raise DataMissing(text("too few rows for this shard: {counts}", words), text("use fewer shards"))
    counts = {side: np.bincount(data.y, minlength=len(keep)).tolist() for side, data in sides.items()}
    info = DataInfo(source, rows, tuple(str(digit) for digit in keep), sample, note, counts, fingerprint(sides))
    return Digits(train, validation, test, info, bundled)


def _kept(data: Labelled, keep: Sequence[int]) -> Labelled:
    """The rows of these digits, their labels numbered from 0; not copied where all of them are kept."""
    wanted = np.isin(data.y, keep)
    numbers = np.zeros(256, np.int64)
    numbers[list(keep)] = np.arange(len(keep))
    return Labelled(data.x if wanted.all() else data.x[wanted], numbers[data.y[wanted]])


def _split(data: Labelled, settings: TrainerSettings, name: str, shares: dict[str, float]) -> dict[str, Labelled]:
    path = settings.state_path / f"split-{name}.npz"
    rows = stored_split(path, data.x, data.y, shares, settings.seed)
    return {side: data.take(numbers) for side, numbers in rows.items()}


def find_mnist(folder: Path | None) -> tuple[Path, str, Labelled, Labelled] | None:
    """Where something was found, what in words, train part, test part."""
    if folder is None:
        return None
    for place in (folder / "mnist", folder / "mnist" / "raw", folder / "MNIST" / "raw"):
        files = [_idx_file(place, stem) for stem in _STEMS]
        if all(files):
            a, b, c, d = (read_idx(file) for file in files if file)
            return place, text("MNIST idx files in {folder}", place), _checked(a, b, place), _checked(c, d, place)
    for file in (folder / "mnist.npz", folder / "mnist" / "mnist.npz"):
        if file.is_file():
            a, b, c, d = read_npz(file)
            return file, text("MNIST in {file}", file), _checked(a, b, file), _checked(c, d, file)
    return None


def _idx_file(folder: Path, stem: str) -> Path | None:
    dotted = stem.replace("-idx", ".idx")
    names = (stem, f"{stem}.gz", dotted, f"{dotted}.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _checked(x: Array, y: Array, place: Path) -> Labelled:
    if x.ndim != 3 or x.shape[1:] != (SIDE, SIDE) or x.dtype != np.uint8:
        raise TrainerError(
            text(
                "{path}: images are {dtype} {shape}; expected uint8 [n, {height}, {width}]",
                place,
                x.dtype,
                list(x.shape),
                SIDE,
                SIDE,
            )
        )
    if y.ndim != 1 or y.dtype.kind not in "iu" or (y.size and (y.min() < 0 or y.max() > 9)):
        raise TrainerError(
            text("{path}: labels are {dtype} {shape}; expected digits [n], 0 to 9", place, y.dtype, list(y.shape))
        )
    return Labelled(x, y)


def _scikit_digits() -> Labelled:
    """All 1797 digits at the size of MNIST's."""
    small = scikit_digits()
    return Labelled(enlarged(small.x / 16.0), small.y)


def scikit_digits() -> Labelled:
    """All 1797 digits: images (n, 8, 8) uint8 from 0 to 16, labels int64.

    The file is read past scikit-learn, whose import costs a second and 80 MB a node.

    Raises:
        DataMissing: scikit-learn is not there.
    """
    spec = importlib.util.find_spec("sklearn")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for path in (Path(folder, "datasets", "data", "digits.csv.gz") for folder in folders):
        if path.is_file():
            with gzip.open(path, "rt", encoding="ascii") as file:
                table = np.loadtxt(file, np.uint8, delimiter=",")
            return Labelled(table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64))
    try:
        from sklearn.datasets import load_digits as bundled  # noqa: PLC0415  another version, another file
    except ImportError as exc:
        raise DataMissing(text("neither MNIST nor scikit-learn's digits are here"), _REMEDY) from exc
    data = bundled()
    return Labelled(data.images.astype(np.uint8), data.target.astype(np.int64))


def enlarged(images: Array) -> Array:
    """Images (n, 8, 8) in [0, 1] as bytes (n, 28, 28): bilinear to 20x20, centred, as MNIST's digits are."""
    inside, margin = 20, 4
    at = (np.arange(inside) + 0.5) * 8 / inside - 0.5
    weights = np.maximum(0.0, 1.0 - np.abs(np.clip(at, 0, 7)[:, None] - np.arange(8)[None, :]))
    out = np.zeros((len(images), SIDE, SIDE), np.uint8)
    out[:, margin:-margin, margin:-margin] = np.rint(255 * (weights @ images @ weights.T))
    return out
