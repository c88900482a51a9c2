"""Whether files of data sets are whole: checksums of published ones, and that the others can be read."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.errors import DataMissing, TrainerError
from flnet.training.download import DATA_SETS, DataSet
from flnet.training.idx import read_idx
from flnet.training.samples import is_sample

_PIECE = 1024 * 1024
_FAULTS = (OSError, ValueError, EOFError, SyntaxError, zlib.error, zipfile.BadZipFile, csv.Error, TrainerError)


@dataclass(frozen=True)
class Finding:
    """One file: what was found right, or what is wrong with it; neither where nothing is known of its kind."""

    path: Path
    right: str = ""
    fault: str = ""


def looked_through(folder: Path) -> Iterator[Finding]:
    """All files below a folder, in order; hidden ones are passed over.

    Raises:
        DataMissing: there is no such folder.
    """
    if not folder.is_dir():
        raise DataMissing(f"{folder} is no folder", "name the folder of the data sets with --path")
    known = {folder / one.folder / file.name: file.sha256 for one in DATA_SETS.values() for file in one.files}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield _looked_at(path, "" if is_sample(path) else known.get(path, ""))


def missing_files(one: DataSet, folder: Path) -> list[str]:
    """Which files of a published data set are not there."""
    return [file.name for file in one.files if not (folder / one.folder / file.name).is_file()]


def _looked_at(path: Path, sha256: str) -> Finding:
    try:
        if sha256:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    return Finding(path, fault="its checksum is not that of the published file")
            return Finding(path, "checksum")
        look = _looks().get(path.suffix.lower())
        return Finding(path) if look is None else Finding(path, look(path))
    except _FAULTS as exc:
        return Finding(path, fault=str(exc) or type(exc).__name__)


def _looks() -> Mapping[str, Callable[[Path], str]]:
    pictures = dict.fromkeys((".png", ".jpg", ".jpeg"), _picture)
    return {".npz": _arrays, ".npy": _array, ".gz": _packed, ".csv": _rows, ".zip": _zip, **pictures}


def _arrays(path: Path) -> str:
    """Every array, read whole: that checks the sums that the container has of each."""
    _zip(path)
    with np.load(path, allow_pickle=False) as file:
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
    """As many values in each row as in the header."""
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
