"""Published data sets: what can be downloaded, the download with its checksum, and a check of files on disk."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import numpy as np

from flnet.datasets.files import replacing
from flnet.datasets.labelled import UNREADABLE, open_npz, read_idx
from flnet.datasets.samples import is_sample
from flnet.errors import DataMissing, TrainerError
from flnet.text import text

_PIECE_BYTES = 256 * 1024
_TIMEOUT_S = 30.0  # without a byte
_MARGIN_BYTES = 1024 * 1024  # beyond the stated size, before a server is cut off

Report = Callable[[int, int], None]  # (bytes so far, bytes in all)


@dataclass(frozen=True)
class PublishedFile:
    """One published file: its address, checksum and size."""

    url: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class PublishedData:
    """A data set that can be downloaded: its folder below FLNET_DATASETS_PATH, and its files."""

    folder: str
    words: str
    files: tuple[PublishedFile, ...]


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"

DATA_SETS = {
    "mnist": PublishedData(
        "mnist",
        "MNIST, handwritten digits (LeCun, Cortes, Burges 1998): 70,000 images of 28x28",
        (
            PublishedFile(
                _MNIST + "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9_912_422,
            ),
            PublishedFile(
                _MNIST + "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                28_881,
            ),
            PublishedFile(
                _MNIST + "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1_648_877,
            ),
            PublishedFile(
                _MNIST + "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                4_542,
            ),
        ),
    ),
    "cifar10": PublishedData(
        "cifar10",
        "CIFAR-10, photographs of ten kinds of things (Krizhevsky 2009): 60,000 images of 32x32",
        (
            PublishedFile(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            ),
        ),
    ),
}


def fetch(url: str, sha256: str, target: Path, size: int, report: Report = lambda done, total: None) -> bool:
    """Download one file, unless it exists already; returns whether anything was downloaded.

    The file appears under its name when it is complete and its checksum is right, and not before.

    Args:
        url: https or http.
        sha256: of the contents, 64 hex digits.
        target: the file.
        size: in bytes, about; a server that sends much more is cut off.
        report: called with the bytes so far and in all.

    Raises:
        DataMissing: no connection, an error, a broken or wrong body, or no room; says what to do.
    """
    remedy = text("try again later, or put the file at {path} yourself", target)
    if target.is_file() and _digest(target) == sha256:
        return False
    try:
        with replacing(target) as file:
            if words := _write(url, sha256, file, size, report):
                raise DataMissing(words, remedy)
        target.chmod(0o644)  # public data; a temporary file is its owner's alone
    except httpx.HTTPStatusError as exc:
        raise DataMissing(text("{url} was answered with {status}", url, exc.response.status_code), remedy) from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise DataMissing(
            text("{url} could not be fetched: {reason}", url, exc or type(exc).__name__), remedy
        ) from exc
    except OSError as exc:
        raise DataMissing(
            text("{path} could not be written: {reason}", target, exc), text("make room, or name another folder")
        ) from exc
    return True


def _write(url: str, sha256: str, file: IO[bytes], size: int, report: Report) -> str:
    """Write what a server sends to a file; return why that is not what was expected, empty if it is."""
    total, done = hashlib.sha256(), 0
    with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as answer:
        answer.raise_for_status()
        for piece in answer.iter_raw(_PIECE_BYTES):
            done += len(piece)
            if done > size + _MARGIN_BYTES:
                return text("{url} sends more than the {count} bytes expected", url, size)
            total.update(piece)
            file.write(piece)
            report(done, size)
    if total.hexdigest() == sha256:
        return ""
    got = text("{count} bytes with sha256 {digest}...", done, total.hexdigest()[:16])
    return text("{url} is not the published file: got {value}, expected {expected}...", url, got, sha256[:16])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_PIECE = 1024 * 1024
_FAULTS = (*UNREADABLE, SyntaxError, csv.Error, TrainerError)


@dataclass(frozen=True)
class FileCheck:
    """The check of one file: what is right or wrong with it; both empty for an unknown kind of file."""

    path: Path
    right: str = ""
    fault: str = ""


def check_files(folder: Path) -> Iterator[FileCheck]:
    """Check all files below a folder, in order; hidden files are skipped.

    Raises:
        DataMissing: there is no such folder.
    """
    if not folder.is_dir():
        raise DataMissing(f"{folder} is no folder", "name the folder of the data sets with --path")
    known = {
        folder / data_set.folder / file.name: file.sha256
        for data_set in DATA_SETS.values()
        for file in data_set.files
    }
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield _looked_at(path, "" if is_sample(path) else known.get(path, ""))


def missing_files(data_set: PublishedData, folder: Path) -> list[str]:
    """Names of the files of a published data set that are missing."""
    return [file.name for file in data_set.files if not (folder / data_set.folder / file.name).is_file()]


def _looked_at(path: Path, sha256: str) -> FileCheck:
    try:
        if sha256:
            if _digest(path) != sha256:
                return FileCheck(path, fault="its checksum is not that of the published file")
            return FileCheck(path, "checksum")
        look = _looks().get(path.suffix.lower())
        return FileCheck(path) if look is None else FileCheck(path, look(path))
    except _FAULTS as exc:
        return FileCheck(path, fault=str(exc) or type(exc).__name__)


def _looks() -> Mapping[str, Callable[[Path], str]]:
    pictures = dict.fromkeys((".png", ".jpg", ".jpeg"), _picture)
    return {".npz": _arrays, ".npy": _array, ".gz": _packed, ".csv": _rows, ".zip": _zip, **pictures}


def _arrays(path: Path) -> str:
    """Read every array, which checks the checksums of the container."""
    _zip(path)
    with open_npz(path) as file:
        return ", ".join(f"{name} {list(file[name].shape)}" for name in file.files)


def _array(path: Path) -> str:
    return str(list(np.load(path, mmap_mode="r", allow_pickle=False).shape))


def _packed(path: Path) -> str:
    if "ubyte" in path.name:
        return str(list(read_idx(path).shape))
    with gzip.open(path) as file:
        while file.read(_PIECE):
            pass
    return "unpacks"


def _zip(path: Path) -> str:
    with zipfile.ZipFile(path) as file:
        if bad := file.testzip():
            raise ValueError(f"{bad} in it is damaged")
        return f"{len(file.namelist())} files"


def _rows(path: Path) -> str:
    """Check that each row has as many values as the header."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        width, rows = len(next(reader, [])), 0
        for row in reader:
            rows += bool(row)
            if row and len(row) != width:
                raise ValueError(f"line {reader.line_num}: {len(row)} values for {width} columns")
    return f"{rows} rows, {width} columns"


def _picture(path: Path) -> str:
    try:
        from PIL import Image  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  not for all data
    except ImportError:
        return ""  # nothing can be said of it
    try:
        with Image.open(path) as picture:
            picture.load()
            return f"{picture.width}x{picture.height}"
    except Image.DecompressionBombError as exc:
        raise ValueError(str(exc)) from exc
